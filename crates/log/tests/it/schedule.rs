//! Random schedules: the state and its naive twin must agree after every step.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_log::*;
use proptest::prelude::*;

use crate::model::{Event, Model, StreamId, Twig, newest, place};
use crate::support::entry;

/// One step's random numbers; small ones shrink towards simple steps.
type Roll = [u8; 8];

/// Stream, key and value of a record.
type Record = (StreamName, Option<Key>, Option<Vec<u8>>);

struct Twin {
    state: State,
    model: Model,
    /// Every record's bytes, from the changes alone.
    records: BTreeMap<u64, Record>,
    /// What each view showed last.
    seen: BTreeMap<(u64, StreamId), Vec<u64>>,
    /// Admitted nil-external entries that are not ordered yet.
    pending: Vec<Entry>,
    /// Entries applied in sessions, for retries.
    past: Vec<Entry>,
    next_seq: BTreeMap<u64, u64>,
    closed: BTreeSet<BranchId>,
    retired: BTreeSet<BranchId>,
    deepest: u32,
    /// How often each kind of answer came.
    reached: BTreeMap<&'static str, u64>,
}

fn streams() -> [StreamName; 2] {
    ["s", "t"].map(|name| StreamName::new(name).unwrap())
}

fn keys() -> Vec<Key> {
    ["a", "ab", "b", "c"].map(|name| Key::new(name).unwrap()).into()
}

impl Twin {
    fn new() -> Twin {
        Twin {
            state: State::new(),
            model: Model::new(),
            records: BTreeMap::new(),
            seen: BTreeMap::new(),
            pending: Vec::new(),
            past: Vec::new(),
            next_seq: BTreeMap::new(),
            closed: BTreeSet::new(),
            retired: BTreeSet::new(),
            deepest: 0,
            reached: BTreeMap::new(),
        }
    }

    /// Any branch; mostly an open one, often the newest.
    fn pick(&self, roll: u8) -> BranchId {
        let all = self.model.twigs.len() as u64;
        if roll > 240 {
            return BranchId(u64::from(roll) % (all + 1));
        }
        let open: Vec<u64> = (0..all)
            .filter(|i| self.model.twigs[place(BranchId(*i))].status == Status::Open)
            .collect();
        let newest = open.len() - 1;
        BranchId(open[if roll % 3 == 2 { newest } else { usize::from(roll / 3) % open.len() }])
    }

    fn step(&mut self, roll: Roll) {
        let [what, a, b, c, d, ..] = roll;
        let branch = self.pick(a);
        let stream = streams()[usize::from(b % 2)].clone();
        let key = keys()[usize::from(c % 4)].clone();
        let value = match d % 3 {
            0 => b"text".to_vec(),
            _ => d.to_string().into_bytes(),
        };
        let operation = match what {
            0..=49 => {
                let records = (0..=d % 3).map(|i| vec![i, c]).collect();
                Operation::Append { branch, stream, expected: None, records }
            }
            50..=59 => {
                let length = self.state.length(branch, &stream);
                let expected = Some(Offset(length.saturating_sub(u64::from(c % 4 == 3))));
                Operation::Append { branch, stream, expected, records: vec![value] }
            }
            60..=89 => Operation::Put { branch, stream, key, value },
            90..=99 => Operation::Delete { branch, stream, key },
            100..=109 => {
                let newest = self.state.get(branch, &stream, &key).filter(|v| !v.deleted);
                let expected = newest.map(|version| version.index).filter(|_| d % 4 != 3);
                let value = (d % 2 == 0).then_some(value);
                Operation::Cas { branch, stream, key, expected, value }
            }
            110..=124 => {
                let delta = if d == 255 { i64::MAX } else { i64::from(d) - 100 };
                Operation::Incr { branch, stream, key, delta }
            }
            125..=164 => self.fork(branch, roll),
            165..=184 => self.closing(branch, roll),
            185..=214 => match self.second_phase(roll) {
                Some(operation) => operation,
                None => return,
            },
            215..=226 => self.commit(branch, roll),
            227..=229 => {
                let (name, sql) = (format!("c{}", d % 2), String::from("select 1"));
                Operation::AddCheck { branch, name, sql }
            }
            230..=231 => Operation::DropCheck { branch, name: format!("c{}", d % 2) },
            232..=234 => Operation::OpenSession { owner: String::new() },
            235 => Operation::CloseSession { session: SessionId(u64::from(d % 6)) },
            236 => Operation::Checkpoint,
            237..=244 => return self.retry(d),
            _ => return self.order_pending(),
        };
        self.submit(operation, roll);
    }

