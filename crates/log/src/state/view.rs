//! Views: what a branch sees, computed from own writes along its ancestors.
//!
//! A lookup walks from the branch to the root. Each step knows the index up to which that level
//! is seen: a frozen fork cuts its parent where it was made, and a closed branch is seen by its
//! forks as it was just before it closed. Costs are O(depth · log own), where `own` counts the
//! level's own runs or versions; `depth` is at most [`limits::DEPTH`](crate::limits::DEPTH).

use std::collections::{BTreeSet, btree_map};
use std::iter::Peekable;
use std::ops::Bound;

use super::State;
use crate::branch::{Branch, Hit, Version, Versions};
use crate::{BranchId, Index, Key, Offset, Refusal, StreamKind, StreamName, TableVersion};

/// The newest version of a key in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// Index of the record that set it: what a cas compares.
    pub index: Index,
    /// Whether that record deleted the key.
    pub deleted: bool,
}

impl From<&Version> for KeyVersion {
    fn from(version: &Version) -> KeyVersion {
        let deleted = version.value == crate::branch::Value::Deleted;
        KeyVersion { index: Index(version.index), deleted }
    }
}

/// A key changed on a branch and, since the branch's base, on the target too.
///
/// All three are versions; deletions count as versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConflict {
    /// The keyed stream.
    pub stream: StreamName,
    /// The key.
    pub key: Key,
    /// The version that the branch's first own write replaced.
    pub base: Option<Index>,
    /// The branch's newest version.
    pub ours: Index,
    /// The target's newest version; it differs from `base`.
    pub theirs: Option<Index>,
}

/// A branch and its ancestors, each with the last index that is seen of it.
pub(super) struct Levels<'a> {
    state: &'a State,
    next: Option<(&'a Branch, u64)>,
}

impl<'a> Iterator for Levels<'a> {
    type Item = (&'a Branch, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (branch, bound) = self.next?;
        self.next = branch.parent().map(|parent| {
            let parent = self.state.branches.at(parent);
            (parent, bound.min(branch.cut).min(parent.last_seen()))
        });
        Some((branch, bound))
    }
}

