//! From what users write to what the state knows: names checked, branches resolved.

use anabranch_log::{
    Branch, BranchId, BranchName, Closed, ForkKind as LogForkKind, Key, Kind, Refusal, State,
    Status as LogStatus, StreamName,
};

use crate::error::{Error, Result};
use crate::view::{BranchInfo, BranchStatus, ForkKind};

/// The open (or closing) branch of that name.
pub(crate) fn branch(state: &State, name: &str) -> Result<BranchId> {
    match state.resolve(&BranchName::new(name)?) {
        Ok(id) => Ok(id),
        Err(refusal) => Err(name_closed(state, name, refusal)),
    }
}

/// Adds the receiver's name to "this branch is closed".
fn name_closed(state: &State, name: &str, refusal: Refusal) -> Error {
    let message = match &refusal {
        Refusal::BranchClosed { how, .. } => match how {
            Closed::Promoted { into, at } => Some(format!(
                "branch was promoted into `{}` at index {at}, branch=`{name}`",
                name_of(state, *into)
            )),
            Closed::Discarded { at } => {
                Some(format!("branch was discarded at index {at}, branch=`{name}`"))
            }
            Closed::Expired { at } => {
                Some(format!("branch expired at index {at}, branch=`{name}`"))
            }
        },
        Refusal::UnknownBranch { .. } => Some(format!("no such branch, branch=`{name}`")),
        _ => None,
    };
    let mut error = Error::from(refusal);
    if let Some(message) = message {
        error.message = message;
    }
    error
}

/// A branch's name, also of a closed one.
pub(crate) fn name_of(state: &State, id: BranchId) -> String {
    state.branch(id).map_or_else(|| id.to_string(), |branch| branch.name().to_string())
}

pub(crate) fn stream(name: &str) -> Result<StreamName> {
    Ok(StreamName::new(name)?)
}

pub(crate) fn key(bytes: &[u8]) -> Result<Key> {
    Ok(Key::new(bytes)?)
}

/// A branch as users see it.
pub(crate) fn info(state: &State, branch: &Branch) -> BranchInfo {
    let status = match (branch.closed(), branch.is_open()) {
        (Some(Closed::Promoted { into, at }), _) => {
            BranchStatus::Promoted { into: name_of(state, into), at: at.0 }
        }
        (Some(Closed::Discarded { at }), _) => BranchStatus::Discarded { at: at.0 },
        (Some(Closed::Expired { at }), _) => BranchStatus::Expired { at: at.0 },
        (None, true) => BranchStatus::Open,
        (None, false) => BranchStatus::Closing,
    };
    BranchInfo {
        name: branch.name().to_string(),
        id: branch.id().0,
        parent: branch.parent().map(|parent| name_of(state, parent)),
        kind: branch.kind().map(|kind| match kind {
            LogForkKind::Live => ForkKind::Live,
            LogForkKind::Frozen => ForkKind::Frozen,
        }),
        status,
        owner: branch.owner().to_owned(),
        ttl_ms: branch.ttl_ms(),
        created: branch.created().0,
        forked_at: branch.forked_at().0,
        table_version: branch.tables().0.0,
        depth: branch.depth(),
        own_records: branch.own_records(),
        own_commits: branch.own_commits(),
    }
}

/// An open branch, by id; a typed error once it is closing.
pub(crate) fn open(state: &State, id: BranchId) -> Result<&Branch> {
    let branch = state
        .branch(id)
        .ok_or_else(|| Error::no(Kind::UnknownBranch, format!("no such branch, branch=`{id}`")))?;
    match branch.status() {
        LogStatus::Open => Ok(branch),
        _ => Err(Refusal::BranchClosing { branch: id }.into()),
    }
}