    fn fork(&self, parent: BranchId, [_, _, b, c, d, e, ..]: Roll) -> Operation {
        let live = b % 2 == 0;
        let now = self.state.applied_index().0;
        let at = match c % 4 {
            _ if live && c < 250 => None,
            0 | 1 => None,
            2 => Some(Index(now.saturating_sub(u64::from(d) % 16))),
            _ => Some(Index(u64::from(d) * (now + 2) / 255)),
        };
        Operation::Fork {
            parent,
            name: BranchName::new(&format!("b{}", e % 24)).unwrap(),
            kind: if live { ForkKind::Live } else { ForkKind::Frozen },
            at,
            owner: String::from("o"),
            ttl_ms: (d % 2 == 0).then_some(u64::from(d) * 10),
        }
    }

    fn closing(&self, branch: BranchId, [_, _, b, c, ..]: Roll) -> Operation {
        let purpose = match b % 8 {
            0..=3 => match self.state.promotion_target(branch) {
                Ok(into) => Purpose::Promote { into },
                Err(_) => Purpose::Promote { into: self.pick(c) },
            },
            4 => Purpose::Promote { into: self.pick(c) },
            5 => Purpose::Discard,
            _ => {
                let last_used = self.model.twigs.get(place(branch)).map_or(0, |t| t.last_used);
                Purpose::Expire { last_used: Index(last_used + u64::from(c % 8 == 7)) }
            }
        };
        Operation::Closing { branch, purpose }
    }

    /// Something with a closing branch, mostly what it is closing for.
    fn second_phase(&self, [_, a, b, c, d, ..]: Roll) -> Option<Operation> {
        let closing: Vec<(u64, Index, Purpose)> = (0..)
            .zip(&self.model.twigs)
            .filter_map(|(i, twig)| match twig.status {
                Status::Closing { at, purpose } => Some((i, at, purpose)),
                _ => None,
            })
            .collect();
        if closing.is_empty() {
            return None;
        }
        let (branch, at, purpose) = closing[usize::from(a) % closing.len()];
        let (branch, closing) = (BranchId(branch), Index(at.0 + u64::from(d > 250)));
        Some(match (purpose, b % 8) {
            (_, 7) => Operation::Reopen { branch, closing },
            (Purpose::Promote { into }, 0..=5) => self.promote(branch, closing, into, c, d),
            (Purpose::Promote { .. }, _) => self.promote(branch, closing, self.pick(d), c, d),
            _ => Operation::Discard { branch, closing },
        })
    }

