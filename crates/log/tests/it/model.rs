//! The naive twin: every branch holds a whole copy of its view, as a list of events.
//!
//! It shares no algorithm with the crate: a write is copied into every view that sees it at the
//! moment it happens, a fork copies its parent's lists, and nothing is ever computed through an
//! ancestor. Slow, large, and plain to read.

use std::collections::BTreeMap;

use anabranch_log::*;

/// A record in one view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Index at which it joined the view.
    pub(crate) joined: u64,
    pub(crate) index: u64,
    pub(crate) key: Option<Key>,
    pub(crate) value: Option<Vec<u8>>,
    /// Depth of the branch that owns it: of two records of a key, the deeper owner's wins.
    pub(crate) depth: u32,
}

pub(crate) type StreamId = (StreamKind, StreamName);
pub(crate) type Answer = Result<Outcome, Kind>;

#[derive(Clone, Debug)]
pub(crate) struct Twig {
    pub(crate) name: BranchName,
    pub(crate) parent: Option<usize>,
    pub(crate) live: bool,
    pub(crate) status: Status,
    pub(crate) created: u64,
    pub(crate) last_used: u64,
    pub(crate) depth: u32,
    /// First the version it started from, then its own.
    pub(crate) versions: Vec<u64>,
    pub(crate) checks: BTreeMap<String, String>,
    pub(crate) checks_changed: u64,
    pub(crate) view: BTreeMap<StreamId, Vec<Event>>,
    /// First position that can be forked at.
    pub(crate) from: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) answered: u64,
    pub(crate) outcomes: BTreeMap<u64, Answer>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) next: u64,
    pub(crate) twigs: Vec<Twig>,
    pub(crate) sessions: BTreeMap<u64, Remembered>,
    pub(crate) sessions_given: u64,
    /// Whether the last refusal left its sequence number unused.
    unused: bool,
}

/// The branch's place in the list.
pub(crate) fn place(branch: BranchId) -> usize {
    usize::try_from(branch.0).unwrap()
}

/// The newest event of a key among events of one view.
pub(crate) fn newest<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<&'a Event> {
    let mut best: Option<&Event> = None;
    for event in events {
        if best.is_none_or(|best| event.depth >= best.depth) {
            best = Some(event);
        }
    }
    best
}

impl Twig {
    pub(crate) fn closed(&self) -> bool {
        matches!(self.status, Status::Closed(_))
    }

    pub(crate) fn events(&self, stream: &StreamId) -> &[Event] {
        self.view.get(stream).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn own<'a>(&'a self, stream: &StreamId) -> impl Iterator<Item = &'a Event> {
        self.events(stream).iter().filter(|event| event.depth == self.depth)
    }

    pub(crate) fn of_key(&self, stream: &StreamName, key: &Key) -> Vec<&Event> {
        let events = self.events(&(StreamKind::Keyed, stream.clone()));
        events.iter().filter(|event| event.key.as_ref() == Some(key)).collect()
    }

    pub(crate) fn get(&self, stream: &StreamName, key: &Key) -> Option<&Event> {
        newest(self.of_key(stream, key))
    }

    pub(crate) fn base(&self, stream: &StreamName, key: &Key) -> Option<&Event> {
        let events = self.of_key(stream, key);
        let own = events.iter().find(|event| event.depth == self.depth);
        let first = own.map_or(u64::MAX, |event| event.joined);
        newest(events.into_iter().filter(|e| e.depth < self.depth && e.joined <= first))
    }

    pub(crate) fn version_at(&self, at: u64) -> u64 {
        *self.versions.iter().rev().find(|version| **version <= at).unwrap()
    }
}

impl Model {
    pub(crate) fn new() -> Model {
        let root = Twig {
            name: BranchName::main(),
            parent: None,
            live: false,
            status: Status::Open,
            created: 0,
            last_used: 0,
            depth: 0,
            versions: vec![0],
            checks: BTreeMap::new(),
            checks_changed: 0,
            view: BTreeMap::new(),
            from: 0,
        };
        Model {
            next: 1,
            twigs: vec![root],
            sessions: BTreeMap::new(),
            sessions_given: 0,
            unused: false,
        }
    }

