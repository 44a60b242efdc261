//! One world: a space that lives, crashes, is checked, and lives on.
//!
//! A life: open the space, run operations, stop at the drawn disk operation (or after the drawn
//! number of operations). Sometimes the machine stops again while it recovers. Then the space is
//! opened in peace and compared with the twin; the one operation in flight may have happened or
//! not, and which of the two is settled there for good. Some in-flight operations are then sent
//! again under the same session number: they must not happen twice.

mod peace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_judge::durability::{Append, Outcome};
use anabranch_log::{Happened, Kind};
use anabranch_node::{BranchStatus, Error, Options, Origin, SessionWrite, Space};
use anabranch_store::OpenError;

use super::check::{self, Difference};
use super::clock::SimClock;
use super::disk::site::Phase;
use super::disk::{Crash, SimDisk};
use super::model::{Event, Model, Moment};
use super::operation::{Mark, Operation};
use super::random::Random;
use super::report::Counts;
use super::trace::Trace;
use super::workload::{Situation, Workload};

/// Parameters of one world, all drawn from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) lives: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    /// The machine stops after at most this many disk operations of a life.
    pub(crate) reach: u64,
    workload: Workload,
}

impl Drawn {
    fn draw(random: &mut Random) -> Drawn {
        Drawn {
            lives: random.between(4, 14),
            segment_bytes: *random.pick(&[64 << 10, 128 << 10, 256 << 10]),
            cache_bytes: *random.pick(&[64 << 10, 1 << 20]),
            checkpoint_bytes: *random.pick(&[16 << 10, 64 << 10, 512 << 10]),
            reach: *random.pick(&[30, 100, 300]),
            workload: Workload::draw(random),
        }
    }
}

/// An operation whose answer was lost.
struct InFlight {
    operation: Operation,
    at: Moment,
    write: Option<SessionWrite>,
}

/// What a life is disturbed by, besides its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    FailedSync,
    FullDisk,
}

pub(crate) struct World {
    random: Random,
    pub(crate) drawn: Drawn,
    pub(crate) disk: SimDisk,
    clock: Arc<SimClock>,
    model: Model,
    moment: Moment,
    /// The sim's own session, and the last number used in it.
    session: Option<(u64, u64)>,
    marks: Vec<Mark>,
    in_flight: Vec<InFlight>,
    /// Files that hold what was given up of damaged tails.
    asides: BTreeSet<String>,
    /// Appends that make up each stream of main, for the judge.
    judged: BTreeMap<String, Vec<Append>>,
    pub(crate) counts: Counts,
    pub(crate) trace: Trace,
    /// The latest operations, for the report of a violation.
    pub(crate) log: Vec<String>,
}

const LOG_MAX: usize = 200;

impl World {
    pub(crate) fn new(seed: u64, ignored: &[String]) -> World {
        let mut random = Random::new(seed);
        let drawn = Drawn::draw(&mut random);
        let disk = SimDisk::new();
        disk.ignore(ignored);
        World {
            random,
            drawn,
            disk,
            clock: Arc::new(SimClock::default()),
            model: Model::new(),
            moment: 0,
            session: None,
            marks: Vec::new(),
            in_flight: Vec::new(),
            asides: BTreeSet::new(),
            judged: BTreeMap::new(),
            counts: Counts::default(),
            trace: Trace::default(),
            log: Vec::new(),
        }
    }

    /// Everything drawn, in one line.
    pub(crate) fn describe(&self, seed: u64) -> String {
        let Drawn { lives, segment_bytes, cache_bytes, checkpoint_bytes, reach, workload } =
            &self.drawn;
        format!(
            "world {seed}: lives {lives}, segment {segment_bytes}, cache {cache_bytes}, \
             checkpoint {checkpoint_bytes}, reach {reach}, {workload}"
        )
    }