    fn promote(&self, branch: BranchId, closing: Index, into: BranchId, c: u8, d: u8) -> Operation {
        let target_tables = self.state.branch(into).map_or(TableVersion::default(), Branch::tables);
        let mut leave_out = Vec::new();
        let mut overwrite = Vec::new();
        for (i, conflict) in self.state.key_conflicts(branch, into).into_iter().enumerate() {
            let KeyConflict { stream, key, theirs, .. } = conflict;
            match (usize::from(c) + i) % 5 {
                0 | 1 => overwrite.push(Overwrite { stream, key, theirs }),
                2 | 3 => leave_out.push((stream, key)),
                _ if d.is_multiple_of(4) => overwrite.push(Overwrite { stream, key, theirs: None }),
                _ => {}
            }
        }
        if d % 8 == 1 {
            leave_out.push((streams()[0].clone(), keys()[usize::from(c % 4)].clone()));
        }
        let tables = match d % 5 {
            0 => TablesChange::None,
            1 | 2 => TablesChange::TakeFork,
            _ => TablesChange::Body(Body::Inline(vec![c])),
        };
        let target_tables =
            if d == 249 { TableVersion(target_tables.0.plus(1)) } else { target_tables };
        let summary = vec![d];
        Operation::Promote {
            branch,
            closing,
            into,
            target_tables,
            tables,
            leave_out,
            overwrite,
            summary,
        }
    }

    fn commit(&self, branch: BranchId, [_, _, b, c, ..]: Roll) -> Operation {
        let of = self.state.branch(branch);
        let base = of.map_or(TableVersion::default(), Branch::tables);
        let base = if b % 8 == 7 { TableVersion::default() } else { base };
        let live = of.is_some_and(Branch::is_live) != (c % 16 == 15);
        Operation::Commit {
            branch,
            base,
            parent: live.then_some(base),
            body: Body::Inline(vec![b]),
            summary: vec![c],
        }
    }

    /// Gives the operation an identity, then orders it now or, if it may wait, later.
    fn submit(&mut self, operation: Operation, [.., e, f, _]: Roll) {
        let mut entry = entry(operation);
        let session = u64::from(e % 6).min(self.model.sessions_given);
        if e % 2 == 1 && session > 0 {
            let seq = self.next_seq.entry(session).or_insert(1);
            entry.id = WriteId { session: SessionId(session), seq: *seq, attempt: 0 };
            *seq += 1;
            let waiting = self.pending.iter().filter(|p| p.id.session.0 == session);
            let open = waiting.map(|p| p.id.seq).min().unwrap_or(entry.id.seq);
            entry.answered = (open - 1).saturating_sub(u64::from(f % 4));
        }
        if f % 5 == 0 && entry.operation.is_nil_external() {
            if self.state.admit(&entry).is_ok() {
                self.pending.push(entry);
            }
            return;
        }
        let _ = self.order(&entry);
    }

    fn retry(&mut self, roll: u8) {
        if self.past.is_empty() {
            return;
        }
        let at = self.past.len() - 1 - usize::from(roll) % self.past.len().min(8);
        let entry = self.past[at].clone();
        let _ = self.order(&entry);
    }

    /// Orders what was admitted: nothing of it may be refused for any reason but an end.
    fn order_pending(&mut self) {
        for entry in std::mem::take(&mut self.pending) {
            let applied = self.order(&entry);
            if let Err(refusal) = applied.outcome {
                let ended = [Kind::BranchClosed, Kind::SessionExpired];
                assert!(ended.contains(&refusal.kind()), "refused after admission: {refusal}");
            }
        }
    }