    /// What the entry does, and whether it was a retry.
    pub(crate) fn apply(&mut self, entry: &Entry) -> (Answer, bool) {
        if let Err(refusal) = entry.validate() {
            return (Err(refusal.kind()), false);
        }
        let (session, seq) = (entry.id.session.0, entry.id.seq);
        if session == 0 {
            return (self.execute(&entry.operation), false);
        }
        let Some(remembered) = self.sessions.get_mut(&session) else {
            let given = session <= self.sessions_given;
            let kind = if given { Kind::SessionExpired } else { Kind::InvalidArgument };
            return (Err(kind), false);
        };
        let before = remembered.outcomes.get(&seq).cloned();
        if before.is_none() && seq <= remembered.answered {
            return (Err(Kind::UnknownOutcome), false);
        }
        remembered.answered = remembered.answered.max(entry.answered);
        let answered = remembered.answered;
        remembered.outcomes.retain(|seq, _| *seq > answered);
        if let Some(answer) = before {
            return (answer, true);
        }
        self.unused = false;
        let answer = self.execute(&entry.operation);
        if !self.unused
            && let Some(remembered) = self.sessions.get_mut(&session)
        {
            remembered.outcomes.insert(seq, answer.clone());
        }
        (answer, false)
    }

    fn status(&self, branch: BranchId, closing_too: bool) -> Result<(), Kind> {
        match self.twigs.get(place(branch)).map(|twig| twig.status) {
            None => Err(Kind::UnknownBranch),
            Some(Status::Closed(_)) => Err(Kind::BranchClosed),
            Some(Status::Closing { .. }) if !closing_too => Err(Kind::BranchClosing),
            Some(_) => Ok(()),
        }
    }

    fn take(&mut self, branch: BranchId, count: u64) -> u64 {
        let first = self.next;
        self.next += count;
        self.twigs[place(branch)].last_used = first;
        first
    }

    /// Whether what is written on `on` shows in the view of `seer`.
    fn sees(&self, seer: usize, on: usize) -> bool {
        let mut at = seer;
        loop {
            if self.twigs[at].closed() {
                return false;
            }
            if at == on {
                return true;
            }
            match self.twigs[at].parent {
                Some(parent) if self.twigs[at].live => at = parent,
                _ => return false,
            }
        }
    }

    fn write(&mut self, on: usize, stream: &StreamId, event: &Event) {
        for seer in 0..self.twigs.len() {
            if self.sees(seer, on) {
                self.twigs[seer].view.entry(stream.clone()).or_default().push(event.clone());
            }
        }
    }

    fn put(
        &mut self,
        branch: BranchId,
        name: &StreamName,
        key: &Key,
        value: Option<Vec<u8>>,
    ) -> u64 {
        let index = self.take(branch, 1);
        let depth = self.twigs[place(branch)].depth;
        let event = Event { joined: index, index, key: Some(key.clone()), value, depth };
        self.write(place(branch), &(StreamKind::Keyed, name.clone()), &event);
        index
    }

