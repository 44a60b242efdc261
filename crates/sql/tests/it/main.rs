//! SQL on branches, through the public interface only, over pages in memory.

mod bytes;
mod faults;
mod limits;
mod losses;
mod merging;
mod model;
mod traps;

use std::sync::Arc;

use anabranch_sql::{
    Access, Candidate, CommitSet, Connection, Limits, MemoryPages, NetChanges, PageMap, PageStore,
    Policy, PromoteError, Promotion, SqlError, Value, net, promote,
};

/// A branch: pages and the own changes that led there.
#[derive(Clone)]
struct Branch {
    store: Arc<dyn PageStore>,
    root: PageMap,
    net: NetChanges,
}

impl Branch {
    fn new() -> Branch {
        Branch {
            store: Arc::new(MemoryPages::new()),
            root: PageMap::new(),
            net: NetChanges::default(),
        }
    }

    /// A fork: same pages, no own changes yet.
    fn fork(&self) -> Branch {
        Branch { net: NetChanges::default(), ..self.clone() }
    }

    fn try_run(&mut self, sql: &str) -> Result<Option<CommitSet>, SqlError> {
        let limits = Limits::default();
        let store = Arc::clone(&self.store);
        let mut connection = Connection::open(store, self.root.clone(), limits, Access::ReadWrite)?;
        connection.run(sql, &[])?;
        let mut taken = None;
        let mut sink = |commit: &CommitSet| {
            taken = Some(commit.clone());
            Ok(())
        };
        let committed = connection.commit(&mut sink).expect("the sink agrees");
        self.root = committed.root;
        if let Some(commit) = &taken {
            commit.steps.iter().for_each(|step| self.net.add(step));
        }
        Ok(taken)
    }

    fn run(&mut self, sql: &str) -> Option<CommitSet> {
        self.try_run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Rows as text, for comparing.
    fn rows(&self, sql: &str) -> Vec<String> {
        let limits = Limits::default();
        let store = Arc::clone(&self.store);
        let opened = Connection::open(store, self.root.clone(), limits, Access::ReadOnly);
        let result = opened.unwrap().run(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |row: Vec<Value>| {
            let cells: Vec<String> = row.iter().map(Value::to_literal).collect();
            cells.join("|")
        };
        result.rows.into_iter().map(text).collect()
    }

    fn promote_with(&self, onto: &Branch, policy: Policy) -> Result<Candidate, PromoteError> {
        let promotion = Promotion {
            target: &onto.root,
            net: &self.net,
            policy,
            merge_cells: &std::collections::BTreeSet::new(),
            max_conflicts: 10,
            limits: Limits::default(),
        };
        promote(&self.store, &promotion)
    }

    /// Promotes onto another branch, which must not refuse.
    fn promote(&self, onto: &mut Branch) {
        let candidate = self.promote_with(onto, Policy::Fail).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(net(&candidate.commit.steps).is_empty(), candidate.commit.pages.is_empty());
        onto.root = candidate.root;
    }
}