    /// Applies an entry to both, compares, and follows the changes.
    fn order(&mut self, entry: &Entry) -> Applied {
        let next = self.state.next_index();
        let admitted = self.state.admit(entry);
        let applied = self.state.apply(entry);
        let (answer, replayed) = self.model.apply(entry);
        assert_eq!(applied.outcome.clone().map_err(|refusal| refusal.kind()), answer, "{entry:?}");
        assert_eq!(applied.replayed, replayed);
        assert_eq!(applied.first, next);
        assert_eq!(self.state.next_index(), next.plus(applied.count));
        assert_eq!(self.state.next_index().0, self.model.next);
        if admitted.is_err() {
            let nil_external_while_closing = entry.operation.is_nil_external();
            assert!(
                applied.outcome.is_err() || nil_external_while_closing,
                "admission refused what apply takes: {entry:?}"
            );
        } else if entry.operation.is_nil_external() && !replayed {
            assert!(applied.outcome.is_ok(), "refused right after admission: {entry:?}");
        }
        if entry.id.session != SessionId::NONE && !replayed {
            self.past.push(entry.clone());
        }
        if let Ok(Outcome::Forked { branch, .. }) = applied.outcome {
            let depth = self.state.branch(branch).unwrap().depth();
            self.deepest = self.deepest.max(depth);
        }
        let reached = match &applied.outcome {
            Ok(_) => entry.operation.verb(),
            Err(refusal) => refusal.kind().code(),
        };
        *self.reached.entry(reached).or_default() += 1;
        if applied.replayed {
            *self.reached.entry("replayed").or_default() += 1;
        }
        if applied.outcome.is_ok()
            && let Operation::Promote { tables, leave_out, overwrite, .. } = &entry.operation
        {
            let takes = *tables == TablesChange::TakeFork;
            for (what, did) in [
                ("promote that takes pages", takes),
                ("promote that leaves out", !leave_out.is_empty()),
                ("promote that overwrites", !overwrite.is_empty()),
            ] {
                *self.reached.entry(what).or_default() += u64::from(did);
            }
        }
        self.follow(&applied);
        applied
    }

    fn follow(&mut self, applied: &Applied) {
        for change in &applied.changes {
            match change {
                Change::Record { index, stream, key, value, .. } => {
                    let record = (stream.clone(), key.clone(), value.clone());
                    assert!(self.records.insert(index.0, record).is_none(), "index given twice");
                }
                Change::Closed { branch } => assert!(self.closed.insert(*branch)),
                Change::Retired { branch } => {
                    assert!(self.closed.contains(branch) && self.retired.insert(*branch));
                    self.seen.retain(|(seen, _), _| *seen != branch.0);
                    assert!(self.state.branch(*branch).unwrap().is_retired());
                }
                Change::Forked { child, base, .. } => {
                    assert_eq!(self.state.branch(*child).unwrap().tables(), *base);
                }
                Change::TablesCommitted { branch, version }
                | Change::TablesTaken { into: branch, version, .. } => {
                    *self.reached.entry("tables").or_default() += 1;
                    assert_eq!(self.state.branch(*branch).unwrap().tables(), *version);
                }
                _ => {}
            }
        }
    }

    fn compare_all(&mut self) {
        self.state.assert_consistent();
        assert_eq!(self.state.branches().count(), self.model.twigs.len());
        for branch in 0..self.model.twigs.len() {
            self.compare(BranchId(branch as u64));
        }
    }

    fn compare(&mut self, id: BranchId) {
        let (branch, twig) = (self.state.branch(id).unwrap(), &self.model.twigs[place(id)]);
        assert_eq!(branch.status(), twig.status);
        assert_eq!(branch.created().0, twig.created);
        assert_eq!(branch.last_used().0, twig.last_used);
        assert_eq!(branch.depth(), twig.depth);
        assert_eq!(branch.forked_at().0, twig.from);
        assert_eq!(branch.tables().0.0, *twig.versions.last().unwrap());
        assert_eq!(branch.base_tables().0.0, twig.versions[0]);
        let retired = self.model.retired(place(id));
        assert_eq!(branch.is_retired(), retired);
        assert_eq!(self.retired.contains(&id), retired, "a retirement is told");
        assert_eq!(self.closed.contains(&id), twig.closed(), "an end is told");
        if branch.is_retired() {
            assert!(self.state.streams(id).is_empty());
            return;
        }
        assert_eq!(self.state.promotion_target(id).ok(), self.model.promotion_target(id));
        let commits: Vec<u64> = branch.commits().iter().map(|index| index.0).collect();
        assert_eq!(commits, twig.versions[1..]);
        assert_eq!(*self.state.checks(id), twig.checks);
        let expected: Vec<_> = twig
            .view
            .iter()
            .filter(|(_, events)| !events.is_empty())
            .map(|((kind, name), events)| (*kind, name.clone(), events.len() as u64))
            .collect();
        assert_eq!(self.state.streams(id), expected);
        for (stream, events) in &twig.view {
            compare_stream(&self.state, id, stream, events, twig.depth);
            let shown: Vec<u64> = events.iter().map(|event| event.index).collect();
            for event in events {
                let (name, key, value) = &self.records[&event.index];
                assert_eq!((name, key, value), (&stream.1, &event.key, &event.value));
            }
            let before = self.seen.insert((id.0, stream.clone()), shown.clone());
            assert!(shown.starts_with(&before.unwrap_or_default()), "an offset changed");
        }
        for name in streams() {
            compare_keys(&self.state, id, twig, &name);
        }
    }

