//! The engine: one state machine, its journal and its replica, behind one lock.
//!
//! Every change goes the same way: `submit` puts a payload into the journal buffer and tells the
//! replica; a flush makes it durable; the replica's effects acknowledge it, order it and apply it.
//! The engine does no waiting and takes no lock: [`crate::shared`] does both.
//!
//! Invariants: `raft.0` is the newest applied Raft entry and only grows; `pending` holds exactly
//! the payloads of this journal that are not yet applied; `chain` and `history` are equal in
//! length to `state`; once `fence` is set nothing is acknowledged or applied any more.

mod apply;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_log::{
    BranchId, Digest, Entry, Happened, Kind, Operation, Outcome, Refusal, SessionId, State,
    TableVersion, WriteId,
};
use anabranch_replica::{Effect, Event, LogEntry, Mark, RaftIndex, Replica, Term};
use anabranch_sql::PageStore;
use anabranch_store::{
    AppendError, ChunkStore, Disk, Flush, History, Journal, JournalRecord, Ordinal, Position, Vote,
    WriteError, chain, vote::VoteFile,
};

use crate::body;
use crate::error::{Error, Result};
use crate::parking::Parked;
use crate::session::LocalSession;
use crate::tables::{Source, Tables};
use crate::view::Origin;
use crate::write::Numbered;

/// Records in the journal buffer above which writers wait for a flush.
const BUFFERED_RECORDS: u64 = 65_536;
/// The same in bytes.
const BUFFERED_BYTES: u64 = 64 << 20;

/// A write made ready outside the lock.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) entry: Arc<Entry>,
    bytes: Vec<u8>,
    digest: Digest,
}

impl Prepared {
    pub(crate) fn new(entry: Entry) -> Prepared {
        let bytes = entry.encode();
        let digest = body::digest(&bytes);
        Prepared { entry: Arc::new(entry), bytes, digest }
    }

    pub(crate) fn id(&self) -> WriteId {
        self.entry.id
    }
}

/// A payload in the journal, not yet applied.
struct Pending {
    /// In memory unless it was found at start.
    entry: Option<Arc<Entry>>,
    digest: Digest,
    position: Position,
}

/// What a waiting caller will learn.
#[derive(Default)]
pub(crate) struct Answer {
    /// Durable here; with one voter, complete.
    pub(crate) acknowledged: bool,
    /// Applied, or refused when applied.
    pub(crate) outcome: Option<std::result::Result<Outcome, Refusal>>,
    waiters: u32,
    parked: Option<(Arc<Parked>, Option<u64>)>,
}

/// Why the node takes no more writes.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

impl Answer {
    /// Whether there is something left to wait for before the acknowledgement.
    fn is_open(&self) -> bool {
        !self.acknowledged && self.outcome.is_none() && self.parked.is_none()
    }
}

impl Fence {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Fence {
        Fence { kind, message: message.into() }
    }

    /// Something decided could not be written down: the journal has it, the next start applies it.
    fn of_write(error: &WriteError) -> Fence {
        let kind = match error {
            WriteError::DiskFull { .. } => Kind::DiskFull,
            _ => Kind::Poisoned,
        };
        Fence::new(kind, error.to_string())
    }
}

/// All that one open space keeps in memory, except what reads share without the lock.
pub(crate) struct Engine {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) state: State,
    pub(crate) tables: Tables,
    pub(crate) replica: Replica,
    pub(crate) journal: Journal,
    pub(crate) votes: VoteFile,
    pub(crate) history: Arc<History>,
    pub(crate) chunks: Arc<ChunkStore>,
    pub(crate) pages: Arc<dyn PageStore>,
    /// Newest applied Raft entry and its term.
    pub(crate) raft: (RaftIndex, Term),
    pub(crate) chain: chain::Link,
    pending: BTreeMap<WriteId, Pending>,
    answers: BTreeMap<WriteId, Answer>,
    /// Parts of large transactions, by term and transaction.
    parts: BTreeMap<(u64, u64), Vec<Position>>,
    /// Branches with a `Closing` in the journal: nothing new is acknowledged there.
    closing: BTreeSet<BranchId>,
    /// Whether some thread runs a flush.
    pub(crate) flushing: bool,
    /// Flushes begun, by this process.
    flushes: u64,
    /// Whether there is a thread that runs flushes for parked writers.
    pub(crate) flusher: bool,
    /// Number of parked writers that nobody told anything yet.
    parked: usize,
    /// Those whose writes became durable: to be woken outside the lock.
    served: Vec<Arc<Parked>>,
    /// Numbers writes of callers that bring no session.
    pub(crate) session: LocalSession,
    /// Writes outside any session, and transactions in parts, so far in this process.
    unnumbered: u64,
    /// Entries decided and not yet applied, and reads that come after them, in order.
    decided: VecDeque<Effect>,
    ready_reads: BTreeSet<u64>,
    next_ticket: u64,
    /// Set while entries from before the start are applied again.
    pub(crate) replaying: bool,
    /// Bytes appended to the journal since the last checkpoint.
    pub(crate) bytes_since_checkpoint: u64,
    /// Bytes appended to the journal since the last flush was taken.
    buffered_bytes: u64,
    pub(crate) checkpoint: crate::checkpoint::Progress,
    pub(crate) fence: Option<Fence>,
}

