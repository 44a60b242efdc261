//! Finding out which chunks are still needed, so that packs full of dead ones can go.
//!
//! Needed is what any branch's page maps, retained versions or own changes name, what an open
//! transaction reads, and what was stored or found since the sweep began (the store sees to that).
//! Chunks of the last durable checkpoint stay on disk until the next one no longer names them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_sql::PageMap;
use anabranch_store::{ChunkHandle, ChunkStore};

use crate::pages::handle_of;
use crate::shared::Shared;
use crate::tables::Commit;

/// A sweep is worth its walk once the store has grown by this many bytes ...
const GROWTH_BYTES: u64 = 64 << 20;

/// Page maps that open transactions read, and what the last sweep left.
#[derive(Default)]
pub(crate) struct Pins {
    open: Mutex<BTreeMap<u64, PageMap>>,
    swept_bytes: Mutex<u64>,
}

/// Keeps one page map readable while it lives.
pub(crate) struct Pin {
    pins: Arc<Pins>,
    number: u64,
}

impl Pins {
    /// Keeps the pages of a map until the pin is dropped.
    pub(crate) fn pin(self: &Arc<Pins>, root: &PageMap) -> Pin {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, root.clone());
        Pin { pins: Arc::clone(self), number }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut open = self.pins.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&self.number);
    }
}

/// Collects the chunks that maps and commits need; shared parts are visited once.
struct Live<'a> {
    chunks: &'a ChunkStore,
    nodes: BTreeSet<usize>,
    handles: BTreeSet<ChunkHandle>,
}

impl Live<'_> {
    fn map(&mut self, map: &PageMap) {
        let Live { chunks, nodes, handles } = self;
        let mut named = Vec::new();
        map.visit(
            &mut |node, hash| {
                let new = nodes.insert(node);
                if new {
                    named.extend(hash.copied());
                }
                new
            },
            &mut |page| {
                handles.insert(handle_of(page));
            },
        );
        handles.extend(named.iter().filter_map(|hash| chunks.find(hash)));
    }

    fn commits(&mut self, commits: &[Commit]) {
        let hashes = commits.iter().flat_map(|commit| &commit.chunks);
        self.handles.extend(hashes.filter_map(|hash| self.chunks.find(hash)));
    }
}

impl Shared {
    /// Sweeps if the store has grown much since the last time. Failing is no harm: the next
    /// checkpoint tries again.
    pub(crate) fn sweep_if_due(&self) {
        let chunks = Arc::clone(&self.lock().chunks);
        let (_, bytes) = chunks.totals();
        let mut swept = self.pins.swept_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // ... and has doubled.
        if bytes < *swept + GROWTH_BYTES.max(*swept) {
            return;
        }
        match self.sweep(&chunks) {
            Ok(()) => *swept = chunks.totals().1,
            Err(error) => tracing::warn!(%error, "dead chunks could not be swept"),
        }
    }

    fn sweep(&self, chunks: &ChunkStore) -> Result<(), anabranch_store::WriteError> {
        let start = chunks.begin_sweep();
        // Everything below is taken after the start: what comes later is protected by it.
        let tables = self.lock().tables.clone();
        let mut live = Live { chunks, nodes: BTreeSet::new(), handles: BTreeSet::new() };
        for (_, branch) in tables.iter() {
            let source = branch.source.iter().map(|source| &source.root);
            for map in source.chain(&branch.head).chain(branch.roots.values()) {
                live.map(map);
            }
            live.commits(&branch.commits);
            for layer in branch.source.iter().flat_map(|source| &source.layers) {
                live.commits(layer);
            }
        }
        let open: Vec<PageMap> = {
            let open = self.pins.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.values().cloned().collect()
        };
        for map in open.iter().chain(&self.views.roots()) {
            live.map(map);
        }
        let swept = chunks.sweep(start, live.handles.into_iter())?;
        tracing::info!(?swept, "swept dead chunks");
        Ok(())
    }
}
