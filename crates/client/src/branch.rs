//! Branches: fork, list, diff, preview, promote, discard.

use std::time::Duration;

use anabranch_api::http::{
    Against, Bare, BranchInfo, BranchList, By, Diff, DiffQuery, Done, ForkKind, ForkRequest,
    Forked, Preview, PreviewRequest, PromoteOptions, PromoteRequest, Promoted, path,
};

use crate::{Client, Result};

impl Client {
    /// Makes a live fork that never expires.
    pub fn fork(&self, name: &str, parent: &str) -> Result<Forked> {
        self.fork_with(&ForkRequest {
            name: name.to_owned(),
            parent: parent.to_owned(),
            kind: ForkKind::Live,
            at: None,
            owner: String::new(),
            ttl_ms: None,
            by: By::default(),
        })
    }

    /// Makes a fork; `by` of the request is replaced.
    pub fn fork_with(&self, request: &ForkRequest) -> Result<Forked> {
        self.write_call(path::BRANCHES, Duration::ZERO, |by| ForkRequest { by, ..request.clone() })
    }

    /// All branches, closed ones too, in order of creation.
    pub fn branches(&self) -> Result<Vec<BranchInfo>> {
        let list: BranchList = self.read_call(path::BRANCHES, &())?;
        Ok(list.branches)
    }

    /// One open branch.
    pub fn branch(&self, name: &str) -> Result<BranchInfo> {
        self.read_call(&path::branch(name), &())
    }

    /// What a branch changed; at most `limit` rows and keys are listed, counts are complete.
    pub fn diff(&self, branch: &str, against: Against, limit: usize) -> Result<Diff> {
        let query = DiffQuery { against: Some(against), limit: Some(limit) };
        self.read_call(&path::on_branch(branch, "diff"), &query)
    }

    /// What a promotion would do now.
    pub fn preview(&self, branch: &str, options: &PromoteOptions, limit: usize) -> Result<Preview> {
        let request = PreviewRequest { options: options.clone(), limit: Some(limit) };
        self.ask(&path::on_branch(branch, "preview"), &request, Duration::ZERO)
    }

    /// Makes the branch's own writes part of its target, atomically, after the target's checks.
    pub fn promote(&self, branch: &str, options: &PromoteOptions) -> Result<Promoted> {
        let path = path::on_branch(branch, "promote");
        self.write_call(&path, Duration::ZERO, |by| PromoteRequest { options: options.clone(), by })
    }

    /// Drops a branch's own writes; returns the index.
    pub fn discard(&self, branch: &str) -> Result<u64> {
        let path = path::on_branch(branch, "discard");
        let done: Done = self.write_call(&path, Duration::ZERO, |by| Bare { by })?;
        Ok(done.index)
    }
}
