//! The operations of the workload: what they ask of the space, and what they mean for the twin.

use anabranch_node::{
    Clock, Error, ForkKind, ForkRequest, Origin, PromoteOptions, SessionWrite, Space, SqlOptions,
};

use super::model::{BranchNumber, Event, Model, Moment};

/// One call on the space.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Append { branch: BranchNumber, stream: String, records: Vec<Vec<u8>> },
    AppendAt { branch: BranchNumber, stream: String, records: Vec<Vec<u8>>, expected: bool },
    Put { branch: BranchNumber, stream: String, key: Vec<u8>, value: Vec<u8> },
    Delete { branch: BranchNumber, stream: String, key: Vec<u8> },
    Cas { branch: BranchNumber, stream: String, key: Vec<u8>, value: Option<Vec<u8>> },
    Incr { branch: BranchNumber, stream: String, key: Vec<u8>, delta: i64 },
    Sql { branch: BranchNumber, script: String, events: Vec<Event>, interactive: bool },
    Fork { parent: BranchNumber, name: String, live: bool, at: Option<Mark>, ttl: Option<u64> },
    Promote { branch: BranchNumber, into: BranchNumber },
    Discard { branch: BranchNumber },
    Checkpoint,
    Tick { advance_ms: u64 },
    Look { branch: BranchNumber },
}

/// An index of the space whose moment is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: u64,
    pub(crate) moment: Moment,
    pub(crate) chain: String,
}

/// What a call answered, where the twin can tell whether it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Offset(u64),
    Number(i64),
}

