//! Streams and keys: appends, puts and reads.

use std::time::{Duration, Instant};

use anabranch_log::{BranchId, Index, Kind, Offset, Operation, Outcome, StreamKind, number_of};

use crate::body::Applied;
use crate::error::{Error, Result};
use crate::names;
use crate::shared::Shared;
use crate::view::{Acknowledged, Appended, KeyValue, Origin, StreamInfo, StreamPage, StreamRecord};

/// Most records or keys one call returns (inclusive).
pub(crate) const PAGE_MAX: usize = 10_000;
/// Bytes of records after which a call returns what it has.
const PAGE_BYTES: usize = 8 << 20;

impl Shared {
    pub(crate) fn append(
        &self,
        branch: &str,
        stream: &str,
        records: Vec<Vec<u8>>,
        by: &Origin,
    ) -> Result<Acknowledged> {
        let stream = names::stream(stream)?;
        let bytes = records.iter().map(Vec::len).sum();
        self.acknowledge(branch, by, bytes, move |branch| Operation::Append {
            branch,
            stream,
            expected: None,
            records,
        })
    }

    pub(crate) fn append_at(
        &self,
        branch: &str,
        stream: &str,
        records: Vec<Vec<u8>>,
        expected: Option<u64>,
        by: &Origin,
    ) -> Result<Appended> {
        let stream = names::stream(stream)?;
        let count = records.len() as u64;
        let expected = expected.map(Offset);
        let append = |branch| Operation::Append { branch, stream, expected, records };
        match self.order(branch, by, append)? {
            Outcome::Appended { index, offset } => {
                Ok(Appended { index: index.0, offset: offset.0, count })
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn read(
        &self,
        branch: &str,
        stream: &str,
        start: u64,
        max: usize,
    ) -> Result<StreamPage> {
        let stream = names::stream(stream)?;
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        let length = engine.state.length(id, &stream);
        let found = engine.state.read(id, &stream, Offset(start), max.min(PAGE_MAX));
        let index = engine.state.applied_index().0;
        let history = engine.history.clone();
        drop(engine);
        self.touch(id);
        let mut records = Vec::with_capacity(found.len());
        let mut bytes = 0;
        let mut reader = Records { history: &history, frame: None };
        for (offset, at) in found {
            let value = reader.value(at)?.unwrap_or_default();
            bytes += value.len();
            records.push(StreamRecord { offset: offset.0, index: at.0, value });
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(StreamPage { records, length, index })
    }

    pub(crate) fn wait_longer(
        &self,
        branch: &str,
        stream: &str,
        offset: u64,
        timeout: Duration,
    ) -> Result<bool> {
        let stream = names::stream(stream)?;
        let deadline = Instant::now() + timeout;
        self.barrier()?;
        let mut engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        loop {
            if let Some(error) = engine.in_flight_error() {
                return Err(Error::no(error.kind, error.message));
            }
            if names::branch(&engine.state, branch)? != id {
                return Err(Error::no(Kind::BranchClosed, "the branch name has a new life"));
            }
            if engine.state.length(id, &stream) > offset {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            engine = self.wait_applied(engine, left);
        }
    }

    pub(crate) fn streams(&self, branch: &str) -> Result<Vec<StreamInfo>> {
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        let streams = engine.state.streams(id).into_iter();
        Ok(streams
            .map(|(kind, name, length)| StreamInfo {
                stream: name.to_string(),
                keyed: kind == StreamKind::Keyed,
                length,
            })
            .collect())
    }

    pub(crate) fn put(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        value: &[u8],
        by: &Origin,
    ) -> Result<Acknowledged> {
        let (stream, key) = (names::stream(stream)?, names::key(key)?);
        let (value, bytes) = (value.to_vec(), value.len());
        let put = move |branch| Operation::Put { branch, stream, key, value };
        self.acknowledge(branch, by, bytes, put)
    }

    pub(crate) fn delete(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        by: &Origin,
    ) -> Result<Acknowledged> {
        let (stream, key) = (names::stream(stream)?, names::key(key)?);
        let delete = move |branch| Operation::Delete { branch, stream, key };
        self.acknowledge(branch, by, 0, delete)
    }

    #[expect(clippy::too_many_arguments, reason = "a key, its condition and its new value")]
    pub(crate) fn cas(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        expected: Option<u64>,
        value: Option<&[u8]>,
        by: &Origin,
    ) -> Result<u64> {
        let (stream, key) = (names::stream(stream)?, names::key(key)?);
        let expected = expected.map(Index);
        let value = value.map(<[u8]>::to_vec);
        let cas = |branch| Operation::Cas { branch, stream, key, expected, value };
        Ok(self.order(branch, by, cas)?.index().0)
    }

    pub(crate) fn incr(
        &self,
        branch: &str,
        stream: &str,
        key: &[u8],
        delta: i64,
        by: &Origin,
    ) -> Result<i64> {
        let (stream, key) = (names::stream(stream)?, names::key(key)?);
        match self.order(branch, by, |branch| Operation::Incr { branch, stream, key, delta })? {
            Outcome::Number { value, .. } => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn get(&self, branch: &str, stream: &str, key: &[u8]) -> Result<Option<KeyValue>> {
        let (stream, key) = (names::stream(stream)?, names::key(key)?);
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        let version = engine.state.get(id, &stream, &key);
        let history = engine.history.clone();
        drop(engine);
        self.touch(id);
        let Some(version) = version.filter(|version| !version.deleted) else { return Ok(None) };
        let value = Records { history: &history, frame: None }.value(version.index)?;
        Ok(value.map(|value| KeyValue {
            key: key.as_bytes().to_vec(),
            value,
            index: version.index.0,
        }))
    }

    pub(crate) fn scan(
        &self,
        branch: &str,
        stream: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        max: usize,
    ) -> Result<Vec<KeyValue>> {
        let stream = names::stream(stream)?;
        let after = after.map(names::key).transpose()?;
        self.barrier()?;
        let engine = self.lock();
        let id = names::branch(&engine.state, branch)?;
        let found = engine.state.scan(id, &stream, prefix, after.as_ref(), max.min(PAGE_MAX));
        let history = engine.history.clone();
        drop(engine);
        self.touch(id);
        let mut reader = Records { history: &history, frame: None };
        let mut keys = Vec::with_capacity(found.len());
        let mut bytes = 0;
        for (key, version) in found {
            let Some(value) = reader.value(version.index)? else { continue };
            bytes += value.len();
            let key = key.as_bytes().to_vec();
            keys.push(KeyValue { key, value, index: version.index.0 });
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(keys)
    }

    /// A read counts as a use of a fork with a time to live.
    pub(crate) fn touch(&self, branch: BranchId) {
        let now = self.clock.now_ms();
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        idle.touched(branch, now);
    }
}

/// Reads record values out of the history; consecutive records of one operation cost one read.
pub(crate) struct Records<'a> {
    pub(crate) history: &'a anabranch_store::History,
    pub(crate) frame: Option<(Index, u64, Applied)>,
}

impl Records<'_> {
    /// The record at an index; `None` if it deletes a key.
    pub(crate) fn value(&mut self, index: Index) -> Result<Option<Vec<u8>>> {
        let held = self
            .frame
            .as_ref()
            .filter(|(first, count, _)| *first <= index && index.0 < first.0 + count);
        if held.is_none() {
            let frame = self.history.read(index).map_err(|error| {
                Error::no(Kind::Corrupt, format!("a record cannot be read, index=`{index}`"))
                    .because(error)
            })?;
            let applied = Applied::decode(&frame.body).map_err(|error| {
                Error::no(Kind::Corrupt, format!("a record is malformed, index=`{index}`"))
                    .because(error)
            })?;
            self.frame = Some((frame.first, frame.count, applied));
        }
        let (first, _, applied) = self.frame.as_ref().expect("set just above");
        let number = usize::try_from(index.0 - first.0).unwrap_or(usize::MAX);
        record_of(applied, number).ok_or_else(|| {
            Error::no(Kind::Corrupt, format!("an index holds no record, index=`{index}`"))
        })
    }
}

/// Record `number` of an applied operation: outer `None` if there is no such record.
#[expect(clippy::option_option, reason = "no such record, a deletion, a value: three answers")]
fn record_of(applied: &Applied, number: usize) -> Option<Option<Vec<u8>>> {
    match &applied.entry.operation {
        Operation::Append { records, .. } => records.get(number).cloned().map(Some),
        Operation::Put { value, .. } if number == 0 => Some(Some(value.clone())),
        Operation::Delete { .. } if number == 0 => Some(None),
        Operation::Cas { value, .. } if number == 0 => Some(value.clone()),
        Operation::Incr { .. } if number == 0 => match applied.outcome {
            Outcome::Number { value, .. } => {
                let text = value.to_string().into_bytes();
                debug_assert_eq!(number_of(&text), Some(value));
                Some(Some(text))
            }
            _ => None,
        },
        _ => None,
    }
}

/// An outcome that does not fit its operation: a bug, told without a panic to whoever waits.
pub(crate) fn unexpected(outcome: &Outcome) -> Error {
    Error::unknown(Kind::Internal, format!("an unfitting outcome, outcome=`{outcome:?}`"))
}