    fn execute(&mut self, operation: &Operation) -> Answer {
        let index = Index(self.next);
        match operation {
            Operation::Append { branch, stream, expected, records } => {
                self.status(*branch, expected.is_none())?;
                let stream = (StreamKind::Plain, stream.clone());
                let offset = Offset(self.twigs[place(*branch)].events(&stream).len() as u64);
                if expected.is_some_and(|expected| expected != offset) {
                    return Err(Kind::OffsetMismatch);
                }
                let first = self.take(*branch, records.len() as u64);
                let depth = self.twigs[place(*branch)].depth;
                for (index, record) in (first..).zip(records) {
                    let value = Some(record.clone());
                    let event = Event { joined: index, index, key: None, value, depth };
                    self.write(place(*branch), &stream, &event);
                }
                Ok(Outcome::Appended { index, offset })
            }
            Operation::Put { branch, stream, key, value } => {
                self.status(*branch, true)?;
                self.put(*branch, stream, key, Some(value.clone()));
                Ok(Outcome::Put { index })
            }
            Operation::Delete { branch, stream, key } => {
                self.status(*branch, true)?;
                self.put(*branch, stream, key, None);
                Ok(Outcome::Put { index })
            }
            Operation::Cas { branch, stream, key, expected, value } => {
                self.status(*branch, false)?;
                let newest = self.twigs[place(*branch)].get(stream, key);
                let newest = newest.filter(|event| event.value.is_some());
                if newest.map(|event| Index(event.index)) != *expected {
                    return Err(Kind::VersionMismatch);
                }
                self.put(*branch, stream, key, value.clone());
                Ok(Outcome::Put { index })
            }
            Operation::Incr { branch, stream, key, delta } => {
                self.status(*branch, false)?;
                let newest = self.twigs[place(*branch)].get(stream, key);
                let text = newest.and_then(|event| event.value.clone());
                let before = match text {
                    None => 0,
                    Some(text) => number_of(&text).ok_or(Kind::NotANumber)?,
                };
                let value = before.checked_add(*delta).ok_or(Kind::NotANumber)?;
                self.put(*branch, stream, key, Some(value.to_string().into_bytes()));
                Ok(Outcome::Number { index, value })
            }
            Operation::Fork { .. } => self.fork(operation),
            Operation::Closing { branch, purpose } => self.closing(*branch, *purpose),
            Operation::Promote { .. } => self.promote(operation),
            Operation::Discard { branch, closing } => self.discard(*branch, *closing),
            Operation::Reopen { branch, closing } => {
                self.purpose(*branch, *closing)?;
                self.next += 1;
                self.twigs[place(*branch)].status = Status::Open;
                Ok(Outcome::Reopened { index })
            }
            Operation::Commit { branch, base, parent, .. } => {
                self.status(*branch, false)?;
                let twig = &self.twigs[place(*branch)];
                if twig.live != parent.is_some() {
                    return Err(Kind::InvalidArgument);
                }
                if twig.versions.last() != Some(&base.0.0) {
                    self.unused = true;
                    return Err(Kind::TablesMoved);
                }
                let version = self.take(*branch, 1);
                self.twigs[place(*branch)].versions.push(version);
                Ok(Outcome::Committed { index })
            }
            Operation::AddCheck { branch, name, sql } => {
                self.status(*branch, false)?;
                if self.twigs[place(*branch)].checks.contains_key(name) {
                    return Err(Kind::NameTaken);
                }
                let at = self.take(*branch, 1);
                self.twigs[place(*branch)].checks.insert(name.clone(), sql.clone());
                self.twigs[place(*branch)].checks_changed = at;
                Ok(Outcome::Done { index })
            }
            Operation::DropCheck { branch, name } => {
                self.status(*branch, false)?;
                if self.twigs[place(*branch)].checks.remove(name).is_none() {
                    return Err(Kind::InvalidArgument);
                }
                let at = self.take(*branch, 1);
                self.twigs[place(*branch)].checks_changed = at;
                Ok(Outcome::Done { index })
            }
            Operation::OpenSession { .. } => {
                self.next += 1;
                self.sessions_given += 1;
                self.sessions.insert(self.sessions_given, Remembered::default());
                Ok(Outcome::Session { session: SessionId(self.sessions_given), index })
            }
            Operation::CloseSession { session } => {
                if self.sessions.remove(&session.0).is_none() {
                    let given = session.0 > 0 && session.0 <= self.sessions_given;
                    return Err(if given { Kind::SessionExpired } else { Kind::InvalidArgument });
                }
                self.next += 1;
                Ok(Outcome::Done { index })
            }
            Operation::Checkpoint => {
                self.next += 1;
                Ok(Outcome::Checkpointed { index })
            }
        }
    }