/// What [`Engine::new`] is made of.
pub(crate) struct Restored {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) state: State,
    pub(crate) tables: Tables,
    pub(crate) replica: Replica,
    pub(crate) journal: Journal,
    pub(crate) votes: VoteFile,
    pub(crate) history: Arc<History>,
    pub(crate) chunks: Arc<ChunkStore>,
    pub(crate) pages: Arc<dyn PageStore>,
    pub(crate) raft: (RaftIndex, Term),
    pub(crate) chain: chain::Link,
    pub(crate) unapplied: Vec<(WriteId, Digest, Position)>,
    pub(crate) parts: Vec<(u64, u64, u32, Position)>,
    pub(crate) checkpoint: crate::checkpoint::Progress,
}

impl Engine {
    pub(crate) fn new(restored: Restored) -> Engine {
        let pending = restored
            .unapplied
            .into_iter()
            .map(|(id, digest, position)| (id, Pending { entry: None, digest, position }))
            .collect();
        let mut parts: BTreeMap<(u64, u64), Vec<Position>> = BTreeMap::new();
        for (term, transaction, _, position) in restored.parts {
            parts.entry((term, transaction)).or_default().push(position);
        }
        Engine {
            disk: restored.disk,
            state: restored.state,
            tables: restored.tables,
            replica: restored.replica,
            journal: restored.journal,
            votes: restored.votes,
            history: restored.history,
            chunks: restored.chunks,
            pages: restored.pages,
            raft: restored.raft,
            chain: restored.chain,
            pending,
            answers: BTreeMap::new(),
            parts,
            closing: BTreeSet::new(),
            flushing: false,
            flushes: 0,
            flusher: false,
            parked: 0,
            served: Vec::new(),
            session: LocalSession::default(),
            unnumbered: 0,
            decided: VecDeque::new(),
            ready_reads: BTreeSet::new(),
            next_ticket: 1,
            replaying: true,
            bytes_since_checkpoint: 0,
            buffered_bytes: 0,
            checkpoint: restored.checkpoint,
            fence: None,
        }
    }

    /// The current own table version of a branch.
    pub(crate) fn version(&self, branch: BranchId) -> TableVersion {
        self.state.branch(branch).map_or(TableVersion::default(), anabranch_log::Branch::tables)
    }

    /// The branch's tables now.
    pub(crate) fn view(&self, branch: BranchId) -> Option<Source> {
        self.tables.view(branch, &|id| self.version(id))
    }

    fn fenced(&self) -> Result<()> {
        match &self.fence {
            Some(fence) => Err(Error::no(fence.kind, fence.message.clone())),
            None => Ok(()),
        }
    }

    /// A number no other write or transaction gets, now or after a restart: the term leads.
    pub(crate) fn unique(&mut self) -> u64 {
        self.unnumbered += 1;
        (self.raft.1.0 << 32) | self.unnumbered
    }

