//! Acknowledged appends and a final read: lost, duplicated, reordered or invented records.
//!
//! Runs in O(n log n) time and O(n) memory for n appends.

use std::collections::BTreeMap;
use std::fmt;

/// One append of one record, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The record's content; unique in the history.
    pub record: Vec<u8>,
    /// When the client began, on any clock shared by all clients.
    pub invoked: u64,
    /// What the client learnt.
    pub outcome: Outcome,
}

/// What a client learnt about an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged at this time, on the clock of `invoked`.
    Acknowledged(u64),
    /// Refused: it did not happen.
    Refused,
    /// Nobody knows: it may be in the log, once, or not.
    Unknown,
}

/// What the judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The read is possible.
    Ok,
    /// It is not; the smallest evidence.
    Violation(Evidence),
}

/// Why a read is impossible. Positions are places in the read, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// An acknowledged record is not there.
    Lost {
        /// The record.
        record: Vec<u8>,
    },
    /// A record is there twice.
    Duplicated {
        /// The record.
        record: Vec<u8>,
        /// Where.
        positions: (usize, usize),
    },
    /// A record is there that was refused or that nobody wrote.
    Invented {
        /// The record.
        record: Vec<u8>,
        /// Where.
        position: usize,
    },
    /// `first` was acknowledged before `second` was begun, but stands after it.
    Reordered {
        /// The record that came first in real time.
        first: Vec<u8>,
        /// The record that came later.
        second: Vec<u8>,
        /// Where they stand.
        positions: (usize, usize),
    },
    /// Two appends of the history have the same content: nothing can be judged.
    Ambiguous {
        /// The content.
        record: Vec<u8>,
    },
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Evidence::Lost { record } => {
                write!(f, "acknowledged record `{}` is lost", text(record))
            }
            Evidence::Duplicated { record, positions } => {
                let (a, b) = positions;
                write!(f, "record `{}` stands at {a} and at {b}", text(record))
            }
            Evidence::Invented { record, position } => {
                write!(f, "record `{}` at {position} was never accepted", text(record))
            }
            Evidence::Reordered { first, second, positions } => write!(
                f,
                "`{}` was acknowledged before `{}` began, but stands at {} after {}",
                text(first),
                text(second),
                positions.0,
                positions.1
            ),
            Evidence::Ambiguous { record } => {
                write!(f, "two appends have the content `{}`", text(record))
            }
        }
    }
}

/// Judges a final read of a log against the appends that were made.
#[must_use]
pub fn judge(appends: &[Append], read: &[Vec<u8>]) -> Verdict {
    match find(appends, read) {
        Some(evidence) => Verdict::Violation(evidence),
        None => Verdict::Ok,
    }
}

fn find(appends: &[Append], read: &[Vec<u8>]) -> Option<Evidence> {
    let mut by_record: BTreeMap<&[u8], &Append> = BTreeMap::new();
    for append in appends {
        if by_record.insert(&append.record, append).is_some() {
            return Some(Evidence::Ambiguous { record: append.record.clone() });
        }
    }
    let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (position, record) in read.iter().enumerate() {
        let known = by_record.get(record.as_slice());
        if known.is_none_or(|append| append.outcome == Outcome::Refused) {
            return Some(Evidence::Invented { record: record.clone(), position });
        }
        if let Some(first) = places.insert(record, position) {
            let positions = (first, position);
            return Some(Evidence::Duplicated { record: record.clone(), positions });
        }
    }
    let lost = appends.iter().find(|append| {
        matches!(append.outcome, Outcome::Acknowledged(_))
            && !places.contains_key(append.record.as_slice())
    });
    if let Some(append) = lost {
        return Some(Evidence::Lost { record: append.record.clone() });
    }
    reordered(&by_record, read)
}

