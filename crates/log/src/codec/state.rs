//! The bytes of a [`State`].
//!
//! They depend on what the state holds, not on how it came about: maps in order of their keys,
//! branches by number, everything that follows from the rest left out (numbers of branches, the
//! names' map, depths, counts of forks, sums over runs).
//!
//! | part | bytes |
//! |---|---|
//! | type, version | `S`, 1 |
//! | next index | 8 |
//! | branches | count 8, then each: see `write_branch`; the root has no parent and kind |
//! | next session | 8 |
//! | sessions | count 8, then each: number 8, owner, opened 8, answered 8, outcomes |
//!
//! | own part of a branch | bytes |
//! |---|---|
//! | plain streams | count 8, then each: name, runs |
//! | keyed streams | count 8, then each: name, runs, keys |
//! | runs | count 8, then each 32: at, first, count, parent's length |
//! | keys | count 8, then each: key, versions: count 8, then each: at 8, index 8, value |
//! | tables | number of changes 8, kept ones: count 8, then each 8 |
//! | checks | count 8, then each: name, query; then 8: last change |

use std::num::NonZeroU64;

use super::{Malformed, Reader, Wire, decode, encode, write_bytes};
use crate::branch::{
    Branch, Branches, Keyed, Own, Run, Runs, Status, Tables, Value, Version, Versions,
};
use crate::limits::INDEX_END;
use crate::session::{Session, Sessions};
use crate::{BranchId, Field, ForkKind, Index, SessionId, State, limits};

const HEADER: [u8; 2] = [b'S', 1];

impl State {
    /// The state's bytes: equal for equal states, whatever led to them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(HEADER, self, |state, out| {
            let (branches, sessions) = (&state.branches, &state.sessions);
            state.next.write(out);
            branches.len().write(out);
            branches.iter().for_each(|branch| write_branch(branch, out));
            sessions.next.write(out);
            write_length(sessions.open.len(), out);
            for (id, session) in &sessions.open {
                id.write(out);
                write_session(session, out);
            }
        })
    }

    /// Reads what [`State::encode`] wrote, and checks that it could have come about.
    ///
    /// No bytes make it panic, and a state it returns holds every invariant.
    pub fn decode(bytes: &[u8]) -> Result<State, Malformed> {
        let state = decode(HEADER, bytes, |from| {
            let next = u64::read(from)?;
            let branches = read_branches(from)?;
            let sessions = read_sessions(from)?;
            let names = branches.iter().map(|branch| (branch.name.clone(), branch.id)).collect();
            Ok(State { next, branches, names, sessions })
        })?;
        state.check().map_err(|rule| Malformed::Inconsistent { rule })?;
        Ok(state)
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    (length as u64).write(out);
}

fn write_branch(branch: &Branch, out: &mut Vec<u8>) {
    branch.name.write(out);
    if let Some(kind) = branch.kind {
        branch.parent.write(out);
        kind.write(out);
        if kind == ForkKind::Frozen {
            branch.cut.write(out);
        }
    }
    match &branch.status {
        Status::Open => out.push(0),
        Status::Closing { at, purpose } => {
            out.push(1);
            at.write(out);
            purpose.write(out);
        }
        Status::Closed(how) => {
            out.push(2);
            how.write(out);
        }
    }
    write_bytes(branch.owner.as_bytes(), out);
    branch.ttl_ms.map(NonZeroU64::get).write(out);
    branch.created.write(out);
    branch.base_tables.write(out);
    branch.tables.write(out);
    branch.last_used.write(out);
    match &branch.own {
        None => out.push(0),
        Some(own) => {
            out.push(1);
            write_own(own, out);
        }
    }
}

fn write_own(own: &Own, out: &mut Vec<u8>) {
    write_length(own.plain.len(), out);
    for (name, runs) in &own.plain {
        name.write(out);
        write_runs(runs, out);
    }
    write_length(own.keyed.len(), out);
    for (name, keyed) in &own.keyed {
        name.write(out);
        write_runs(&keyed.runs, out);
        write_length(keyed.keys.len(), out);
        for (key, versions) in &keyed.keys {
            key.write(out);
            write_length(versions.older.len() + 1, out);
            versions.iter().for_each(|version| write_version(*version, out));
        }
    }
    own.tables.total.write(out);
    write_length(own.tables.commits.len(), out);
    own.tables.commits.iter().for_each(|commit| commit.write(out));
    write_length(own.checks.len(), out);
    for (name, sql) in &own.checks {
        write_bytes(name.as_bytes(), out);
        write_bytes(sql.as_bytes(), out);
    }
    own.checks_changed.write(out);
}

fn write_runs(runs: &Runs, out: &mut Vec<u8>) {
    write_length(runs.0.len(), out);
    for run in &runs.0 {
        for number in [run.at, run.first, run.count, run.parent_len] {
            number.write(out);
        }
    }
}

fn write_version(version: Version, out: &mut Vec<u8>) {
    version.at.write(out);
    version.index.write(out);
    match version.value {
        Value::Deleted => out.push(0),
        Value::Number(number) => {
            out.push(1);
            number.write(out);
        }
        Value::Bytes => out.push(2),
    }
}

fn write_session(session: &Session, out: &mut Vec<u8>) {
    write_bytes(session.owner.as_bytes(), out);
    session.opened.write(out);
    session.answered.write(out);
    write_length(session.outcomes.len(), out);
    for (seq, outcome) in &session.outcomes {
        seq.write(out);
        outcome.write(out);
    }
}

fn inconsistent<T>(rule: &'static str) -> Result<T, Malformed> {
    Err(Malformed::Inconsistent { rule })
}

