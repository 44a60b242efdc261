//! Checkpoints: the applied state made durable at one position, so that the journal before it may
//! go.
//!
//! Pages, row images and history are written as operations are applied, without a sync; the
//! journal carries them until here. So a checkpoint is: sync chunks and history, store the encoded
//! state and page maps as chunks, sync again, write the manifest, then drop what it made needless.
//!
//! Encoding of the page maps (little endian), by content only:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | number of branches, then per branch, ascending: |
//! | 8, 1, 8 | branch, flags (1 parent, 2 live, 4 source, 8 head), parent or 0 |
//! | source | map, origin branch 8, origin version 8, 4 + layers of commits |
//! | head | map |
//! | 4 | retained versions, then per version: 8, map |
//! | commits | 4, then per commit: index 8, 4 + chunk hashes of 32 |
//! | 4 | changed tables, then per table: 2 + name, version 8 |
//!
//! A map is the hash (32) of its root record.

use std::collections::BTreeMap;

use anabranch_log::{BranchId, Index, Operation, TableVersion};
use anabranch_sql::PageMap;
use anabranch_store::{CheckpointManifest, Ordinal, checkpoint};

use crate::engine::Engine;
use crate::error::Result;
use crate::pages::{handle_of, page_of};
use crate::shared::Shared;
use crate::tables::{BranchTables, Commit, Source, Tables};
use crate::view::Origin;

/// Where the last checkpoint stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Its number; 0 before the first.
    pub(crate) number: u64,
    /// Index it covers.
    pub(crate) index: Index,
}

/// State and page maps are cut into chunks of this size, so that equal parts are stored once.
const CHUNK: usize = 64 << 10;

impl Shared {
    pub(crate) fn checkpoint(&self, by: &Origin) -> Result<u64> {
        // Most of the work, outside the lock: what is still unsynced at the operation is little.
        let (chunks, history) = {
            let engine = self.lock();
            (engine.chunks.clone(), engine.history.clone())
        };
        chunks.sync().and_then(|()| history.sync()).map_err(|error| {
            crate::error::Error::no(
                anabranch_log::Kind::Unavailable,
                "a checkpoint cannot be written",
            )
            .because(error)
        })?;
        self.sweep_if_due();
        let inner = Origin { write: None, ..by.clone() };
        Ok(self.applied(Operation::Checkpoint, &inner)?.index().0)
    }
}

impl Engine {
    /// Writes a checkpoint of the state as it is; true if it is durable. A failure leaves the last
    /// one in force, and the journal still holds everything.
    pub(crate) fn take_checkpoint(&mut self) -> bool {
        match self.write_checkpoint() {
            Ok(()) => true,
            Err(message) => {
                tracing::error!(%message, "no checkpoint could be taken");
                false
            }
        }
    }

    fn write_checkpoint(&mut self) -> std::result::Result<(), String> {
        let text = |error: anabranch_store::WriteError| error.to_string();
        let state = self.put_all(&self.state.encode())?;
        let tables = self.encode_tables()?;
        let roots = self.put_all(&tables)?;
        self.chunks.sync().map_err(text)?;
        self.history.sync().map_err(text)?;
        let raft = self.raft;
        let journal_from = self
            .replica
            .needed_from(raft.0)
            .map_or(Ordinal(u64::MAX), |mark| Ordinal(mark.0))
            .min(self.oldest_needed());
        let manifest = CheckpointManifest {
            number: self.checkpoint.number + 1,
            index: self.state.applied_index(),
            raft_index: raft.0.0,
            raft_term: raft.1.0,
            chain: self.chain,
            state,
            roots: roots.into_iter().map(|hash| hash.to_vec()).collect(),
            chunks: self.chunks.mark(),
            history: self.history.mark(),
            journal_from,
        };
        checkpoint::write(&*self.disk, &manifest).map_err(text)?;
        self.checkpoint = Progress { number: manifest.number, index: manifest.index };
        self.bytes_since_checkpoint = 0;
        checkpoint::remove_older(&*self.disk, manifest.number).map_err(text)?;
        self.journal.remove_segments_before(journal_from).map_err(text)?;
        self.chunks.remove_retired(&manifest.chunks).map_err(text)?;
        Ok(())
    }

