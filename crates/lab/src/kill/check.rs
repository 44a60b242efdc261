//! What the child told, and whether the space agrees.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_judge::durability::{self, Append, Outcome, Verdict};
use anabranch_node::{Origin, Space, SqlOptions};
use anabranch_sql::Value;

use super::Report;
use super::load::{records, rows};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// Number of the line that announced it.
    invoked: u64,
    outcome: Outcome,
}

/// All calls of all lives, by kind and id.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    calls: BTreeMap<(String, String), Call>,
    /// Lines so far: the clock.
    now: u64,
    acknowledged: u64,
    unknown_happened: u64,
    records: u64,
}

impl Ledger {
    /// Takes the lines of one life. Others than ours (a test harness talks, too) are left out.
    pub(super) fn told(&mut self, lines: &[String]) -> Result<(), String> {
        for line in lines {
            self.now += 1;
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["try", kind, id] => {
                    let call = Call { invoked: self.now, outcome: Outcome::Unknown };
                    self.calls.insert(((*kind).to_owned(), (*id).to_owned()), call);
                }
                ["ack", kind, id] => {
                    let key = ((*kind).to_owned(), (*id).to_owned());
                    let call = self.calls.get_mut(&key);
                    let call = call.ok_or_else(|| format!("acknowledged untried: {line}"))?;
                    call.outcome = Outcome::Acknowledged(self.now);
                    self.acknowledged += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares, and holds the space to what it showed: what was unknown is known from now on.
    pub(super) fn compare(&mut self, space: &Space) -> Result<(), String> {
        let log = read(space)?;
        self.judge(&log)?;
        let seen: BTreeSet<&[u8]> = log.iter().map(Vec::as_slice).collect();
        let table = select(space)?;
        self.now += 1;
        let now = self.now;
        for ((kind, id), call) in &mut self.calls {
            let parts = records(kind, id)
                .iter()
                .map(|record| seen.contains(record.as_slice()))
                .chain(rows(kind, id).iter().map(|row| table.contains(row)))
                .collect::<Vec<_>>();
            let (Some(first), acknowledged) = (parts.first(), call.outcome != Outcome::Unknown)
            else {
                continue;
            };
            if parts.iter().any(|part| part != first) {
                return Err(format!("half of `{kind} {id}` is there: {parts:?}"));
            }
            if acknowledged && !first {
                return Err(format!("acknowledged `{kind} {id}` is lost"));
            }
            if !acknowledged && *first {
                call.outcome = Outcome::Acknowledged(now);
                self.unknown_happened += 1;
            }
        }
        self.adjacent(&log)?;
        self.records = log.len() as u64;
        self.keys(space)
    }

    fn judge(&self, log: &[Vec<u8>]) -> Result<(), String> {
        let appends: Vec<_> = self
            .calls
            .iter()
            .flat_map(|((kind, id), call)| {
                records(kind, id).into_iter().map(|record| Append {
                    record,
                    invoked: call.invoked,
                    outcome: call.outcome,
                })
            })
            .collect();
        match durability::judge(&appends, log) {
            Verdict::Ok => Ok(()),
            Verdict::Violation(evidence) => Err(evidence.to_string()),
        }
    }

    /// A batch, and what a promotion moves, stands in one block and in order.
    fn adjacent(&self, log: &[Vec<u8>]) -> Result<(), String> {
        let place: BTreeMap<&[u8], usize> =
            log.iter().enumerate().map(|(at, record)| (record.as_slice(), at)).collect();
        for (kind, id) in self.calls.keys() {
            let records = records(kind, id);
            let places: Vec<_> =
                records.iter().filter_map(|record| place.get(record.as_slice())).collect();
            if places.windows(2).any(|pair| *pair[0] + 1 != *pair[1]) {
                return Err(format!("the block of `{kind} {id}` is torn apart: {places:?}"));
            }
        }
        Ok(())
    }

    fn keys(&self, space: &Space) -> Result<(), String> {
        let calls = self.calls.iter().filter(|((kind, _), _)| kind == "keys");
        let (mut tried, mut acknowledged, mut newest) = (0, 0, (0, ""));
        for ((_, id), call) in calls {
            tried += 1;
            if let Outcome::Acknowledged(when) = call.outcome {
                acknowledged += 1;
                newest = newest.max((when, id.as_str()));
            }
        }
        let get = |key: &[u8]| {
            let found = space.get("main", "keys", key).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.map(|found| String::from_utf8_lossy(&found.value).into_owned()))
        };
        let count = get(b"count")?.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        if !(acknowledged..=tried).contains(&count) {
            return Err(format!("{count} increments, {acknowledged} acknowledged of {tried}"));
        }
        let found = get(b"newest")?;
        let found = found.as_deref().unwrap_or("");
        let call = self.calls.get(&("keys".to_owned(), found.to_owned()));
        let invoked = call.map_or(0, |call| call.invoked);
        let acknowledged = self.calls.get(&("keys".to_owned(), newest.1.to_owned()));
        if acknowledged.is_some_and(|newest| invoked < newest.invoked) {
            return Err(format!(
                "the newest key is `{found}`, after `{}` was acknowledged",
                newest.1
            ));
        }
        Ok(())
    }

    pub(super) fn report(&self, kills: u64) -> Report {
        Report {
            kills,
            tried: self.calls.len() as u64,
            acknowledged: self.acknowledged,
            unknown_happened: self.unknown_happened,
            records: self.records,
        }
    }
}

fn read(space: &Space) -> Result<Vec<Vec<u8>>, String> {
    let mut log = Vec::new();
    loop {
        let page = space.read("main", "log", log.len() as u64, 10_000);
        let page = page.map_err(|error| error.to_string())?;
        let count = page.records.len();
        log.extend(page.records.into_iter().map(|record| record.value));
        if log.len() as u64 >= page.length || count == 0 {
            return Ok(log);
        }
    }
}

fn select(space: &Space) -> Result<BTreeSet<String>, String> {
    let by = Origin::actor("kill");
    let mut ids = BTreeSet::new();
    let mut last = String::new();
    loop {
        let options = SqlOptions { read_only: true, ..SqlOptions::default() };
        let sql = "SELECT id FROM t WHERE id > ?1 ORDER BY id LIMIT 5000";
        let found = space.sql("main", sql, &[Value::Text(last.clone())], &options, &by);
        let found = found.map_err(|error| error.to_string())?;
        let before = ids.len();
        for row in found.rows {
            if let [Value::Text(id)] = row.as_slice() {
                last.clone_from(id);
                ids.insert(id.clone());
            }
        }
        if ids.len() == before {
            return Ok(ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(lines: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.told(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).unwrap();
        ledger
    }

    fn bytes(records: &[&str]) -> Vec<Vec<u8>> {
        records.iter().map(|record| record.as_bytes().to_vec()).collect()
    }

    #[test]
    fn lost_and_reordered_records_are_seen() {
        let ledger = ledger(&["try one 0-0", "ack one 0-0", "try one 0-1", "ack one 0-1"]);
        assert!(ledger.judge(&bytes(&["one 0-0 0", "one 0-1 0"])).is_ok());
        assert!(ledger.judge(&bytes(&["one 0-0 0"])).unwrap_err().contains("lost"));
        assert!(ledger.judge(&bytes(&["one 0-1 0", "one 0-0 0"])).is_err());
    }

    #[test]
    fn a_batch_that_is_torn_apart_is_seen() {
        let ledger = ledger(&["try batch 0-0", "try one 0-0"]);
        let log = bytes(&["batch 0-0 0", "batch 0-0 1", "batch 0-0 2", "one 0-0 0"]);
        assert!(ledger.adjacent(&log).is_ok());
        let log = bytes(&["batch 0-0 0", "one 0-0 0", "batch 0-0 1", "batch 0-0 2"]);
        assert!(ledger.adjacent(&log).is_err());
    }
}
