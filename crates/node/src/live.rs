//! Derived views: tables of a live fork, computed when somebody reads.
//!
//! A view is its parent's newest page map with the fork's own changes applied on top. It is a
//! cache, never state: nothing here reaches a checkpoint or the hash chain. Its cost follows the
//! fork's own changes; the parent's size and its other writes cost nothing.
//!
//! Where the own changes no longer fit (a table is gone, a key is taken), the fork answers at its
//! last good base and says what clashes; nothing is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_log::{BranchId, Index, Kind, Operation, TableVersion};
use anabranch_sql::{Body, LiveError, NetChanges, PageMap, PageStore, rebuild_live};
use anabranch_store::{ChunkStore, History};

use crate::body::{self, Applied};
use crate::error::{Error, Result};
use crate::pages::ScratchPages;
use crate::shared::Shared;
use crate::tables::{Commit, Source, SourceKey};

/// Views kept in memory, at most; the least recently used goes first.
const VIEWS_MAX: usize = 64;

/// Tables ready to be read by SQLite.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) root: PageMap,
    pub(crate) pages: Arc<dyn PageStore>,
    /// The real page map below, and what it is.
    pub(crate) source: Source,
    /// What clashes, when this is not the newest view but the last good one.
    pub(crate) behind: Option<String>,
}

/// Recently computed views.
#[derive(Default)]
pub(crate) struct Views {
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    views: BTreeMap<BranchId, (SourceKey, View)>,
    order: VecDeque<BranchId>,
}

impl Views {
    fn get(&self, branch: BranchId) -> Option<(SourceKey, View)> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cached.views.get(&branch).cloned()?;
        cached.order.retain(|id| *id != branch);
        cached.order.push_back(branch);
        Some(found)
    }

    fn put(&self, branch: BranchId, key: SourceKey, view: View) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.order.retain(|id| *id != branch);
        cached.order.push_back(branch);
        cached.views.insert(branch, (key, view));
        while cached.order.len() > VIEWS_MAX {
            if let Some(oldest) = cached.order.pop_front() {
                cached.views.remove(&oldest);
            }
        }
    }

    /// Page maps that cached views read from.
    pub(crate) fn roots(&self) -> Vec<PageMap> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.views.values().map(|(_, view)| view.source.root.clone()).collect()
    }

    /// The branch closed.
    pub(crate) fn forget(&self, branch: BranchId) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.order.retain(|id| *id != branch);
        cached.views.remove(&branch);
    }
}

/// Reads own changes back from the history.
pub(crate) struct ChangeReader {
    history: Arc<History>,
    chunks: Arc<ChunkStore>,
}

impl ChangeReader {
    pub(crate) fn new(history: Arc<History>, chunks: Arc<ChunkStore>) -> ChangeReader {
        ChangeReader { history, chunks }
    }

    /// Changes of the given commits, netted.
    pub(crate) fn net(&self, commits: &[Commit]) -> Result<NetChanges> {
        let mut net = NetChanges::default();
        for commit in commits {
            self.body(commit.index)?.steps.iter().for_each(|step| net.add(step));
        }
        Ok(net)
    }

    fn applied(&self, commit: Index) -> Result<Applied> {
        let frame = self.history.read(commit).map_err(|error| {
            corrupt(format!("changes cannot be read, index=`{commit}`")).because(error)
        })?;
        Applied::decode(&frame.body).map_err(|error| {
            corrupt(format!("changes are malformed, index=`{commit}`")).because(error)
        })
    }

    fn body(&self, commit: Index) -> Result<Body> {
        let applied = self.applied(commit)?;
        let mut bytes = match body::tables_body(&applied.entry.operation) {
            Some(anabranch_log::Body::Inline(bytes)) => bytes.clone(),
            _ => return Err(corrupt(format!("an index holds no changes, index=`{commit}`"))),
        };
        for hash in &applied.chunks {
            let part = self
                .chunks
                .find(hash)
                .ok_or_else(|| corrupt(format!("changes are missing, index=`{commit}`")))
                .and_then(|handle| {
                    self.chunks.get(handle).map_err(|error| {
                        corrupt(format!("changes cannot be read, index=`{commit}`")).because(error)
                    })
                })?;
            bytes.extend_from_slice(&part);
        }
        Body::decode(&bytes).map_err(|error| {
            corrupt(format!("changes are malformed, index=`{commit}`")).because(error)
        })
    }