    fn put_all(&self, bytes: &[u8]) -> std::result::Result<Vec<[u8; 32]>, String> {
        let mut hashes = Vec::new();
        for part in bytes.chunks(CHUNK) {
            let handle = self.chunks.put(part).map_err(|error| error.to_string())?;
            hashes.push(self.chunks.hash(handle).map_err(|error| error.to_string())?);
        }
        Ok(hashes)
    }

    fn encode_tables(&self) -> std::result::Result<Vec<u8>, String> {
        let mut out = Encoder { engine: self, bytes: Vec::new() };
        out.count(self.tables.iter().count())?;
        for (branch, tables) in self.tables.iter() {
            out.branch(*branch, tables)?;
        }
        Ok(out.bytes)
    }

    fn encode_map(&self, map: &PageMap) -> std::result::Result<[u8; 32], String> {
        let hash_of = |page| self.chunks.hash(handle_of(page)).map_err(|error| error.to_string());
        let mut put = |bytes: &[u8]| {
            let handle = self.chunks.put(bytes).map_err(|error| error.to_string())?;
            self.chunks.hash(handle).map_err(|error| error.to_string())
        };
        let known = |hash: &[u8; 32]| self.chunks.find(hash).is_some();
        map.encode(&hash_of, &mut put, &known)
    }
}

struct Encoder<'a> {
    engine: &'a Engine,
    bytes: Vec<u8>,
}

impl Encoder<'_> {
    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn count(&mut self, count: usize) -> std::result::Result<(), String> {
        let count = u32::try_from(count).map_err(|_| "a list too long for a checkpoint")?;
        self.bytes.extend_from_slice(&count.to_le_bytes());
        Ok(())
    }

    fn map(&mut self, map: &PageMap) -> std::result::Result<(), String> {
        let hash = self.engine.encode_map(map)?;
        self.bytes.extend_from_slice(&hash);
        Ok(())
    }

    fn commits(&mut self, commits: &[Commit]) -> std::result::Result<(), String> {
        self.count(commits.len())?;
        for commit in commits {
            self.number(commit.index.0);
            self.count(commit.chunks.len())?;
            commit.chunks.iter().for_each(|hash| self.bytes.extend_from_slice(hash));
        }
        Ok(())
    }

    fn branch(&mut self, id: BranchId, tables: &BranchTables) -> std::result::Result<(), String> {
        self.number(id.0);
        let flags = u8::from(tables.parent.is_some())
            | u8::from(tables.live) << 1
            | u8::from(tables.source.is_some()) << 2
            | u8::from(tables.head.is_some()) << 3;
        self.bytes.push(flags);
        self.number(tables.parent.map_or(0, |parent| parent.0));
        if let Some(source) = &tables.source {
            self.map(&source.root)?;
            self.number(source.origin.0.0);
            self.number(source.origin.1.0.0);
            self.count(source.layers.len())?;
            for layer in &source.layers {
                self.commits(layer)?;
            }
        }
        if let Some(head) = &tables.head {
            self.map(head)?;
        }
        self.count(tables.roots.len())?;
        for (version, map) in &tables.roots {
            self.number(version.0.0);
            self.map(map)?;
        }
        self.commits(&tables.commits)?;
        self.count(tables.changed.len())?;
        for (table, version) in &tables.changed {
            let length = u16::try_from(table.len()).map_err(|_| "a table name too long")?;
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(table.as_bytes());
            self.number(version.0.0);
        }
        Ok(())
    }
}