impl State {
    /// Levels of a view as of an index (inclusive). None of a branch that is unknown or retired;
    /// a closed one is seen as it was just before it closed.
    pub(super) fn levels(&self, branch: BranchId, bound: u64) -> Levels<'_> {
        let of = self.branches.get(branch).filter(|branch| !branch.is_retired());
        Levels { state: self, next: of.map(|branch| (branch, bound.min(branch.last_seen()))) }
    }

    /// Levels of what a branch sees of its parent.
    pub(super) fn parent_levels(&self, branch: BranchId, bound: u64) -> Levels<'_> {
        let mut levels = self.levels(branch, bound);
        levels.next();
        levels
    }

    /// Length of the branch's view of a plain stream: the offset that its next record will get.
    /// 0 if there is no such stream or branch.
    #[must_use]
    pub fn length(&self, branch: BranchId, stream: &StreamName) -> u64 {
        length(self.levels(branch, u64::MAX), StreamKind::Plain, stream)
    }

    /// The same as of an index (inclusive).
    #[must_use]
    pub fn length_at(&self, branch: BranchId, stream: &StreamName, at: Index) -> u64 {
        length(self.levels(branch, at.0), StreamKind::Plain, stream)
    }

    /// Number of versions of all keys of a keyed stream in the branch's view.
    #[must_use]
    pub fn versions(&self, branch: BranchId, stream: &StreamName) -> u64 {
        length(self.levels(branch, u64::MAX), StreamKind::Keyed, stream)
    }

    /// Index of the record at an offset of the branch's view of a plain stream.
    #[must_use]
    pub fn locate(&self, branch: BranchId, stream: &StreamName, offset: Offset) -> Option<Index> {
        self.segment(branch, StreamKind::Plain, stream, offset).map(|(index, _)| Index(index))
    }

    /// Up to `max` records from `start` (inclusive), in the order of their offsets.
    #[must_use]
    pub fn read(
        &self,
        branch: BranchId,
        stream: &StreamName,
        start: Offset,
        max: usize,
    ) -> Vec<(Offset, Index)> {
        self.read_kind(branch, StreamKind::Plain, stream, start, max)
    }

    /// The same for a stream of either kind; the records of a keyed stream are versions of keys.
    #[must_use]
    pub fn read_kind(
        &self,
        branch: BranchId,
        kind: StreamKind,
        stream: &StreamName,
        start: Offset,
        max: usize,
    ) -> Vec<(Offset, Index)> {
        let mut records = Vec::new();
        let mut at = start.0;
        while records.len() < max {
            let Some((first, count)) = self.segment(branch, kind, stream, Offset(at)) else {
                break;
            };
            let count = count.min((max - records.len()) as u64);
            records.extend((0..count).map(|i| (Offset(at + i), Index(first + i))));
            at += count;
        }
        records
    }

    /// The record at an offset, and for how many offsets the indexes just count on.
    fn segment(
        &self,
        branch: BranchId,
        kind: StreamKind,
        stream: &StreamName,
        offset: Offset,
    ) -> Option<(u64, u64)> {
        let length = length(self.levels(branch, u64::MAX), kind, stream);
        let (mut offset, mut count) = (offset.0, length.checked_sub(offset.0)?);
        if count == 0 {
            return None;
        }
        for (level, _) in self.levels(branch, u64::MAX) {
            let Some(runs) = level.own_runs(kind, stream) else { continue };
            match runs.find(offset) {
                Hit::Own { index, count: follow } => return Some((index, count.min(follow))),
                Hit::Parent { offset: above, count: follow } => {
                    offset = above;
                    count = count.min(follow);
                }
            }
        }
        unreachable!("an offset below the length is some level's own record")
    }

    /// Streams of the branch's view with at least one record, by kind and name.
    #[must_use]
    pub fn streams(&self, branch: BranchId) -> Vec<(StreamKind, StreamName, u64)> {
        let mut names: BTreeSet<(StreamKind, &StreamName)> = BTreeSet::new();
        for own in self.levels(branch, u64::MAX).filter_map(|(level, _)| level.own.as_ref()) {
            names.extend(own.plain.keys().map(|name| (StreamKind::Plain, name)));
            names.extend(own.keyed.keys().map(|name| (StreamKind::Keyed, name)));
        }
        names
            .into_iter()
            .map(|(kind, name)| {
                (kind, name.clone(), length(self.levels(branch, u64::MAX), kind, name))
            })
            .filter(|(_, _, length)| *length > 0)
            .collect()
    }

    /// Streams with own records of the branch: kind, name and number of own records.
    #[must_use]
    pub fn own_streams(&self, branch: BranchId) -> Vec<(StreamKind, StreamName, u64)> {
        let Some(own) = self.branches.get(branch).and_then(|branch| branch.own.as_ref()) else {
            return Vec::new();
        };
        let plain = own.plain.iter().map(|(name, runs)| (StreamKind::Plain, name, runs));
        let keyed = own.keyed.iter().map(|(name, keyed)| (StreamKind::Keyed, name, &keyed.runs));
        plain.chain(keyed).map(|(kind, name, runs)| (kind, name.clone(), runs.total())).collect()
    }

    /// Own records of the branch in one stream, `skip` of them left out: offset in the branch's
    /// view and index.
    #[must_use]
    pub fn own_records(
        &self,
        branch: BranchId,
        kind: StreamKind,
        stream: &StreamName,
        skip: u64,
        max: usize,
    ) -> Vec<(Offset, Index)> {
        let branch = self.branches.get(branch);
        let Some(runs) = branch.and_then(|branch| branch.own_runs(kind, stream)) else {
            return Vec::new();
        };
        let from = runs.0.partition_point(|run| run.own_before + run.count <= skip);
        let records = runs.0.iter().skip(from).flat_map(|run| {
            let first = skip.saturating_sub(run.own_before);
            (first..run.count).map(|i| (Offset(run.start() + i), Index(run.first + i)))
        });
        records.take(max).collect()
    }

    /// Keys with own versions of the branch, each with its newest, by stream and key.
    pub fn own_keys(
        &self,
        branch: BranchId,
    ) -> impl Iterator<Item = (&StreamName, &Key, KeyVersion)> {
        let own = self.branches.get(branch).and_then(|branch| branch.own.as_ref());
        let streams = own.into_iter().flat_map(|own| &own.keyed);
        streams.flat_map(|(stream, keyed)| {
            let keys = keyed.keys.iter();
            keys.map(move |(key, versions)| (stream, key, KeyVersion::from(&versions.newest)))
        })
    }

    /// Newest version of a key in the branch's view, deletions included: its newest own one, else
    /// that of the parent's view.
    #[must_use]
    pub fn get(&self, branch: BranchId, stream: &StreamName, key: &Key) -> Option<KeyVersion> {
        newest(self.levels(branch, u64::MAX), stream, key).map(KeyVersion::from)
    }

    /// The same as of an index (inclusive).
    #[must_use]
    pub fn get_at(
        &self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
        at: Index,
    ) -> Option<KeyVersion> {
        newest(self.levels(branch, at.0), stream, key).map(KeyVersion::from)
    }

    pub(super) fn newest_version(
        &self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
    ) -> Option<&Version> {
        newest(self.levels(branch, u64::MAX), stream, key)
    }

    /// What the branch's first own write of the key replaced: the version of the parent's view
    /// where a frozen fork was cut, or when a live fork first wrote the key. Of a key without own
    /// versions, what the branch sees of its parent now.
    #[must_use]
    pub fn base_version(
        &self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
    ) -> Option<KeyVersion> {
        let own = self.branches.get(branch)?.own_versions(stream, key.as_bytes());
        let first = own.map_or(u64::MAX, Versions::first_joined);
        self.base_at(branch, stream, key, first).map(KeyVersion::from)
    }

    fn base_at(
        &self,
        branch: BranchId,
        stream: &StreamName,
        key: &Key,
        first: u64,
    ) -> Option<&Version> {
        newest(self.parent_levels(branch, first), stream, key)
    }

    /// Live keys of the branch's view that start with `prefix` and come after `after`
    /// (exclusive), in bytewise order, at most `max`.
    ///
    /// Costs O(depth · log own) for each key passed, deleted ones included.
    #[must_use]
    pub fn scan(
        &self,
        branch: BranchId,
        stream: &StreamName,
        prefix: &[u8],
        after: Option<&Key>,
        max: usize,
    ) -> Vec<(Key, KeyVersion)> {
        let start = match after {
            Some(key) if key.as_bytes() >= prefix => Bound::Excluded(key.as_bytes()),
            _ => Bound::Included(prefix),
        };
        let mut levels: Vec<Level<'_>> = self
            .levels(branch, u64::MAX)
            .filter_map(|(level, bound)| {
                let keyed = level.own.as_ref()?.keyed.get(stream)?;
                let keys = keyed.keys.range::<[u8], _>((start, Bound::Unbounded)).peekable();
                Some(Level { keys, bound })
            })
            .collect();
        let mut found = Vec::new();
        while found.len() < max {
            let heads =
                levels.iter_mut().filter_map(|level| level.keys.peek().map(|(key, _)| *key));
            let Some(key) = heads.min().filter(|key| key.as_bytes().starts_with(prefix)) else {
                break;
            };
            let mut newest: Option<&Version> = None;
            for level in &mut levels {
                if let Some((_, versions)) = level.keys.next_if(|(head, _)| *head == key) {
                    newest = newest.or_else(|| versions.at(level.bound));
                }
            }
            let newest = newest.map(KeyVersion::from);
            found.extend(newest.filter(|v| !v.deleted).map(|version| (key.clone(), version)));
        }
        found
    }

    /// Keys changed on the branch, and on the target since the branch's base.
    ///
    /// The base of a key is [`State::base_version`]; it is a conflict if the target's newest
    /// version is another one. Costs O(own keys · depth · log own).
    #[must_use]
    pub fn key_conflicts(&self, branch: BranchId, into: BranchId) -> Vec<KeyConflict> {
        self.conflicts(branch, into).collect()
    }

    pub(super) fn conflicts(
        &self,
        branch: BranchId,
        into: BranchId,
    ) -> impl Iterator<Item = KeyConflict> {
        let own = self.branches.get(branch).and_then(|branch| branch.own.as_ref());
        let streams = own.into_iter().flat_map(|own| &own.keyed);
        let keys = streams.flat_map(|(stream, keyed)| keyed.keys.iter().map(move |k| (stream, k)));
        keys.filter_map(move |(stream, (key, versions))| {
            let base = self.base_at(branch, stream, key, versions.first_joined());
            let base = base.map(|version| Index(version.index));
            let theirs = self.newest_version(into, stream, key);
            let theirs = theirs.map(|version| Index(version.index));
            (base != theirs).then(|| KeyConflict {
                stream: stream.clone(),
                key: key.clone(),
                base,
                ours: Index(versions.newest.index),
                theirs,
            })
        })
    }

    /// What the branch's tables are made of, as of an index (inclusive): the nearest branch that
    /// holds pages with the version to start from, then each live fork down to the branch with
    /// the newest of its own versions.
    ///
    /// Refused with [`Refusal::TableRootGone`] if one of them is no longer kept.
    pub fn table_sources(
        &self,
        branch: BranchId,
        at: Option<Index>,
    ) -> Result<Vec<(BranchId, TableVersion)>, Refusal> {
        self.known(branch)?;
        let mut sources = Vec::new();
        let mut oldest = None;
        for (level, bound) in self.levels(branch, at.map_or(u64::MAX, |at| at.0)) {
            match level.table_version_at(Index(bound)) {
                Ok(version) => sources.push((level.id, TableVersion(version))),
                Err(valid) => oldest = oldest.max(Some(valid)),
            }
            if !level.is_live() {
                break;
            }
        }
        if let Some(oldest_valid) = oldest {
            let newest_valid = self.applied_index();
            return Err(Refusal::TableRootGone { oldest_valid, newest_valid });
        }
        sources.reverse();
        Ok(sources)
    }
}

/// One level of a scan.
struct Level<'a> {
    keys: Peekable<btree_map::Range<'a, Key, Versions>>,
    bound: u64,
}

impl Branch {
    fn table_version_at(&self, at: Index) -> Result<Index, Index> {
        let base = self.base_tables().0;
        match &self.own {
            Some(own) => own.tables.version_at(base, at),
            None => Ok(base),
        }
    }
}

/// Records of a view.
pub(super) fn length(levels: Levels<'_>, kind: StreamKind, stream: &StreamName) -> u64 {
    levels
        .filter_map(|(level, bound)| level.own_runs(kind, stream).map(|runs| runs.total_at(bound)))
        .sum()
}

/// The newest version of a key in a view: of the nearest level that has one.
fn newest<'a>(levels: Levels<'a>, stream: &StreamName, key: &Key) -> Option<&'a Version> {
    let mut levels = levels;
    levels.find_map(|(level, bound)| level.own_versions(stream, key.as_bytes())?.at(bound))
}