    /// Takes a write: checked, in the journal buffer, not yet durable. Ask
    /// [`Self::answer`] for what became of it, then [`Self::forget`] it.
    pub(crate) fn submit(&mut self, prepared: &Prepared) -> Result<()> {
        self.fenced()?;
        let id = prepared.id();
        if let Some(first) = self.state.outcome_of(id) {
            // A late retry: the journal needs no second copy of what was applied.
            let answer = self.answers.entry(id).or_default();
            answer.acknowledged = true;
            answer.outcome = Some(first.clone());
            answer.waiters += 1;
            return Ok(());
        }
        if let Some(pending) = self.pending.get(&id) {
            if pending.digest != prepared.digest {
                return Err(Error::no(
                    Kind::InvalidArgument,
                    format!("sequence number names another write, id=`{id}`"),
                ));
            }
            let durable = self.replica.held(&id).is_some_and(|held| held.durable);
            self.expect_answer(id);
            if let Some(answer) = self.answers.get_mut(&id) {
                answer.acknowledged |= durable;
            }
            return Ok(());
        }
        self.state.admit(&prepared.entry)?;
        let operation = &prepared.entry.operation;
        if let Some(branch) = operation.branch().filter(|branch| self.closing.contains(branch))
            && !ends_closing(operation)
        {
            return Err(Refusal::BranchClosing { branch }.into());
        }
        let record =
            JournalRecord::Payload { id, digest: prepared.digest, bytes: prepared.bytes.clone() };
        let position = self.append(&record)?;
        if let Operation::Closing { branch, .. } = operation {
            self.closing.insert(*branch);
        }
        let entry = Some(Arc::clone(&prepared.entry));
        self.pending.insert(id, Pending { entry, digest: prepared.digest, position });
        self.expect_answer(id);
        let mark = Mark(position.ordinal.0);
        self.step(Event::Received { id, digest: prepared.digest, mark });
        Ok(())
    }

    /// Stores the parts of a large transaction; returns the ordinal that must be durable before
    /// the operation that names them is submitted.
    pub(crate) fn submit_parts(&mut self, transaction: u64, parts: &[&[u8]]) -> Result<Ordinal> {
        self.fenced()?;
        let term = self.raft.1.0;
        let mut positions = Vec::with_capacity(parts.len());
        let mut last = Ordinal::default();
        for (part, bytes) in parts.iter().enumerate() {
            let part = u32::try_from(part).expect("the number of parts is bounded");
            let bytes = bytes.to_vec();
            let position = self.append(&JournalRecord::Part { term, transaction, part, bytes })?;
            last = position.ordinal;
            positions.push(position);
        }
        self.parts.insert((term, transaction), positions);
        Ok(last)
    }

    /// Forgets the parts of an operation that did not happen.
    pub(crate) fn discard_parts(&mut self, operation: &Operation) {
        if let Some(anabranch_log::Body::Parts { transaction, .. }) = body::tables_body(operation) {
            self.parts.retain(|(_, number), _| number != transaction);
        }
    }

    fn append(&mut self, record: &JournalRecord) -> Result<Position> {
        let mut appended = self.journal.append(record);
        if matches!(appended, Err(AppendError::NeedsSegment)) {
            // The background thread was not fast enough (or there is none).
            self.journal.prepare_next_segment().map_err(|error| {
                let kind = match &error {
                    WriteError::DiskFull { .. } => Kind::DiskFull,
                    _ => Kind::Unavailable,
                };
                Error::no(kind, error.to_string()).because(error)
            })?;
            appended = self.journal.append(record);
        }
        let position = appended.map_err(|error| {
            let kind = match &error {
                AppendError::TooLarge { .. } => Kind::TooLarge,
                AppendError::Poisoned => Kind::Poisoned,
                AppendError::NeedsSegment => Kind::Unavailable,
            };
            Error::no(kind, error.to_string()).because(error)
        })?;
        self.bytes_since_checkpoint += u64::from(position.length);
        self.buffered_bytes += u64::from(position.length);
        Ok(position)
    }

    fn expect_answer(&mut self, id: WriteId) {
        self.answers.entry(id).or_default().waiters += 1;
    }

    pub(crate) fn answer(&self, id: WriteId) -> Option<&Answer> {
        self.answers.get(&id)
    }