/// Reads page maps back; equal maps share their nodes.
pub(crate) struct TablesDecoder<'a> {
    bytes: &'a [u8],
    load: &'a mut dyn FnMut(&[u8; 32]) -> std::result::Result<PageMap, String>,
    maps: BTreeMap<[u8; 32], PageMap>,
}

impl<'a> TablesDecoder<'a> {
    pub(crate) fn new(
        bytes: &'a [u8],
        load: &'a mut dyn FnMut(&[u8; 32]) -> std::result::Result<PageMap, String>,
    ) -> Self {
        TablesDecoder { bytes, load, maps: BTreeMap::new() }
    }

    pub(crate) fn decode(mut self) -> std::result::Result<Tables, String> {
        let mut branches = BTreeMap::new();
        for _ in 0..self.count()? {
            let id = BranchId(self.number()?);
            let tables = self.branch()?;
            branches.insert(id, tables);
        }
        if !self.bytes.is_empty() {
            return Err("bytes after the page maps of a checkpoint".to_owned());
        }
        Ok(Tables::from_parts(branches))
    }

    fn take<const N: usize>(&mut self) -> std::result::Result<[u8; N], String> {
        let taken = self.bytes.split_first_chunk::<N>();
        let (head, tail) = taken.ok_or("the page maps of a checkpoint end early")?;
        self.bytes = tail;
        Ok(*head)
    }

    fn number(&mut self) -> std::result::Result<u64, String> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn count(&mut self) -> std::result::Result<u32, String> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn map(&mut self) -> std::result::Result<PageMap, String> {
        let hash = self.take::<32>()?;
        if let Some(map) = self.maps.get(&hash) {
            return Ok(map.clone());
        }
        let map = (self.load)(&hash)?;
        self.maps.insert(hash, map.clone());
        Ok(map)
    }

    fn commits(&mut self) -> std::result::Result<Vec<Commit>, String> {
        let mut commits = Vec::new();
        for _ in 0..self.count()? {
            let index = Index(self.number()?);
            let mut chunks = Vec::new();
            for _ in 0..self.count()? {
                chunks.push(self.take::<32>()?);
            }
            commits.push(Commit { index, chunks });
        }
        Ok(commits)
    }

    fn branch(&mut self) -> std::result::Result<BranchTables, String> {
        let [flags] = self.take()?;
        let parent = self.number()?;
        let mut tables = BranchTables {
            parent: (flags & 1 != 0).then_some(BranchId(parent)),
            live: flags & 2 != 0,
            ..BranchTables::default()
        };
        if flags & 4 != 0 {
            let root = self.map()?;
            let origin = (BranchId(self.number()?), TableVersion(Index(self.number()?)));
            let count = self.count()?;
            let layers =
                (0..count).map(|_| self.commits()).collect::<std::result::Result<_, _>>()?;
            tables.source = Some(Box::new(Source { root, origin, layers }));
        }
        if flags & 8 != 0 {
            tables.head = Some(self.map()?);
        }
        for _ in 0..self.count()? {
            let version = TableVersion(Index(self.number()?));
            let map = self.map()?;
            tables.roots.insert(version, map);
        }
        tables.commits = self.commits()?;
        for _ in 0..self.count()? {
            let length = usize::from(u16::from_le_bytes(self.take()?));
            let split = self.bytes.split_at_checked(length);
            let (name, rest) = split.ok_or("the page maps of a checkpoint end early")?;
            self.bytes = rest;
            let name = String::from_utf8(name.to_vec()).map_err(|error| error.to_string())?;
            let version = TableVersion(Index(self.number()?));
            tables.changed.insert(name, version);
        }
        Ok(tables)
    }
}

/// The page with this content, if the chunk store has it.
pub(crate) fn find_page(
    chunks: &anabranch_store::ChunkStore,
    hash: &[u8; 32],
) -> Option<anabranch_sql::PageRef> {
    chunks.find(hash).map(page_of)
}