    fn fork(&mut self, operation: &Operation) -> Answer {
        let Operation::Fork { parent, name, kind, at, .. } = operation else { unreachable!() };
        self.status(*parent, false)?;
        if self.twigs.iter().any(|twig| twig.name == *name && !twig.closed()) {
            return Err(Kind::NameTaken);
        }
        let of = &self.twigs[place(*parent)];
        if at.is_some_and(|at| at.0 < of.from || at.0 >= self.next) {
            return Err(Kind::InvalidArgument);
        }
        if of.depth >= limits::DEPTH {
            return Err(Kind::TooMany);
        }
        let live = *kind == ForkKind::Live;
        let cut = at.map_or(self.next, |at| at.0);
        let mut view = of.view.clone();
        for events in view.values_mut() {
            events.retain(|event| event.joined <= cut);
        }
        let twig = Twig {
            name: name.clone(),
            parent: Some(place(*parent)),
            live,
            status: Status::Open,
            created: self.next,
            last_used: self.next,
            depth: of.depth + 1,
            versions: vec![of.version_at(cut)],
            checks: BTreeMap::new(),
            checks_changed: 0,
            view,
            from: if live { self.next } else { cut },
        };
        let index = self.take(*parent, 1);
        self.twigs.push(twig);
        let branch = BranchId(self.twigs.len() as u64 - 1);
        Ok(Outcome::Forked { branch, index: Index(index) })
    }

    /// Whether the branch and every fork below it is closed.
    pub(crate) fn retired(&self, branch: usize) -> bool {
        let mut forks =
            (branch + 1..self.twigs.len()).filter(|fork| self.twigs[*fork].parent == Some(branch));
        self.twigs[branch].closed() && forks.all(|fork| self.retired(fork))
    }

    /// Whether the branch or an ancestor of it is `ancestor`.
    pub(crate) fn within(&self, branch: BranchId, ancestor: BranchId) -> bool {
        let mut at = Some(place(branch));
        while let Some(twig) = at {
            if twig == place(ancestor) {
                return true;
            }
            at = self.twigs[twig].parent;
        }
        false
    }

    fn target(&self, branch: BranchId, into: BranchId) -> Result<(), Kind> {
        self.status(into, false)?;
        if self.within(into, branch) { Err(Kind::InvalidArgument) } else { Ok(()) }
    }

    fn closing(&mut self, branch: BranchId, purpose: Purpose) -> Answer {
        self.status(branch, false)?;
        if branch == BranchId::MAIN {
            return Err(Kind::InvalidArgument);
        }
        match purpose {
            Purpose::Promote { into } => self.target(branch, into)?,
            Purpose::Discard => {}
            Purpose::Expire { last_used } => {
                if last_used.0 != self.twigs[place(branch)].last_used {
                    return Err(Kind::StaleToken);
                }
            }
        }
        let index = Index(self.next);
        self.next += 1;
        self.twigs[place(branch)].status = Status::Closing { at: index, purpose };
        Ok(Outcome::Closing { index })
    }

    fn purpose(&self, branch: BranchId, closing: Index) -> Result<Purpose, Kind> {
        self.status(branch, true)?;
        match self.twigs[place(branch)].status {
            Status::Closing { at, purpose } if at == closing => Ok(purpose),
            _ => Err(Kind::StaleToken),
        }
    }

    fn discard(&mut self, branch: BranchId, closing: Index) -> Answer {
        let at = Index(self.next);
        let how = match self.purpose(branch, closing)? {
            Purpose::Promote { .. } => return Err(Kind::StaleToken),
            Purpose::Discard => Closed::Discarded { at },
            Purpose::Expire { last_used } => {
                if last_used.0 != self.twigs[place(branch)].last_used {
                    return Err(Kind::StaleToken);
                }
                Closed::Expired { at }
            }
        };
        self.next += 1;
        self.twigs[place(branch)].status = Status::Closed(how);
        Ok(Outcome::Discarded { index: at })
    }