    /// The parent's version that the commit on a live fork was computed on.
    fn parent_version(&self, commit: Index) -> Result<Option<TableVersion>> {
        match self.applied(commit)?.entry.operation {
            Operation::Commit { parent, .. } => Ok(parent),
            _ => Ok(None),
        }
    }
}

fn corrupt(message: String) -> Error {
    Error::no(Kind::Corrupt, message)
}

impl Shared {
    pub(crate) fn change_reader(&self) -> ChangeReader {
        let engine = self.lock();
        ChangeReader::new(Arc::clone(&engine.history), Arc::clone(&engine.chunks))
    }

    /// A branch's tables, ready to be read.
    pub(crate) fn materialize(&self, branch: BranchId, source: Source) -> Result<View> {
        let pages = Arc::clone(&self.lock().pages);
        if source.layers.is_empty() {
            return Ok(View { root: source.root.clone(), pages, source, behind: None });
        }
        let key = source.key();
        let cached = self.views.get(branch);
        if let Some((_, view)) = cached.as_ref().filter(|(known, _)| *known == key) {
            return Ok(view.clone());
        }
        match self.derive(&source, &pages)? {
            Ok(view) => {
                self.views.put(branch, key, view.clone());
                Ok(view)
            }
            Err(clash) => self.last_good(branch, &source, &pages, cached.map(|c| c.1), clash),
        }
    }

    /// Applies all layers; the inner error says what clashes.
    fn derive(
        &self,
        source: &Source,
        pages: &Arc<dyn PageStore>,
    ) -> Result<std::result::Result<View, String>> {
        let reader = self.change_reader();
        let scratch: Arc<dyn PageStore> = Arc::new(ScratchPages::new(Arc::clone(pages)));
        let mut root = source.root.clone();
        for layer in &source.layers {
            let net = reader.net(layer)?;
            root = match rebuild_live(&scratch, &root, &net, self.options.limits) {
                Ok(root) => root,
                Err(LiveError::Clash(clash)) => return Ok(Err(clash.to_string())),
                Err(LiveError::Sql(error)) => return Err(error.into()),
            };
        }
        Ok(Ok(View { root, pages: scratch, source: source.clone(), behind: None }))
    }

    /// The newest view that could be computed: the one in memory, or the one the fork's last
    /// commit was made on while that version of the parent is kept.
    fn last_good(
        &self,
        branch: BranchId,
        source: &Source,
        pages: &Arc<dyn PageStore>,
        cached: Option<View>,
        clash: String,
    ) -> Result<View> {
        if let Some(mut view) = cached {
            // Own commits after that view cannot exist: a fork that is behind takes no writes.
            view.behind = Some(clash);
            return Ok(view);
        }
        let last = source.layers.last().and_then(|layer| layer.last());
        let version = match last {
            Some(commit) => self.change_reader().parent_version(commit.index)?,
            None => None,
        };
        let origin = source.origin.0;
        let root = version.and_then(|version| {
            let engine = self.lock();
            engine.tables.get(origin)?.roots.get(&version).cloned()
        });
        let (Some(root), Some(version)) = (root, version) else {
            let message = format!("the fork's changes no longer fit its parent: {clash}");
            return Err(Error::no(Kind::Conflict, message));
        };
        let older = Source { root, origin: (origin, version), layers: source.layers.clone() };
        match self.derive(&older, pages)? {
            Ok(mut view) => {
                self.views.put(branch, older.key(), view.clone());
                view.behind = Some(clash);
                Ok(view)
            }
            Err(older_clash) => {
                let message = format!("the fork's changes no longer fit its parent: {older_clash}");
                Err(Error::no(Kind::Conflict, message))
            }
        }
    }
}
