//! What a space must hold: a naive twin, a list of events per branch.
//!
//! One thread drives the node, so the order of its answers is the order of the space: the twin
//! needs no tolerance. A view is computed from scratch every time, by definition: the parent's
//! events up to where the branch is cut, merged with its own by the moment they joined; for keys
//! and rows the own ones win.

use std::collections::BTreeMap;

/// The moment of an operation: counts all operations of a world. What a promotion moves joins at
/// the promotion's moment.
pub(crate) type Moment = u64;

/// The number of a branch in the twin; not the node's.
pub(crate) type BranchNumber = usize;

/// A value of the row: text and number.
pub(crate) type Row = (String, i64);

/// One thing written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Record { stream: String, record: Vec<u8> },
    Key { stream: String, key: Vec<u8>, value: Option<Vec<u8>> },
    Table { table: String },
    Row { table: String, id: i64, row: Option<Row> },
}

/// A branch and everything written on it, with the moment each event joined it.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) name: String,
    pub(crate) parent: Option<BranchNumber>,
    /// The newest moment of the parent that is seen; `None` while it follows the parent.
    cut: Option<Moment>,
    pub(crate) end: Option<End>,
    /// Clock time of the last use, if it has a time to live.
    pub(crate) ttl: Option<(u64, u64)>,
    own: Vec<(Moment, Event)>,
}

impl Branch {
    /// Whether its view of the parent stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.cut.is_some()
    }

    /// Number of its own records, keys included.
    pub(crate) fn own_count(&self) -> u64 {
        let records = self
            .own_events()
            .filter(|event| matches!(event, Event::Record { .. } | Event::Key { .. }));
        records.count() as u64
    }

    /// What was written on it or promoted into it.
    pub(crate) fn own_events(&self) -> impl Iterator<Item = &Event> {
        self.own.iter().map(|(_, event)| event)
    }
}

/// How a branch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Promoted(BranchNumber),
    Discarded,
}

/// Everything a branch shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Plain streams.
    pub(crate) streams: BTreeMap<String, Vec<Vec<u8>>>,
    /// Live keys of each keyed stream that was ever written, deleted ones left out.
    pub(crate) keys: BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Rows of each table.
    pub(crate) tables: BTreeMap<String, BTreeMap<i64, Row>>,
}

/// The whole space.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    branches: Vec<Branch>,
}

impl Model {
    /// A new space: main, empty.
    pub(crate) fn new() -> Model {
        let main = Branch {
            name: "main".to_owned(),
            parent: None,
            cut: None,
            end: None,
            ttl: None,
            own: Vec::new(),
        };
        Model { branches: vec![main] }
    }

    pub(crate) fn branch(&self, number: BranchNumber) -> &Branch {
        &self.branches[number]
    }

    pub(crate) fn branch_mut(&mut self, number: BranchNumber) -> &mut Branch {
        &mut self.branches[number]
    }

    /// Open branches, main first.
    pub(crate) fn open(&self) -> Vec<BranchNumber> {
        (0..self.branches.len()).filter(|number| self.branches[*number].end.is_none()).collect()
    }

    /// Number of branches, closed ones included.
    pub(crate) fn count(&self) -> usize {
        self.branches.len()
    }

    /// The receiver of a promotion without `onto`; `None` after a discard above.
    pub(crate) fn target(&self, branch: BranchNumber) -> Option<BranchNumber> {
        let mut target = self.branches[branch].parent?;
        loop {
            match self.branches[target].end {
                None => return Some(target),
                Some(End::Promoted(into)) => target = into,
                Some(End::Discarded) => return None,
            }
        }
    }

    /// Events are written on a branch.
    pub(crate) fn write(&mut self, branch: BranchNumber, at: Moment, events: Vec<Event>) {
        let own = &mut self.branches[branch].own;
        own.extend(events.into_iter().map(|event| (at, event)));
    }

    /// A branch is made. `cut` is `None` for a live one.
    pub(crate) fn fork(
        &mut self,
        parent: BranchNumber,
        name: String,
        cut: Option<Moment>,
        ttl: Option<(u64, u64)>,
    ) {
        let branch = Branch { name, parent: Some(parent), cut, end: None, ttl, own: Vec::new() };
        self.branches.push(branch);
    }

    /// A branch's own events become the target's.
    pub(crate) fn promote(&mut self, branch: BranchNumber, into: BranchNumber, at: Moment) {
        let own: Vec<_> =
            self.branches[branch].own.iter().map(|(_, event)| (at, event.clone())).collect();
        self.branches[into].own.extend(own);
        self.close(branch, End::Promoted(into), at);
    }

    /// A branch is dropped.
    pub(crate) fn discard(&mut self, branch: BranchNumber, at: Moment) {
        self.close(branch, End::Discarded, at);
    }