    /// Where a promotion goes unless told otherwise; `None` where it must be told, or cannot be.
    pub(crate) fn promotion_target(&self, branch: BranchId) -> Option<BranchId> {
        let twig = &self.twigs[place(branch)];
        let mut target = BranchId(twig.parent.filter(|_| !twig.closed())? as u64);
        while let Status::Closed(how) = self.twigs[place(target)].status {
            let Closed::Promoted { into, .. } = how else { return None };
            target = into;
        }
        self.target(branch, target).is_ok().then_some(target)
    }

    pub(crate) fn conflicts(&self, branch: BranchId, into: BranchId) -> Vec<KeyConflict> {
        let (twig, target) = (&self.twigs[place(branch)], &self.twigs[place(into)]);
        let mut conflicts: BTreeMap<(StreamName, Key), KeyConflict> = BTreeMap::new();
        for stream @ (kind, name) in twig.view.keys() {
            for event in twig.own(stream).filter(|_| *kind == StreamKind::Keyed) {
                let key = event.key.as_ref().unwrap();
                let base = twig.base(name, key).map(|event| Index(event.index));
                let theirs = target.get(name, key).map(|event| Index(event.index));
                if base != theirs {
                    let (stream, key, ours) = (name.clone(), key.clone(), Index(event.index));
                    let conflict = KeyConflict { stream, key, base, ours, theirs };
                    let name = (conflict.stream.clone(), conflict.key.clone());
                    conflicts.insert(name, conflict);
                }
            }
        }
        conflicts.into_values().collect()
    }

    fn promote(&mut self, operation: &Operation) -> Answer {
        let Operation::Promote {
            branch,
            closing,
            into,
            target_tables,
            tables,
            leave_out,
            overwrite,
            ..
        } = operation
        else {
            unreachable!()
        };
        if self.purpose(*branch, *closing)? != (Purpose::Promote { into: *into }) {
            return Err(Kind::StaleToken);
        }
        self.target(*branch, *into)?;
        let (twig, target) = (&self.twigs[place(*branch)], &self.twigs[place(*into)]);
        if target.checks_changed > closing.0 {
            self.unused = true;
            return Err(Kind::StaleToken);
        }
        let takes = *tables == TablesChange::TakeFork;
        if takes && (twig.live || target.live) {
            return Err(Kind::InvalidArgument);
        }
        let current = *target.versions.last().unwrap();
        let own_change = twig.versions.len() > 1;
        if (own_change || *tables != TablesChange::None) && target_tables.0.0 != current {
            self.unused = true;
            return Err(Kind::TablesMoved);
        }
        if takes && twig.versions[0] != current {
            self.unused = true;
            return Err(Kind::TablesMoved);
        }
        for conflict in self.conflicts(*branch, *into) {
            let left = leave_out.iter().any(|(s, k)| *s == conflict.stream && *k == conflict.key);
            let won = overwrite
                .iter()
                .rev()
                .find(|o| o.stream == conflict.stream && o.key == conflict.key);
            if !left && won.is_none_or(|won| won.theirs != conflict.theirs) {
                return Err(Kind::Conflict);
            }
        }
        let own: Vec<(StreamId, Event)> = twig
            .view
            .keys()
            .flat_map(|stream| twig.own(stream).map(|event| (stream.clone(), event.clone())))
            .filter(|((_, name), event)| {
                let left = |(s, k): &(StreamName, Key)| s == name && Some(k) == event.key.as_ref();
                !leave_out.iter().any(left)
            })
            .collect();
        let depth = target.depth;
        let at = self.take(*into, 1);
        let index = Index(at);
        self.twigs[place(*branch)].status =
            Status::Closed(Closed::Promoted { into: *into, at: index });
        let mut keys: Vec<_> = Vec::new();
        for (stream, event) in &own {
            self.write(place(*into), stream, &Event { joined: at, depth, ..event.clone() });
            keys.extend(event.key.as_ref().map(|key| (stream, key)));
        }
        keys.sort_unstable();
        keys.dedup();
        if *tables != TablesChange::None {
            self.twigs[place(*into)].versions.push(at);
        }
        let (records, keys) = (own.len() as u64, keys.len() as u64);
        Ok(Outcome::Promoted { index, into: *into, records, keys })
    }
}