    fn compare_conflicts(&self, roll: u8) {
        let (branch, into) = (self.pick(roll % 240), self.pick(roll.wrapping_mul(7) % 240));
        assert_eq!(
            self.state.key_conflicts(branch, into),
            self.model.conflicts(branch, into),
            "{branch} into {into}"
        );
    }

    /// Views as they were at an earlier index.
    fn compare_past(&self, roll: u8) {
        let id = self.pick(roll % 240);
        let twig = &self.model.twigs[place(id)];
        let at = twig.from + u64::from(roll) * (self.model.next - twig.from) / 255;
        let past = |events: &[Event]| -> Vec<Event> {
            events.iter().filter(|event| event.joined <= at).cloned().collect()
        };
        for name in streams() {
            let events = past(twig.events(&(StreamKind::Plain, name.clone())));
            assert_eq!(self.state.length_at(id, &name, Index(at)), events.len() as u64);
            let events = past(twig.events(&(StreamKind::Keyed, name.clone())));
            for key in keys() {
                let expected = newest(events.iter().filter(|e| e.key.as_ref() == Some(&key)));
                let found = self.state.get_at(id, &name, &key, Index(at));
                assert_eq!(found.map(|v| v.index.0), expected.map(|e| e.index), "at {at}");
            }
        }
    }
}

fn compare_stream(state: &State, id: BranchId, stream: &StreamId, events: &[Event], depth: u32) {
    let (kind, name) = stream;
    let expected: Vec<(Offset, Index)> =
        (0..).map(Offset).zip(events.iter().map(|event| Index(event.index))).collect();
    assert_eq!(state.read_kind(id, *kind, name, Offset(0), usize::MAX), expected, "{id} {name}");
    let half = events.len() / 2;
    let rest = state.read_kind(id, *kind, name, Offset(half as u64), 3);
    assert_eq!(rest, expected[half..(half + 3).min(events.len())]);
    let own: Vec<(Offset, Index)> = expected
        .iter()
        .zip(events)
        .filter(|(_, event)| event.depth == depth)
        .map(|(record, _)| *record)
        .collect();
    assert_eq!(state.own_records(id, *kind, name, 0, usize::MAX), own);
    assert_eq!(state.own_records(id, *kind, name, 1, 2), own[own.len().min(1)..own.len().min(3)]);
    if *kind == StreamKind::Plain {
        for (offset, index) in &expected {
            assert_eq!(state.locate(id, name, *offset), Some(*index));
        }
        assert_eq!(state.locate(id, name, Offset(events.len() as u64)), None);
        assert_eq!(state.locate(id, name, Offset(u64::MAX)), None);
        assert_eq!(state.length(id, name), events.len() as u64);
    } else {
        assert_eq!(state.versions(id, name), events.len() as u64);
    }
}