impl Operation {
    /// Its name in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Operation::Append { .. } => "append",
            Operation::AppendAt { .. } => "append at",
            Operation::Put { .. } => "put",
            Operation::Delete { .. } => "delete",
            Operation::Cas { .. } => "cas",
            Operation::Incr { .. } => "incr",
            Operation::Sql { interactive: false, .. } => "sql",
            Operation::Sql { interactive: true, .. } => "transaction",
            Operation::Fork { .. } => "fork",
            Operation::Promote { .. } => "promote",
            Operation::Discard { .. } => "discard",
            Operation::Checkpoint => "checkpoint",
            Operation::Tick { .. } => "tick",
            Operation::Look { .. } => "look",
        }
    }

    /// Whether the same call with the same session number may be sent again.
    pub(crate) fn retriable(&self) -> bool {
        match self {
            Operation::Append { .. }
            | Operation::Put { .. }
            | Operation::Delete { .. }
            | Operation::Incr { .. }
            | Operation::Fork { .. } => true,
            Operation::AppendAt { expected, .. } => !expected,
            Operation::Sql { interactive, .. } => !interactive,
            Operation::Cas { .. }
            | Operation::Promote { .. }
            | Operation::Discard { .. }
            | Operation::Checkpoint
            | Operation::Tick { .. }
            | Operation::Look { .. } => false,
        }
    }

    /// What the answer must be if it is applied to this twin.
    pub(crate) fn expected(&self, model: &Model) -> Answer {
        match self {
            Operation::AppendAt { branch, stream, .. } => {
                let view = model.view(*branch);
                Answer::Offset(view.streams.get(stream).map_or(0, |records| records.len() as u64))
            }
            Operation::Incr { branch, stream, key, delta } => {
                Answer::Number(number(model, *branch, stream, key) + delta)
            }
            _ => Answer::Nothing,
        }
    }

    /// Applies it to the twin.
    pub(crate) fn apply(&self, model: &mut Model, at: Moment, clock: &dyn Clock) {
        let now_ms = clock.now_ms();
        match self {
            Operation::Append { branch, stream, records }
            | Operation::AppendAt { branch, stream, records, .. } => {
                let events = records
                    .iter()
                    .map(|record| Event::Record { stream: stream.clone(), record: record.clone() });
                model.write(*branch, at, events.collect());
            }
            Operation::Put { branch, stream, key, value } => {
                set(model, *branch, at, (stream, key), Some(value.clone()));
            }
            Operation::Delete { branch, stream, key } => {
                set(model, *branch, at, (stream, key), None);
            }
            Operation::Cas { branch, stream, key, value } => {
                set(model, *branch, at, (stream, key), value.clone());
            }
            Operation::Incr { branch, stream, key, delta } => {
                let sum = number(model, *branch, stream, key) + delta;
                set(model, *branch, at, (stream, key), Some(sum.to_string().into_bytes()));
            }
            Operation::Sql { branch, events, .. } => model.write(*branch, at, events.clone()),
            Operation::Fork { parent, name, live, at: mark, ttl } => {
                let cut = mark.as_ref().map_or(at, |mark| mark.moment);
                let ttl = ttl.map(|ttl| (ttl, now_ms));
                model.fork(*parent, name.clone(), (!live).then_some(cut), ttl);
            }
            Operation::Promote { branch, into } => model.promote(*branch, *into, at),
            Operation::Discard { branch } => model.discard(*branch, at),
            Operation::Checkpoint | Operation::Tick { .. } | Operation::Look { .. } => {}
        }
        if let Some(branch) = self.writes_to()
            && let Some((_, last)) = &mut model.branch_mut(branch).ttl
        {
            *last = now_ms;
        }
    }

    /// The branch whose own events it adds to.
    fn writes_to(&self) -> Option<BranchNumber> {
        match self {
            Operation::Append { branch, .. }
            | Operation::AppendAt { branch, .. }
            | Operation::Put { branch, .. }
            | Operation::Delete { branch, .. }
            | Operation::Cas { branch, .. }
            | Operation::Incr { branch, .. }
            | Operation::Sql { branch, .. } => Some(*branch),
            _ => None,
        }
    }

    /// Calls the space. `Look` is for the caller, who knows the twin.
    pub(crate) fn call(
        &self,
        space: &Space,
        model: &Model,
        write: Option<SessionWrite>,
    ) -> Result<Answer, Error> {
        let by = Origin { write, ..Origin::actor("sim").because(self.name()) };
        let name = |branch: &BranchNumber| model.branch(*branch).name.as_str();
        match self {
            Operation::Append { branch, stream, records } => {
                space.append(name(branch), stream, records.clone(), &by)?;
            }
            Operation::AppendAt { branch, stream, records, expected } => {
                let length = match self.expected(model) {
                    Answer::Offset(length) if *expected => Some(length),
                    _ => None,
                };
                let done = space.append_at(name(branch), stream, records.clone(), length, &by)?;
                return Ok(Answer::Offset(done.offset));
            }
            Operation::Put { branch, stream, key, value } => {
                space.put(name(branch), stream, key, value, &by)?;
            }
            Operation::Delete { branch, stream, key } => {
                space.delete(name(branch), stream, key, &by)?;
            }
            Operation::Cas { branch, stream, key, value } => {
                let known = space.get(name(branch), stream, key)?.map(|found| found.index);
                space.cas(name(branch), stream, key, known, value.as_deref(), &by)?;
            }
            Operation::Incr { branch, stream, key, delta } => {
                return Ok(Answer::Number(space.incr(name(branch), stream, key, *delta, &by)?));
            }
            Operation::Sql { branch, script, interactive: false, .. } => {
                space.sql(name(branch), script, &[], &SqlOptions::default(), &by)?;
            }
            Operation::Sql { branch, script, interactive: true, .. } => {
                let mut transaction = space.begin(name(branch), &SqlOptions::default(), &by)?;
                for statement in script.split_inclusive(';') {
                    transaction.run(statement, &[])?;
                }
                transaction.commit()?;
            }
            Operation::Fork { parent, name: new, live, at, ttl } => {
                let request = ForkRequest {
                    parent: name(parent).to_owned(),
                    name: new.clone(),
                    kind: if *live { ForkKind::Live } else { ForkKind::Frozen },
                    at: at.as_ref().map(|mark| mark.index),
                    owner: String::new(),
                    ttl_ms: *ttl,
                };
                space.fork(&request, &by)?;
            }
            Operation::Promote { branch, .. } => {
                space.promote(name(branch), &PromoteOptions::default(), &by)?;
            }
            Operation::Discard { branch } => {
                space.discard(name(branch), &by)?;
            }
            Operation::Checkpoint => {
                space.checkpoint(&by)?;
            }
            Operation::Tick { .. } => space.tick()?,
            Operation::Look { .. } => {}
        }
        Ok(Answer::Nothing)
    }
}

fn set(
    model: &mut Model,
    branch: BranchNumber,
    at: Moment,
    (stream, key): (&str, &[u8]),
    value: Option<Vec<u8>>,
) {
    let event = Event::Key { stream: stream.to_owned(), key: key.to_vec(), value };
    model.write(branch, at, vec![event]);
}

fn number(model: &Model, branch: BranchNumber, stream: &str, key: &[u8]) -> i64 {
    let view = model.view(branch);
    let value = view.keys.get(stream).and_then(|keys| keys.get(key));
    let text = value.map(|value| String::from_utf8_lossy(value).into_owned());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