    fn close(&mut self, branch: BranchNumber, end: End, at: Moment) {
        assert!(self.branches[branch].end.is_none(), "a branch ends once");
        self.branches[branch].end = Some(end);
        for child in &mut self.branches {
            if child.parent == Some(branch) {
                child.cut = Some(child.cut.map_or(at - 1, |cut| cut.min(at - 1)));
            }
        }
    }

    /// What a branch shows.
    pub(crate) fn view(&self, branch: BranchNumber) -> View {
        let mut view = View::default();
        for (stream, mut records) in self.records(branch, Moment::MAX) {
            records.sort_by_key(|(joined, _)| *joined);
            let records = records.into_iter().map(|(_, record)| record).collect();
            view.streams.insert(stream, records);
        }
        self.fill(branch, Moment::MAX, &mut view);
        view
    }

    /// Records of the view with the moment each joined it.
    fn records(
        &self,
        number: BranchNumber,
        until: Moment,
    ) -> BTreeMap<String, Vec<(Moment, Vec<u8>)>> {
        let branch = &self.branches[number];
        let mut records = match branch.parent {
            Some(parent) => self.records(parent, until.min(branch.cut.unwrap_or(Moment::MAX))),
            None => BTreeMap::new(),
        };
        for (joined, event) in branch.own.iter().filter(|(joined, _)| *joined <= until) {
            if let Event::Record { stream, record } = event {
                records.entry(stream.clone()).or_default().push((*joined, record.clone()));
            }
        }
        records
    }

    /// Keys and rows: the parent's first, then the own ones over them.
    fn fill(&self, number: BranchNumber, until: Moment, view: &mut View) {
        let branch = &self.branches[number];
        if let Some(parent) = branch.parent {
            self.fill(parent, until.min(branch.cut.unwrap_or(Moment::MAX)), view);
        }
        for (_, event) in branch.own.iter().filter(|(joined, _)| *joined <= until) {
            match event {
                Event::Record { .. } => {}
                Event::Key { stream, key, value } => {
                    let keys = view.keys.entry(stream.clone()).or_default();
                    match value {
                        Some(value) => keys.insert(key.clone(), value.clone()),
                        None => keys.remove(key),
                    };
                }
                Event::Table { table } => {
                    view.tables.entry(table.clone()).or_default();
                }
                Event::Row { table, id, row } => {
                    let rows = view.tables.entry(table.clone()).or_default();
                    match row {
                        Some(row) => rows.insert(*id, row.clone()),
                        None => rows.remove(id),
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Vec<Event> {
        vec![Event::Record { stream: "s".to_owned(), record: text.into() }]
    }

    fn shown(model: &Model, branch: BranchNumber) -> String {
        let view = model.view(branch);
        let records = view.streams.get("s").cloned().unwrap_or_default();
        records.iter().map(|record| String::from_utf8_lossy(record).into_owned()).collect()
    }

    #[test]
    fn live_forks_interleave_and_frozen_ones_are_cut() {
        let mut model = Model::new();
        model.write(0, 1, record("a"));
        model.fork(0, "live".to_owned(), None, None);
        model.fork(0, "frozen".to_owned(), Some(3), None);
        model.write(1, 4, record("x"));
        model.write(2, 5, record("y"));
        model.write(0, 6, record("b"));
        assert_eq!((shown(&model, 0).as_str(), shown(&model, 1).as_str()), ("ab", "axb"));
        assert_eq!(shown(&model, 2), "ay");
    }

    #[test]
    fn a_promotion_moves_the_own_events_and_freezes_the_children() {
        let mut model = Model::new();
        model.fork(0, "f".to_owned(), None, None);
        model.fork(1, "g".to_owned(), None, None);
        model.write(1, 3, record("x"));
        model.write(2, 4, record("y"));
        model.write(0, 5, record("a"));
        model.promote(1, 0, 6);
        model.write(0, 7, record("b"));
        assert_eq!(shown(&model, 0), "axb");
        assert_eq!(shown(&model, 2), "xya", "cut just before the promotion");
        assert_eq!(model.target(2), Some(0));
        model.promote(2, 0, 8);
        assert_eq!(shown(&model, 0), "axby");
    }

    #[test]
    fn own_keys_win() {
        let key = |value: Option<&str>| {
            let value = value.map(|value| value.as_bytes().to_vec());
            vec![Event::Key { stream: "k".to_owned(), key: b"key".to_vec(), value }]
        };
        let mut model = Model::new();
        model.fork(0, "f".to_owned(), None, None);
        model.write(1, 2, key(Some("own")));
        model.write(0, 3, key(Some("parent's")));
        assert_eq!(model.view(1).keys["k"][b"key".as_slice()], b"own");
        model.write(1, 4, key(None));
        assert!(model.view(1).keys["k"].is_empty());
    }
}