    /// Runs all lives, then demands service.
    pub(crate) fn run(&mut self) -> Result<(), Difference> {
        for life in 0..self.drawn.lives {
            self.say(format!("life {life}"));
            self.live()?;
            self.check()?;
        }
        self.serve()
    }

    fn say(&mut self, line: String) {
        if self.log.len() == LOG_MAX {
            self.log.remove(0);
        }
        self.trace.bytes(line.as_bytes());
        self.log.push(line);
    }

    fn options(&self, accept_loss: bool) -> Options {
        Options {
            create: true,
            name: Some("sim".to_owned()),
            identity: Some([7; 16]),
            segment_bytes: self.drawn.segment_bytes,
            cache_bytes: self.drawn.cache_bytes,
            checkpoint_bytes: self.drawn.checkpoint_bytes,
            accept_loss,
            background: false,
            ..Options::default()
        }
    }

    /// Opens the space; `None` if the machine stopped meanwhile.
    fn open(&mut self) -> Result<Option<Space>, Difference> {
        self.disk.enter(Phase::Opening);
        for accept_loss in [false, true] {
            let disk = Arc::new(self.disk.clone());
            match Space::open_on(disk, self.clock.clone(), self.options(accept_loss)) {
                Ok(space) => {
                    self.disk.enter(Phase::Running);
                    // The node may have stopped on its last step; then it is found out later.
                    return Ok(Some(space));
                }
                Err(_) if self.disk.crashed() => return Ok(None),
                Err(error) if !accept_loss && damaged_tail(&error) => {
                    self.say(format!("damaged tail: {error}"));
                    self.counts.damaged_tails += 1;
                }
                Err(error) => return Err(format!("the space does not open: {error}")),
            }
        }
        Err("the space does not open although loss was accepted".to_owned())
    }

    fn live(&mut self) -> Result<(), Difference> {
        let fault = self.random.weighted(&[
            (Fault::None, 10),
            (Fault::FailedSync, 2),
            (Fault::FullDisk, 1),
        ]);
        let reach = self.random.between(1, self.drawn.reach);
        if fault == Fault::None {
            self.disk.crash_at(reach);
        }
        if let Some(space) = self.open()? {
            match fault {
                Fault::None => {}
                Fault::FailedSync => self.disk.fail_sync_after(reach),
                Fault::FullDisk => self.disk.full_after(reach, self.drawn.reach),
            }
            let most = self.random.between(1, 120);
            self.operate(&space, most, fault)?;
        }
        let crash = self.crash();
        if self.random.one_in(3) {
            self.recover_in_vain(crash)?;
        }
        Ok(())
    }

    /// Once more, while it recovers. A recovery that has only cleared what was torn must not make
    /// it look damaged.
    fn recover_in_vain(&mut self, last: Crash) -> Result<(), Difference> {
        // What a killed process left in the cache may be torn by the next power cut.
        let opens = last == Crash::Power && !self.tail_is_damaged(&self.disk);
        let reach = self.random.between(1, 12);
        self.disk.crash_at(reach);
        drop(self.open()?);
        let cleared_only = !self.disk.journal_written();
        self.counts.interrupted_recoveries += 1;
        self.crash();
        if opens && cleared_only && self.tail_is_damaged(&self.disk) {
            return Err("an interrupted recovery made a torn tail look damaged".to_owned());
        }
        Ok(())
    }

    /// Whether opening would refuse because of the tail; found out on a copy.
    fn tail_is_damaged(&self, disk: &SimDisk) -> bool {
        let opened = Space::open_on(Arc::new(disk.copy()), self.clock.clone(), self.options(false));
        opened.is_err_and(|error| damaged_tail(&error))
    }

    fn crash(&mut self) -> Crash {
        let crash = self.random.weighted(&[(Crash::Power, 3), (Crash::Process, 1)]);
        match crash {
            Crash::Power => self.counts.power_cuts += 1,
            Crash::Process => self.counts.kills += 1,
        }
        self.say(format!("{crash:?} crash after {} disk operations", self.disk.operations()));
        let mut random = self.random.fork();
        self.disk = self.disk.restart(crash, &mut random);
        crash
    }