/// Reading backwards, the earliest acknowledgement seen so far must not lie before the beginning
/// of a record further to the front.
fn reordered(by_record: &BTreeMap<&[u8], &Append>, read: &[Vec<u8>]) -> Option<Evidence> {
    let mut earliest: Option<(u64, usize)> = None;
    for (position, record) in read.iter().enumerate().rev() {
        let append = by_record.get(record.as_slice())?;
        if let Some((acknowledged, at)) = earliest
            && acknowledged < append.invoked
        {
            return Some(Evidence::Reordered {
                first: read[at].clone(),
                second: record.clone(),
                positions: (at, position),
            });
        }
        if let Outcome::Acknowledged(when) = append.outcome
            && earliest.is_none_or(|(acknowledged, _)| when < acknowledged)
        {
            earliest = Some((when, position));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(record: &str, invoked: u64, outcome: Outcome) -> Append {
        Append { record: record.into(), invoked, outcome }
    }

    fn read(records: &[&str]) -> Vec<Vec<u8>> {
        records.iter().map(|record| record.as_bytes().to_vec()).collect()
    }

    fn history() -> Vec<Append> {
        vec![
            append("a", 0, Outcome::Acknowledged(1)),
            append("b", 2, Outcome::Acknowledged(5)),
            append("c", 3, Outcome::Acknowledged(4)),
            append("d", 6, Outcome::Unknown),
            append("e", 7, Outcome::Refused),
        ]
    }

    #[test]
    fn possible_reads_are_accepted() {
        for good in [&["a", "b", "c"][..], &["a", "c", "b"], &["a", "c", "b", "d"]] {
            assert_eq!(judge(&history(), &read(good)), Verdict::Ok, "{good:?}");
        }
    }

    #[test]
    fn every_kind_of_violation_is_named() {
        let bad = |records: &[&str]| match judge(&history(), &read(records)) {
            Verdict::Violation(evidence) => evidence,
            Verdict::Ok => panic!("{records:?} was accepted"),
        };
        assert!(matches!(bad(&["a", "b"]), Evidence::Lost { .. }));
        assert!(matches!(bad(&["a", "b", "c", "c"]), Evidence::Duplicated { .. }));
        assert!(matches!(bad(&["a", "b", "c", "e"]), Evidence::Invented { .. }));
        assert!(matches!(bad(&["a", "b", "c", "x"]), Evidence::Invented { .. }));
        assert!(matches!(bad(&["b", "a", "c"]), Evidence::Reordered { .. }));
        assert!(matches!(bad(&["d", "a", "b", "c"]), Evidence::Reordered { .. }));
    }

    #[test]
    fn equal_contents_cannot_be_judged() {
        let twice = [append("a", 0, Outcome::Unknown), append("a", 1, Outcome::Unknown)];
        assert!(matches!(
            judge(&twice, &read(&["a"])),
            Verdict::Violation(Evidence::Ambiguous { .. })
        ));
    }

    /// Against the definition: some order of the appends, consistent with real time, whose
    /// accepted records are exactly the read.
    #[test]
    fn agrees_with_brute_force_on_all_small_histories() {
        let outcomes = |end| [Outcome::Acknowledged(end), Outcome::Refused, Outcome::Unknown];
        let spans = [(0, 1), (0, 3), (2, 3), (2, 5), (4, 5)];
        let mut judged = 0;
        for (a, b, c) in combinations(spans.len()) {
            for kinds in 0..27 {
                let pick = |span: usize, record: &str, kind: usize| {
                    let (invoked, end) = spans[span];
                    append(record, invoked, outcomes(end)[kind])
                };
                let appends =
                    [pick(a, "a", kinds % 3), pick(b, "b", kinds / 3 % 3), pick(c, "c", kinds / 9)];
                for order in READS {
                    let read = read(order);
                    let expected = possible(&appends, &read);
                    let found = judge(&appends, &read) == Verdict::Ok;
                    assert_eq!(found, expected, "{appends:?} {order:?}");
                    judged += 1;
                }
            }
        }
        assert_eq!(judged, 125 * 27 * READS.len());
    }

    const READS: [&[&str]; 16] = [
        &[],
        &["a"],
        &["b"],
        &["c"],
        &["a", "b"],
        &["b", "a"],
        &["a", "c"],
        &["c", "a"],
        &["b", "c"],
        &["c", "b"],
        &["a", "b", "c"],
        &["a", "c", "b"],
        &["b", "a", "c"],
        &["b", "c", "a"],
        &["c", "a", "b"],
        &["c", "b", "a"],
    ];

    fn combinations(count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..count)
            .flat_map(move |a| (0..count).flat_map(move |b| (0..count).map(move |c| (a, b, c))))
    }

    fn possible(appends: &[Append], read: &[Vec<u8>]) -> bool {
        let place = |append: &Append| read.iter().position(|record| *record == append.record);
        appends.iter().all(|append| match append.outcome {
            Outcome::Acknowledged(_) => place(append).is_some(),
            Outcome::Refused => place(append).is_none(),
            Outcome::Unknown => true,
        }) && appends.iter().all(|x| {
            appends.iter().all(|y| match (x.outcome, place(x), place(y)) {
                (Outcome::Acknowledged(end), Some(at_x), Some(at_y)) if end < y.invoked => {
                    at_x < at_y
                }
                _ => true,
            })
        })
    }
}
