//! What to do with one slot of the journal after a crash: facts, table, action.
//!
//! A record and its identifier are written in one flush, far apart. A flush is *confirmed* once
//! anything of a later flush is on disk, because that was started only after the earlier flush's
//! fdatasync had returned. At most the newest flush is unconfirmed. It is *incomplete* when some
//! record of it has neither record nor identifier: then its fdatasync never returned, nothing of
//! it was acknowledged, and all of it may go from the first bad record on.
//!
//! What cannot be decided on one disk: a complete-looking newest flush whose record is bad while
//! its identifier is there. A crash may have left that, or damage after the acknowledgement. The
//! table sets such records aside and the journal refuses to open without `accept_loss`.

/// What stands where a record or identifier should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Verified, and it is the one that belongs there.
    Intact,
    /// Zero: never written, or lost.
    Absent,
    /// Anything else.
    Bad,
}

/// Everything the decision depends on.
#[expect(clippy::struct_excessive_bools, reason = "the inputs of a decision table")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The record.
    pub record: Presence,
    /// Its identifier.
    pub identifier: Presence,
    /// Both are intact and say the same.
    pub agree: bool,
    /// The identifier is intact and names a kind that holds no data (confirm, seal).
    pub empty: bool,
    /// A later flush has left something on disk.
    pub confirmed: bool,
    /// The flush is the newest and was provably not finished.
    pub incomplete: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record is good.
    Keep,
    /// The record is good; write its identifier again.
    RepairIdentifier,
    /// The record holds nothing; write it again from its identifier.
    RepairRecord,
    /// Left by an interrupted flush, never acknowledged: cut the journal here.
    Cut,
    /// Interrupted or damaged, nobody can tell: refuse, or move aside when told so.
    SetAside,
    /// Was durable and is damaged: refuse.
    Damaged,
}

/// One row: the facts it covers (`None` and empty slices of choice mean "any") and the action.
#[derive(Debug)]
pub struct Row {
    record: &'static [Presence],
    identifier: &'static [Presence],
    agree: Option<bool>,
    empty: Option<bool>,
    confirmed: Option<bool>,
    incomplete: Option<bool>,
    /// The action.
    pub action: Action,
    /// Why, for people.
    pub why: &'static str,
}

use Presence::{Absent, Bad, Intact};

const LOST: &[Presence] = &[Absent, Bad];

const ANY: Row = Row {
    record: &[],
    identifier: &[],
    agree: None,
    empty: None,
    confirmed: None,
    incomplete: None,
    action: Action::Damaged,
    why: "",
};

/// The table; every possible combination of facts is covered by exactly one row.
pub const TABLE: &[Row] = &[
    Row {
        record: &[Intact],
        identifier: &[Intact],
        agree: Some(true),
        action: Action::Keep,
        why: "record and identifier agree",
        ..ANY
    },
    Row {
        record: &[Intact],
        identifier: &[Intact],
        agree: Some(false),
        confirmed: Some(true),
        action: Action::Damaged,
        why: "record and identifier are of different records",
        ..ANY
    },
    Row {
        record: &[Intact],
        identifier: &[Intact],
        agree: Some(false),
        confirmed: Some(false),
        action: Action::SetAside,
        why: "record and identifier of the newest flush are of different records",
        ..ANY
    },
    Row {
        record: &[Intact],
        identifier: LOST,
        action: Action::RepairIdentifier,
        why: "the identifier is lost, the record is intact",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Intact],
        empty: Some(true),
        action: Action::RepairRecord,
        why: "the record is lost, but held nothing that its identifier does not say",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Intact],
        empty: Some(false),
        confirmed: Some(true),
        action: Action::Damaged,
        why: "the identifier is intact and a later flush confirms it, the record is lost",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Intact],
        empty: Some(false),
        confirmed: Some(false),
        incomplete: Some(true),
        action: Action::Cut,
        why: "the record belongs to a flush that never finished",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Intact],
        empty: Some(false),
        confirmed: Some(false),
        incomplete: Some(false),
        action: Action::SetAside,
        why: "the identifier of the newest flush is there, its record is lost",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Absent],
        confirmed: Some(true),
        action: Action::Damaged,
        why: "record and identifier are lost, later flushes are there",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Absent],
        confirmed: Some(false),
        action: Action::Cut,
        why: "neither record nor identifier was finished",
        ..ANY
    },
    Row {
        record: LOST,
        identifier: &[Bad],
        confirmed: Some(true),
        action: Action::Damaged,
        why: "record and identifier are damaged, later flushes are there",
        ..ANY
    },
    Row {
        record: &[Absent],
        identifier: &[Bad],
        confirmed: Some(false),
        action: Action::Cut,
        why: "no record was written here, the identifier is noise",
        ..ANY
    },
    Row {
        record: &[Bad],
        identifier: &[Bad],
        confirmed: Some(false),
        incomplete: Some(true),
        action: Action::Cut,
        why: "the record belongs to a flush that never finished",
        ..ANY
    },
    Row {
        record: &[Bad],
        identifier: &[Bad],
        confirmed: Some(false),
        incomplete: Some(false),
        action: Action::SetAside,
        why: "record and identifier of the newest flush are damaged",
        ..ANY
    },
];