fn compare_keys(state: &State, id: BranchId, twig: &Twig, name: &StreamName) {
    let version =
        |event: &Event| KeyVersion { index: Index(event.index), deleted: event.value.is_none() };
    let mut live = Vec::new();
    for key in keys() {
        let newest = twig.get(name, &key);
        assert_eq!(state.get(id, name, &key), newest.map(version));
        if twig.parent.is_some() {
            assert_eq!(state.base_version(id, name, &key), twig.base(name, &key).map(version));
        }
        live.extend(newest.filter(|e| e.value.is_some()).map(|e| (key, version(e))));
    }
    live.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(state.scan(id, name, b"", None, usize::MAX), live);
    let after = Key::new("a").unwrap();
    let mut rest = live.clone();
    rest.retain(|(key, _)| *key > after);
    assert_eq!(state.scan(id, name, b"", Some(&after), 2), rest[..rest.len().min(2)]);
    let mut prefixed = live;
    prefixed.retain(|(key, _)| key.as_bytes().starts_with(b"a"));
    assert_eq!(state.scan(id, name, b"a", None, usize::MAX), prefixed);
}

fn run(rolls: &[Roll], every: usize) -> Twin {
    let mut twin = Twin::new();
    for (i, roll) in rolls.iter().enumerate() {
        twin.step(*roll);
        twin.state.assert_consistent();
        let touched = twin.pick(roll[1]);
        if touched.0 < twin.model.twigs.len() as u64 {
            twin.compare(touched);
        }
        twin.compare_past(roll[7]);
        twin.compare_conflicts(roll[7]);
        if i % every == 0 {
            twin.compare_all();
        }
        if roll[7] % 16 == 0 {
            let bytes = twin.state.encode();
            let read = State::decode(&bytes).expect("a state reads back");
            assert_eq!(read, twin.state);
            assert_eq!(read.encode(), bytes);
            twin.state = read;
        }
    }
    twin.order_pending();
    twin.compare_all();
    twin
}

fn rolls(steps: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Roll>> {
    proptest::collection::vec(any::<Roll>(), steps)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn state_and_model_agree_on_short_schedules(rolls in rolls(1..60)) {
        run(&rolls, 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn state_and_model_agree_on_long_schedules(rolls in rolls(300..500)) {
        run(&rolls, 32);
    }
}

/// The schedules above are worth something only if they reach deep forks and both ends.
#[test]
fn schedules_reach_deep_forks_promotions_and_discards() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut deepest, mut open) = (0, 0);
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..12 {
        let rolls = rolls(400..401).new_tree(&mut runner).unwrap().current();
        let twin = run(&rolls, 64);
        deepest = deepest.max(twin.deepest);
        open += twin.state.branches().filter(|branch| branch.is_open()).count();
        for (what, count) in twin.reached {
            *reached.entry(what).or_default() += count;
        }
    }
    assert!(deepest >= 9, "deepest fork: {deepest}");
    assert!(open >= 60, "open branches at the end: {open}");
    for (what, least) in [
        ("append", 500),
        ("put", 100),
        ("delete", 50),
        ("cas", 20),
        ("incr", 50),
        ("fork", 200),
        ("closing", 100),
        ("promote", 60),
        ("promote that takes pages", 5),
        ("promote that leaves out", 3),
        ("promote that overwrites", 3),
        ("discard", 30),
        ("reopen", 10),
        ("commit", 30),
        ("tables", 40),
        ("add-check", 10),
        ("drop-check", 1),
        ("open-session", 10),
        ("close-session", 3),
        ("checkpoint", 5),
        ("replayed", 10),
        ("unknown_branch", 3),
        ("branch_closed", 10),
        ("branch_closing", 10),
        ("name_taken", 10),
        ("invalid_argument", 20),
        ("conflict", 5),
        ("offset_mismatch", 5),
        ("version_mismatch", 10),
        ("not_a_number", 5),
        ("tables_moved", 10),
        ("stale_token", 10),
        ("session_expired", 1),
        ("unknown_outcome", 1),
    ] {
        let count = reached.get(what).copied().unwrap_or_default();
        assert!(count >= least, "{what}: {count} of {least}, all: {reached:?}");
    }
}
