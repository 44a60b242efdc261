//! Committing: from SQLite's COMMIT through the sync of the file to the sink.

use std::collections::BTreeSet;

use super::{
    CommitError, CommitSink, Committed, Connection, SinkRefusal, Transaction, run::aborted,
};
use crate::change::{CommitSet, Step};
use crate::error::SqlError;
use crate::map::PageMap;
use crate::vfs::{self, Staged, SyncHandler};

/// Turns the staged pages into a commit set and asks the sink.
struct Handler<'a> {
    steps: Vec<Step>,
    tables_read: BTreeSet<String>,
    sink: &'a mut dyn CommitSink,
    outcome: Option<Result<PageMap, SinkRefusal>>,
}

impl SyncHandler for Handler<'_> {
    fn sync(&mut self, staged: Staged) -> bool {
        let Staged { base, root, page_count, pages } = staged;
        let commit = CommitSet {
            base,
            root: root.clone(),
            page_count,
            pages,
            steps: std::mem::take(&mut self.steps),
            tables_read: std::mem::take(&mut self.tables_read),
        };
        let answer = self.sink.commit(&commit);
        self.steps = commit.steps;
        let happened = answer.is_ok();
        self.outcome = Some(answer.map(|()| root));
        happened
    }
}

impl Connection {
    /// Commits the open transaction through `sink`, which is called once, from within SQLite's
    /// commit, after every constraint was checked; not at all if nothing was written. When it
    /// agrees, the commit has happened and the connection stands at the new root. When it
    /// refuses, the transaction is rolled back cleanly; with an unknown outcome the connection is
    /// of no more use. After [`CommitError::Sql`] the transaction is still open if
    /// [`Connection::in_transaction`] says so (a deferred foreign key that does not hold).
    pub fn commit(&mut self, sink: &mut dyn CommitSink) -> Result<Committed, CommitError> {
        match self.transaction {
            Transaction::None => return Ok(Committed { changed: false, root: self.root() }),
            Transaction::Open => {}
            Transaction::Aborted | Transaction::Lost => {
                return Err(CommitError::Sql(aborted(&self.transaction)));
            }
        }
        let mut handler = Handler {
            steps: std::mem::take(&mut self.steps),
            tables_read: self.tables_read.clone(),
            sink,
            outcome: None,
        };
        let done = vfs::with_handler(&self.file, &mut handler, || {
            self.internal(|database| {
                database.prepare_cached("COMMIT")?.raw_execute()?;
                Ok(())
            })
        });
        let Handler { steps, outcome, .. } = handler;
        match (done, outcome) {
            (done, Some(Ok(root))) => {
                // The commit has happened, whatever SQLite thinks of it afterwards.
                self.file.publish(root.clone());
                self.forget();
                self.transaction = if done.is_ok() { Transaction::None } else { Transaction::Lost };
                Ok(Committed { changed: true, root })
            }
            (Ok(()), None) => {
                self.forget();
                self.transaction = Transaction::None;
                Ok(Committed { changed: false, root: self.root() })
            }
            (_, Some(Err(refusal))) => {
                self.rollback();
                if matches!(refusal, SinkRefusal::Unknown { .. }) {
                    self.transaction = Transaction::Lost;
                }
                Err(CommitError::Refused(refusal))
            }
            (Err(error), None) => {
                self.not_committed(steps);
                Err(CommitError::Sql(error))
            }
        }
    }

    /// SQLite refused to commit before anything was handed over.
    fn not_committed(&mut self, steps: Vec<Step>) {
        if self.database.is_autocommit() {
            self.forget();
            self.transaction = Transaction::Aborted;
        } else {
            self.steps = steps;
        }
    }
}

impl From<SqlError> for CommitError {
    fn from(error: SqlError) -> CommitError {
        CommitError::Sql(error)
    }
}