fn read_branches(from: &mut Reader<'_>) -> Result<Branches, Malformed> {
    let count = from.count_long(44)?;
    let mut branches = Branches::default();
    for id in 0..count as u64 {
        let branch = read_branch(BranchId(id), &branches, from)?;
        branches.push(branch);
    }
    // Forks have higher numbers than their parents, so each is settled before its parent.
    for id in (1..count as u64).rev().map(BranchId) {
        let of = branches.at(id);
        if !of.is_retired() {
            let parent = of.parent;
            branches.at_mut(parent).children += 1;
        }
    }
    Ok(branches)
}

fn read_branch(
    id: BranchId,
    before: &Branches,
    from: &mut Reader<'_>,
) -> Result<Branch, Malformed> {
    let name = Wire::read(from)?;
    let (mut parent, mut kind, mut cut, mut depth) = (id, None, u64::MAX, 0);
    if id != BranchId::MAIN {
        parent = BranchId::read(from)?;
        let Some(of) = before.get(parent) else {
            return inconsistent("a parent is older than its fork");
        };
        depth = of.depth + 1;
        kind = Some(ForkKind::read(from)?);
        if kind == Some(ForkKind::Frozen) {
            cut = u64::read(from)?;
        }
    }
    let status = match from.tag()? {
        0 => Status::Open,
        1 => Status::Closing { at: Wire::read(from)?, purpose: Wire::read(from)? },
        2 => Status::Closed(Wire::read(from)?),
        tag => return from.unknown("status", tag),
    };
    let owner = from.text(Field::Owner, limits::ACTOR_BYTES)?.into();
    let ttl_ms = match Option::<u64>::read(from)?.map(NonZeroU64::new) {
        Some(None) => return inconsistent("a ttl is above 0"),
        ttl_ms => ttl_ms.flatten(),
    };
    Ok(Branch {
        id,
        name,
        parent,
        kind,
        status,
        owner,
        ttl_ms,
        created: Wire::read(from)?,
        cut,
        base_tables: Wire::read(from)?,
        tables: Wire::read(from)?,
        last_used: Wire::read(from)?,
        depth,
        children: 0,
        own: match from.tag()? {
            0 => None,
            1 => Some(Box::new(read_own(from)?)),
            tag => return from.unknown("option", tag),
        },
    })
}

fn read_own(from: &mut Reader<'_>) -> Result<Own, Malformed> {
    let mut own = Own::default();
    for _ in 0..from.count_long(13)? {
        let (name, runs) = (Wire::read(from)?, read_runs(from)?);
        from.insert(&mut own.plain, name, runs)?;
    }
    for _ in 0..from.count_long(21)? {
        let name = Wire::read(from)?;
        let mut keyed = Keyed { runs: read_runs(from)?, ..Keyed::default() };
        for _ in 0..from.count_long(30)? {
            let (key, versions) = (Wire::read(from)?, read_versions(from)?);
            from.insert(&mut keyed.keys, key, versions)?;
        }
        from.insert(&mut own.keyed, name, keyed)?;
    }
    own.tables = Tables { total: Wire::read(from)?, commits: Vec::new() };
    for _ in 0..from.count_long(8)? {
        own.tables.commits.push(Index::read(from)?);
    }
    for _ in 0..from.count_long(9)? {
        let name = from.check_name()?.to_owned();
        let sql = from.text(Field::CheckSql, limits::CHECK_SQL_BYTES)?.to_owned();
        from.insert(&mut own.checks, name, sql)?;
    }
    own.checks_changed = Wire::read(from)?;
    Ok(own)
}

fn read_runs(from: &mut Reader<'_>) -> Result<Runs, Malformed> {
    let count = from.count_long(32)?;
    let mut runs = Vec::with_capacity(count);
    let mut own_before: u64 = 0;
    for _ in 0..count {
        let run = Run {
            at: Wire::read(from)?,
            first: Wire::read(from)?,
            count: Wire::read(from)?,
            own_before,
            parent_len: Wire::read(from)?,
        };
        let bounded = [run.at, run.first, run.count, run.parent_len].iter().all(|n| *n < INDEX_END);
        own_before += run.count.min(INDEX_END);
        if !bounded || own_before >= INDEX_END {
            return inconsistent("positions stay below their end");
        }
        runs.push(run);
    }
    Ok(Runs(runs))
}

fn read_versions(from: &mut Reader<'_>) -> Result<Versions, Malformed> {
    let count = from.count_long(17)?;
    if count == 0 {
        return inconsistent("a key has a version");
    }
    let mut older = Vec::with_capacity(count - 1);
    for _ in 1..count {
        older.push(read_version(from)?);
    }
    Ok(Versions { older, newest: read_version(from)? })
}

fn read_version(from: &mut Reader<'_>) -> Result<Version, Malformed> {
    Ok(Version {
        at: Wire::read(from)?,
        index: Wire::read(from)?,
        value: match from.tag()? {
            0 => Value::Deleted,
            1 => Value::Number(Wire::read(from)?),
            2 => Value::Bytes,
            tag => return from.unknown("value", tag),
        },
    })
}

fn read_sessions(from: &mut Reader<'_>) -> Result<Sessions, Malformed> {
    let mut sessions = Sessions { next: Wire::read(from)?, ..Sessions::new() };
    for _ in 0..from.count_long(36)? {
        let id = SessionId::read(from)?;
        let owner = from.text(Field::Owner, limits::ACTOR_BYTES)?.into();
        let (opened, answered) = (Wire::read(from)?, Wire::read(from)?);
        let mut session = Session { owner, opened, answered, ..Session::default() };
        for _ in 0..from.count_long(10)? {
            let (seq, outcome) = (Wire::read(from)?, Wire::read(from)?);
            from.insert(&mut session.outcomes, seq, outcome)?;
        }
        from.insert(&mut sessions.open, id, session)?;
    }
    Ok(sessions)
}