impl Row {
    fn covers(&self, facts: Facts) -> bool {
        let any = |allowed: Option<bool>, fact: bool| allowed.is_none_or(|allowed| allowed == fact);
        self.record.contains(&facts.record)
            && self.identifier.contains(&facts.identifier)
            && any(self.agree, facts.agree)
            && any(self.empty, facts.empty)
            && any(self.confirmed, facts.confirmed)
            && any(self.incomplete, facts.incomplete)
    }
}

/// Looks the facts up.
pub fn decide(facts: Facts) -> &'static Row {
    assert!(!facts.agree || (facts.record == Intact && facts.identifier == Intact));
    assert!(!facts.empty || facts.identifier == Intact);
    assert!(!(facts.confirmed && facts.incomplete), "only the newest flush can be incomplete");
    TABLE.iter().find(|row| row.covers(facts)).expect("the table covers everything")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_facts() -> Vec<Facts> {
        let mut all = Vec::new();
        for record in [Intact, Absent, Bad] {
            for identifier in [Intact, Absent, Bad] {
                for bits in 0..16 {
                    let bit = |n: u32| bits & (1 << n) != 0;
                    let (agree, empty, confirmed, incomplete) = (bit(0), bit(1), bit(2), bit(3));
                    all.push(Facts { record, identifier, agree, empty, confirmed, incomplete });
                }
            }
        }
        all.retain(|facts| {
            (!facts.agree || (facts.record == Intact && facts.identifier == Intact))
                && (!facts.empty || facts.identifier == Intact)
                && !(facts.confirmed && facts.incomplete)
        });
        all
    }

    #[test]
    fn exactly_one_row_covers_every_combination() {
        let all = all_facts();
        assert_eq!(all.len(), 42);
        for facts in all {
            let rows = TABLE.iter().filter(|row| row.covers(facts)).count();
            assert_eq!(rows, 1, "{facts:?}");
        }
    }

    #[test]
    fn every_row_is_reached() {
        let all = all_facts();
        for row in TABLE {
            assert!(all.iter().any(|facts| row.covers(*facts)), "{}", row.why);
        }
    }

    #[test]
    fn what_the_table_must_never_do() {
        for facts in all_facts() {
            let action = decide(facts).action;
            if facts.confirmed {
                assert_ne!(action, Action::Cut, "confirmed records are never cut: {facts:?}");
                assert_ne!(action, Action::SetAside, "nor given up: {facts:?}");
            }
            if facts.record != Intact {
                assert!(action != Action::Keep && action != Action::RepairIdentifier);
            }
            assert!(
                !(facts.record == Intact && action == Action::Cut),
                "an intact record is never cut by itself: {facts:?}"
            );
            let sure = facts.identifier == Intact && !facts.incomplete && !facts.empty;
            if sure && facts.record != Intact {
                assert_ne!(action, Action::Cut, "an identifier may stand for an acknowledgement");
            }
        }
    }
}