    pub(crate) fn forget(&mut self, id: WriteId) {
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.waiters -= 1;
            if answer.waiters == 0 {
                self.answers.remove(&id);
            }
        }
    }

    /// Writes down that the last flush was durable, unless something says so already: then a
    /// damaged tail can be told from an interrupted write.
    pub(crate) fn confirm_tail(&mut self) {
        if self.journal.unconfirmed()
            && !self.journal.pending()
            && let Err(error) = self.append(&JournalRecord::Confirm)
        {
            tracing::warn!(%error, "the last flush could not be confirmed");
        }
    }

    /// Begins a linearizable read; `None` if the state covers everything already. A fenced node
    /// refuses while it holds writes that it acknowledged and can apply no more.
    pub(crate) fn begin_read(&mut self) -> Result<Option<u64>> {
        if self.pending.is_empty() && !self.replaying {
            // Nothing durable is unapplied: `pending` shrinks only by applying.
            return Ok(None);
        }
        self.fenced()?;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.step(Event::Read { ticket });
        Ok(Some(ticket))
    }

    /// Whether the read may look; asking clears it.
    pub(crate) fn read_ready(&mut self, ticket: u64) -> bool {
        self.ready_reads.remove(&ticket)
    }

    /// Number of durable or arriving writes that are not ordered yet.
    pub(crate) fn unordered(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Takes the turn to run the next flush, if there is something to flush and nobody does.
    pub(crate) fn take_turn(&mut self) -> Option<Flush> {
        if self.flushing || self.fence.is_some() {
            return None;
        }
        let flush = self.journal.take_flush()?;
        self.buffered_bytes = 0;
        self.flushing = true;
        self.flushes += 1;
        Some(flush)
    }

    /// The number of a write: the caller's, or the next of the space's own session; `None` while
    /// that is not open or its window is full.
    pub(crate) fn number(&mut self, by: &Origin) -> Option<Numbered> {
        if let Some(write) = by.write {
            let id = WriteId { session: SessionId(write.session), seq: write.seq, attempt: 0 };
            return Some(Numbered { id, answered: write.answered, local: None });
        }
        let session = self.session.id?;
        let (seq, answered) = self.session.take()?;
        let id = WriteId { session, seq, attempt: 0 };
        Some(Numbered { id, answered, local: Some(seq) })
    }

    /// The caller of a write in the space's own session (if `local`) has its answer.
    pub(crate) fn answered(&mut self, local: Option<u64>) {
        if let Some(seq) = local {
            self.session.answered(seq);
        }
    }

    /// Whether a submitted write waits to be durable, and nobody is parked for it.
    pub(crate) fn is_open(&self, id: WriteId) -> bool {
        self.answers.get(&id).is_some_and(Answer::is_open)
    }

    /// Parks the writer of an open write until it is durable; the flusher will see to that.
    pub(crate) fn park(&mut self, numbered: Numbered, parked: Arc<Parked>) {
        let answer = self.answers.get_mut(&numbered.id).expect("an open write has an answer");
        answer.parked = Some((parked, numbered.local));
        self.parked += 1;
    }

    /// Parked writers whose writes became durable, to be woken.
    pub(crate) fn take_served(&mut self) -> Vec<Arc<Parked>> {
        std::mem::take(&mut self.served)
    }

    /// Whether somebody is parked that only the flusher serves.
    pub(crate) fn needs_flusher(&self) -> bool {
        self.flusher && self.parked > 0
    }

    /// All parked writers, to look for themselves.
    pub(crate) fn unpark_all(&mut self) -> Vec<Arc<Parked>> {
        self.parked = 0;
        let parked = self.answers.values_mut().filter_map(|answer| answer.parked.take());
        parked.map(|(parked, _)| parked).collect()
    }

    /// Number of the flush under way, or of the last one.
    pub(crate) fn current_flush(&self) -> u64 {
        self.flushes
    }

    /// Number of the flush that will carry what is in the buffer now.
    pub(crate) fn next_flush(&self) -> u64 {
        self.flushes + 1
    }

    /// Ends a flush and carries out what follows from it.
    pub(crate) fn complete_flush(&mut self, flush: Flush, result: std::io::Result<()>) {
        assert!(self.flushing, "a flush that was taken is completed once");
        self.flushing = false;
        match self.journal.complete_flush(flush, result) {
            Ok(through) => {
                self.step(Event::Persisted { through: Mark(through.0) });
            }
            Err(poisoned) => {
                self.fence = Some(Fence::new(Kind::Poisoned, poisoned.to_string()));
            }
        }
    }

    /// Ends a flush of which nobody knows how far it came.
    pub(crate) fn abandon_flush(&mut self, message: &str) {
        self.flushing = false;
        self.fence.get_or_insert_with(|| Fence::new(Kind::Internal, message));
    }

    /// Gives the replica an event and carries out its effects, and theirs.
    pub(crate) fn step(&mut self, event: Event) {
        let effects = self.replica.step(event);
        self.carry_out_all(effects);
    }

    /// Carries out effects, and what follows from them. What was decided is only put into the
    /// queue of [`Self::settle`]: whoever waits for it does that work.
    pub(crate) fn carry_out_all(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        let mut events = VecDeque::new();
        loop {
            while let Some(effect) = effects.pop_front() {
                if self.fence.is_some() {
                    return;
                }
                if matches!(effect, Effect::Apply { .. } | Effect::ReadReady { .. }) {
                    self.decided.push_back(effect);
                    continue;
                }
                match self.carry_out(effect) {
                    Ok(event) => events.extend(event),
                    Err(fence) => self.fence = Some(fence),
                }
            }
            let Some(event) = events.pop_front() else { return };
            effects.extend(self.replica.step(event));
        }
    }

    /// Whether something is decided and not yet applied.
    pub(crate) fn unsettled(&self) -> bool {
        !self.decided.is_empty() && self.fence.is_none()
    }

    /// Applies the oldest decided entry (or lets a read look).
    pub(crate) fn settle(&mut self) {
        let Some(effect) = self.decided.pop_front() else { return };
        match self.carry_out(effect) {
            Ok(Some(event)) => self.step(event),
            Ok(None) => {}
            Err(fence) => self.fence = Some(fence),
        }
    }

    /// Applies everything decided.
    pub(crate) fn settle_all(&mut self) {
        while self.unsettled() {
            self.settle();
        }
    }

    /// Everything durable is applied. Payloads that no order will name again were applied before
    /// the checkpoint.
    pub(crate) fn end_replay(&mut self) {
        let replica = &self.replica;
        self.pending.retain(|id, _| replica.held(id).is_some());
        // Every operation that could name them was applied: parts of older terms are garbage.
        let term = self.raft.1.0;
        self.parts.retain(|(of, _), _| *of >= term);
        self.replaying = false;
    }

    /// Whether the journal buffer holds so much that writers must help to empty it.
    pub(crate) fn journal_is_full(&self) -> bool {
        let durable = self.journal.durable().0;
        self.journal.last().0 - durable > BUFFERED_RECORDS || self.buffered_bytes > BUFFERED_BYTES
    }

    fn carry_out(&mut self, effect: Effect) -> std::result::Result<Option<Event>, Fence> {
        match effect {
            Effect::WriteVote(vote) => {
                let stored = Vote {
                    term: vote.term.0,
                    voted_for: vote.voted_for.map_or(0, |node| node.0),
                    commit: vote.commit.0,
                };
                let written = self.votes.write(stored);
                written.map_err(|error| Fence::of_write(&error))?;
                Ok(Some(Event::VotePersisted(vote)))
            }
            Effect::WriteEntries { batch, entries } => self.write_entries(batch, entries),
            Effect::Acknowledge { ids, .. } => {
                for id in ids {
                    self.acknowledged(id);
                }
                Ok(None)
            }
            Effect::Refuse { id, .. } => {
                // `submit` compares digests before the replica can.
                Err(Fence::new(Kind::Internal, format!("payload refused, id=`{id}`")))
            }
            Effect::LeaderChanged { term, .. } => {
                self.raft.1 = self.raft.1.max(term);
                Ok(None)
            }
            Effect::Apply { index, term, order, .. } => self.apply(index, term, &order),
            Effect::ReadReady { ticket, .. } => {
                self.ready_reads.insert(ticket);
                Ok(None)
            }
        }
    }

    fn acknowledged(&mut self, id: WriteId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        answer.acknowledged = true;
        if let Some((parked, local)) = answer.parked.take() {
            self.served.push(parked);
            self.parked -= 1;
            self.forget(id);
            self.answered(local);
        }
    }

    fn write_entries(
        &mut self,
        batch: u64,
        entries: Vec<LogEntry>,
    ) -> std::result::Result<Option<Event>, Fence> {
        let mut marks: Option<(Mark, Mark)> = None;
        for LogEntry { index, term, kind, data } in entries {
            let record =
                JournalRecord::Entry { index: index.0, term: term.0, kind: kind.code(), data };
            let position =
                self.append(&record).map_err(|error| Fence::new(error.kind, error.message))?;
            let mark = Mark(position.ordinal.0);
            marks = Some((marks.map_or(mark, |(first, _)| first), mark));
        }
        let (first, last) = marks.expect("a batch has at least one entry");
        Ok(Some(Event::EntriesWritten { batch, first, last }))
    }

    /// Oldest journal record that is still needed by something not applied.
    pub(crate) fn oldest_needed(&self) -> Ordinal {
        let pending = self.pending.values().map(|pending| pending.position.ordinal).min();
        let parts = self.parts.values().flatten().map(|position| position.ordinal).min();
        let next = Ordinal(self.journal.last().0 + 1);
        pending.into_iter().chain(parts).min().unwrap_or(next)
    }

    /// The error that a caller gets whose write is in flight when the node is fenced.
    pub(crate) fn in_flight_error(&self) -> Option<Error> {
        let fence = self.fence.as_ref()?;
        let mut error = Error::no(fence.kind, fence.message.clone());
        error.happened = Happened::Unknown;
        Some(error)
    }
}

/// Whether an operation is the second phase of a closing.
fn ends_closing(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Promote { .. } | Operation::Discard { .. } | Operation::Reopen { .. }
    )
}