    fn operate(&mut self, space: &Space, most: u64, fault: Fault) -> Result<(), Difference> {
        if self.session.is_none()
            && let Ok(session) = space.open_session(&Origin::actor("sim"))
        {
            self.session = Some((session, 0));
        }
        for _ in 0..most {
            if self.disk.crashed() {
                return Ok(());
            }
            self.moment += 1;
            let situation =
                Situation { model: &self.model, moment: self.moment, marks: &self.marks };
            let operation = self.drawn.workload.next(&mut self.random, &situation);
            self.step(space, operation, fault)?;
            if !self.in_flight.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        space: &Space,
        operation: Operation,
        fault: Fault,
    ) -> Result<(), Difference> {
        if let Operation::Tick { advance_ms } = operation {
            self.clock.advance(advance_ms);
        }
        let write = (operation.retriable() && self.random.one_in(2))
            .then_some(self.session.as_mut())
            .flatten()
            .map(|(session, seq)| {
                *seq += 1;
                SessionWrite { session: *session, seq: *seq, answered: *seq - 1 }
            });
        let at = self.moment;
        let result = match &operation {
            Operation::Look { branch } => return self.look(space, *branch, fault),
            operation => operation.call(space, &self.model, write),
        };
        self.counts.operation(operation.name());
        let shown = result.as_ref().map_err(|error| (error.kind, error.happened));
        let shown = format!("{at}: {} -> {shown:?}", cut(&format!("{operation:?}"), 160));
        self.say(shown);
        match result {
            Ok(answer) => {
                let expected = operation.expected(&self.model);
                if answer != expected {
                    let operation = cut(&format!("{operation:?}"), 160);
                    return Err(format!("{operation} answered {answer:?}, not {expected:?}"));
                }
                self.acknowledged(&operation, at, Outcome::Acknowledged(2 * at + 1));
                self.counts.acknowledged += 1;
            }
            Err(error) => match error.happened {
                Happened::Yes => return Err(format!("an error that happened: {error}")),
                Happened::No => self.refused(&operation, &error, fault)?,
                Happened::Unknown => {
                    if !self.disk.crashed() && fault == Fault::None {
                        let operation = cut(&format!("{operation:?}"), 160);
                        return Err(format!("{operation} is unknown without a fault: {error}"));
                    }
                    self.in_flight.push(InFlight { operation, at, write });
                    return Ok(());
                }
            },
        }
        if self.random.one_in(8) && !self.disk.crashed() {
            self.mark(space);
        }
        self.observe_expiry(space)
    }

    /// Compares one branch in the middle of a life: reads cover everything acknowledged.
    fn look(&mut self, space: &Space, branch: usize, fault: Fault) -> Result<(), Difference> {
        self.counts.operation("look");
        match check::branch(space, &self.model, branch) {
            // A node that lost its disk may refuse to answer. It must not answer wrongly.
            Err(difference) if difference.contains("failed: ") && fault != Fault::None => Ok(()),
            _ if self.disk.crashed() || !self.in_flight.is_empty() => Ok(()),
            found => found,
        }
    }

    /// Remembers where the order stands.
    fn mark(&mut self, space: &Space) {
        // A read covers everything before it; a failing one shows nothing.
        if space.branches().is_ok() && !self.disk.crashed() {
            let status = space.status();
            if status.unordered == 0 {
                let (index, chain) = (status.index, status.chain);
                self.marks.push(Mark { index, moment: self.moment, chain });
            }
        }
    }

    fn acknowledged(&mut self, operation: &Operation, at: Moment, outcome: Outcome) {
        match operation {
            Operation::Append { branch: 0, stream, records }
            | Operation::AppendAt { branch: 0, stream, records, .. } => {
                self.judge_records(stream, records, at, outcome);
            }
            Operation::Promote { branch, into: 0 } => {
                let own: Vec<_> = self.model.branch(*branch).own_records().collect();
                for (stream, record) in own {
                    self.judge_records(&stream, &[record], at, outcome);
                }
            }
            _ => {}
        }
        operation.apply(&mut self.model, at, self.clock.as_ref());
    }

    fn judge_records(&mut self, stream: &str, records: &[Vec<u8>], at: Moment, outcome: Outcome) {
        let appends = self.judged.entry(stream.to_owned()).or_default();
        appends.extend(records.iter().map(|record| Append {
            record: record.clone(),
            invoked: 2 * at,
            outcome,
        }));
    }

    /// A refusal must have a reason that the schedule can explain; nothing happened.
    fn refused(
        &mut self,
        operation: &Operation,
        error: &Error,
        fault: Fault,
    ) -> Result<(), Difference> {
        self.counts.refused += 1;
        let explained = self.disk.crashed()
            || fault != Fault::None
            || match operation {
                Operation::Promote { .. } => error.kind == Kind::Conflict,
                Operation::Fork { at: Some(_), .. } => error.kind == Kind::RootGone,
                _ => false,
            };
        if explained {
            return Ok(());
        }
        let operation = cut(&format!("{operation:?}"), 160);
        Err(format!("{operation} was refused: {} ({error})", error.kind))
    }

    /// A fork with a time to live may have ended, if its time was up.
    fn observe_expiry(&mut self, space: &Space) -> Result<(), Difference> {
        let watched = self.model.open().into_iter();
        let watched: Vec<_> =
            watched.filter(|branch| self.model.branch(*branch).ttl.is_some()).collect();
        if watched.is_empty() {
            return Ok(());
        }
        let Ok(found) = space.branches() else { return Ok(()) };
        for branch in watched {
            let name = &self.model.branch(branch).name;
            let newest = found.iter().rev().find(|found| found.name == *name);
            let expired =
                newest.is_some_and(|found| matches!(found.status, BranchStatus::Expired { .. }));
            if expired {
                let (ttl, last) = self.model.branch(branch).ttl.unwrap_or_default();
                let now = self.now();
                if now < last + ttl {
                    return Err(format!("`{name}` expired at {now}, used at {last}, ttl {ttl}"));
                }
                self.model.discard(branch, self.moment);
                self.counts.expired += 1;
                self.say(format!("branch {branch} has expired"));
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        anabranch_node::Clock::now_ms(self.clock.as_ref())
    }

    /// In the end, undisturbed: everything works, and a restart keeps it.
    fn serve(&mut self) -> Result<(), Difference> {
        self.say("serve".to_owned());
        let space = self.open()?.ok_or("the machine stopped in peace")?;
        for _ in 0..10 {
            self.moment += 1;
            let situation =
                Situation { model: &self.model, moment: self.moment, marks: &self.marks };
            let operation = self.drawn.workload.next(&mut self.random, &situation);
            self.step(&space, operation, Fault::None)?;
        }
        self.moment += 1;
        self.step(&space, Operation::Checkpoint, Fault::None)?;
        check::space(&space, &self.model)?;
        drop(space);
        let mut random = self.random.fork();
        self.disk = self.disk.restart(Crash::Power, &mut random);
        self.check()?;
        self.trace.number(self.disk.trace().value());
        Ok(())
    }
}

/// Whether opening refused because the unconfirmed end of the journal is damaged.
fn damaged_tail(error: &Error) -> bool {
    let cause = error.source.as_deref().and_then(|cause| cause.downcast_ref::<OpenError>());
    matches!(cause, Some(OpenError::DamagedTail { .. }))
}

/// The beginning of a text, if it is long.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl super::model::Branch {
    fn own_records(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        self.own_events().filter_map(|event| match event {
            Event::Record { stream, record } => Some((stream.clone(), record.clone())),
            _ => None,
        })
    }
}
