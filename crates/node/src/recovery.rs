//! Opening a space: from bytes to an engine that has applied everything it ever acknowledged.
//!
//! Order: lock the directory; identity (or create it); newest checkpoint; chunks and history cut
//! to what that checkpoint covers; journal; replica; then the entries after the checkpoint are
//! applied again, which writes the same history and the same pages as before.

use std::sync::Arc;

use anabranch_log::{Digest, Kind, NodeId, State, Status, WriteId};
use anabranch_replica::{
    Config, Effect, EntryKind, Event, LogEntry, MAX_BATCH, Mark, RaftIndex, Replica,
    Restored as RestoredReplica, StoredEntry, StoredPayload, Term,
};
use anabranch_sql::{DecodeCache, PageMap, PageStore};
use anabranch_store::{
    CheckpointManifest, ChunkOptions, ChunkStore, Damage, Disk, History, HistoryOptions, Identity,
    Journal, JournalOptions, JournalRecord, OpenError, Ordinal, Position, Recovered, Vote, chain,
    checkpoint, disk, identity, vote::VoteFile,
};

use crate::checkpoint::{Progress, TablesDecoder, find_page};
use crate::clock::Clock;
use crate::engine::{Engine, Restored};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::ChunkPages;
use crate::shared::Shared;
use crate::tables::Tables;
use crate::view::Origin;

/// Room for one id in an order entry, generously: entries must fit small journal segments too.
const ORDERED_ID_BYTES: usize = 64;

/// Opens a space on a disk.
pub(crate) fn open(disk: Arc<dyn Disk>, options: Options, clock: Arc<dyn Clock>) -> Result<Shared> {
    let directory = disk::lock(&*disk).map_err(open_error)?;
    let who = identify(&disk, &options)?;
    // The vote files are made last: without them the space was never complete, nor ever written.
    let created = !exists(&*disk, "vote.a")? && !exists(&*disk, "vote.b")?;
    let space = who.space;
    let loaded = checkpoint::load_newest(&*disk).map_err(open_error)?;
    let manifest = loaded.map(|(manifest, repaired)| {
        report(&repaired);
        manifest
    });
    let (chunks, history) = open_stores(&disk, &options, space, manifest.as_ref())?;
    let (journal, recovered) = open_journal(&disk, &options, space, manifest.as_ref(), created)?;
    let votes = open_votes(&disk, space, created)?;
    let pages: Arc<dyn PageStore> = Arc::new(ChunkPages::new(Arc::clone(&chunks)));
    let (state, tables) = match &manifest {
        Some(manifest) => load_state(&chunks, manifest)?,
        None => (State::new(), Tables::new()),
    };
    let snapshot = manifest
        .as_ref()
        .map(|manifest| (RaftIndex(manifest.raft_index), Term(manifest.raft_term)));
    let (replica, effects) =
        start_replica(&who, votes.vote(), snapshot, (&journal, &recovered), options.accept_loss)?;
    let mut engine = Engine::new(Restored {
        disk,
        state,
        tables,
        replica,
        journal,
        votes,
        history,
        chunks,
        pages,
        raft: snapshot.unwrap_or_default(),
        chain: manifest.as_ref().map_or(chain::START, |manifest| manifest.chain),
        unapplied: recovered.payloads,
        parts: recovered.parts,
        checkpoint: manifest.as_ref().map_or_else(Progress::default, |manifest| Progress {
            number: manifest.number,
            index: manifest.index,
        }),
    });
    engine.carry_out_all(effects);
    let shared = Shared::new(engine, who.name, options, clock, directory);
    replay(&shared)?;
    Ok(shared)
}

/// The replica as its durable state says, and its first effects.
fn start_replica(
    who: &Identity,
    mut vote: Vote,
    snapshot: Option<(RaftIndex, Term)>,
    (journal, recovered): (&Journal, &Recovered),
    accept_loss: bool,
) -> Result<(Replica, Vec<Effect>)> {
    if accept_loss {
        // Entries that were given up are not committed any more.
        let last = recovered.entries.last().map_or(0, |(index, _, _)| *index);
        vote.commit = vote.commit.min(last.max(snapshot.map_or(0, |(index, _)| index.0)));
    }
    let payload = |(id, digest, at): &(WriteId, Digest, Position)| StoredPayload {
        id: *id,
        digest: *digest,
        mark: Mark(at.ordinal.0),
    };
    let restored = RestoredReplica {
        vote: anabranch_replica::Vote {
            term: Term(vote.term),
            voted_for: (vote.voted_for != 0).then_some(NodeId(vote.voted_for)),
            commit: RaftIndex(vote.commit),
        },
        snapshot,
        entries: stored_entries(journal, recovered)?,
        payloads: recovered.payloads.iter().map(payload).collect(),
    };
    let mut config = Config::single(NodeId(who.node), seed_of(who.space));
    config.batch_max = MAX_BATCH.min(journal.record_bytes_max() / ORDERED_ID_BYTES).max(1);
    Replica::start(&config, restored)
        .map_err(|error| Error::no(Kind::Corrupt, error.to_string()).because(error))
}

/// Leads, applies everything that is durable, and forgets payloads applied before the checkpoint.
fn replay(shared: &Shared) -> Result<()> {
    let ticket = {
        let mut engine = shared.lock();
        engine.step(Event::Order);
        engine.begin_read()?
    };
    if let Some(ticket) = ticket {
        shared.wait(|engine| engine.read_ready(ticket).then_some(()))?;
    }
    let mut engine = shared.lock();
    engine.end_replay();
    drop(engine);
    give_up_closings(shared);
    shared.watch_forks();
    Ok(())
}

/// Whoever decided about a closing is gone: the branch takes writes again, as it was.
fn give_up_closings(shared: &Shared) {
    let engine = shared.lock();
    let closing: Vec<_> = engine
        .state
        .branches()
        .filter_map(|branch| match branch.status() {
            Status::Closing { at, .. } => Some((branch.id(), at)),
            _ => None,
        })
        .collect();
    drop(engine);
    for (branch, at) in closing {
        shared.reopen(branch, at, &Origin::actor("node").because("restarted while closing"));
    }
}

fn identify(disk: &Arc<dyn Disk>, options: &Options) -> Result<Identity> {
    match identity::load(&**disk) {
        Ok((who, repaired)) => {
            report(&repaired);
            if let Some(name) = options.name.as_ref().filter(|name| **name != who.name) {
                let message = format!("the directory holds space `{}`, not `{name}`", who.name);
                return Err(Error::no(Kind::InvalidArgument, message));
            }
            Ok(who)
        }
        Err(OpenError::Missing { .. }) if options.create => {
            let name = options.name.clone().unwrap_or_else(|| "default".to_owned());
            anabranch_log::BranchName::new(&name)?;
            let who = Identity { space: options.draw_identity()?, name, node: 1 };
            identity::create(&**disk, &who).map_err(open_error)?;
            Ok(who)
        }
        Err(error) => Err(open_error(error)),
    }
}

fn exists(disk: &dyn Disk, file: &str) -> Result<bool> {
    disk.exists(file).map_err(|error| open_error(OpenError::io(file, error)))
}

fn open_stores(
    disk: &Arc<dyn Disk>,
    options: &Options,
    space: [u8; 16],
    manifest: Option<&CheckpointManifest>,
) -> Result<(Arc<ChunkStore>, Arc<History>)> {
    let cache_bytes = usize::try_from(options.cache_bytes).unwrap_or(usize::MAX);
    let chunk_options = ChunkOptions { cache_bytes, ..ChunkOptions::new(space) };
    let mark = manifest.map(|manifest| &manifest.chunks);
    let (chunks, repaired) =
        ChunkStore::open(Arc::clone(disk), mark, chunk_options).map_err(open_error)?;
    report(&repaired);
    let mark = manifest.map(|manifest| &manifest.history);
    let (history, repaired) =
        History::open(Arc::clone(disk), mark, HistoryOptions::new(space)).map_err(open_error)?;
    report(&repaired);
    Ok((Arc::new(chunks), Arc::new(history)))
}

fn open_journal(
    disk: &Arc<dyn Disk>,
    options: &Options,
    space: [u8; 16],
    manifest: Option<&CheckpointManifest>,
    create: bool,
) -> Result<(Journal, Recovered)> {
    let segment_bytes = u32::try_from(options.segment_bytes)
        .map_err(|_| Error::no(Kind::InvalidArgument, "a journal segment has at most 1 GiB"))?;
    let journal_options = JournalOptions {
        segment_bytes,
        needed_from: manifest.map_or(Ordinal(1), |manifest| manifest.journal_from),
        create,
        accept_loss: options.accept_loss,
        ..JournalOptions::new(space)
    };
    let (journal, recovered) =
        Journal::open(Arc::clone(disk), journal_options).map_err(open_error)?;
    report(&recovered.repaired);
    if create && !(recovered.payloads.is_empty() && recovered.entries.is_empty()) {
        return Err(Error::no(
            Kind::Corrupt,
            "both vote files are missing, but the journal is not",
        ));
    }
    if let Some(torn) = &recovered.torn {
        tracing::info!(?torn, "an interrupted write was cut; it was never acknowledged");
    }
    for file in &recovered.kept_aside {
        tracing::warn!(%file, "damaged records were given up and kept aside");
    }
    Ok((journal, recovered))
}

fn open_votes(disk: &Arc<dyn Disk>, space: [u8; 16], create: bool) -> Result<VoteFile> {
    if create {
        return VoteFile::create(&**disk, space).map_err(open_error);
    }
    let (votes, repaired) = VoteFile::open(&**disk, space).map_err(open_error)?;
    report(&repaired);
    Ok(votes)
}

fn stored_entries(journal: &Journal, recovered: &Recovered) -> Result<Vec<StoredEntry>> {
    let mut entries = Vec::with_capacity(recovered.entries.len());
    for (index, term, at) in &recovered.entries {
        let record = journal
            .read(*at)
            .map_err(|error| Error::no(Kind::Corrupt, error.to_string()).because(error))?;
        let JournalRecord::Entry { kind, data, .. } = record else {
            return Err(Error::no(Kind::Corrupt, "an entry's place holds another record"));
        };
        let kind = EntryKind::from_code(kind).ok_or_else(|| {
            Error::no(Kind::Corrupt, format!("an entry of an unknown kind, raft index=`{index}`"))
        })?;
        let entry = LogEntry { index: RaftIndex(*index), term: Term(*term), kind, data };
        entries.push(StoredEntry { entry, mark: Mark(at.ordinal.0) });
    }
    Ok(entries)
}

fn load_state(chunks: &ChunkStore, manifest: &CheckpointManifest) -> Result<(State, Tables)> {
    let corrupt = |what: String| Error::no(Kind::Corrupt, what);
    let read = |hash: &[u8; 32]| -> std::result::Result<Arc<[u8]>, String> {
        let handle = chunks.find(hash).ok_or("a chunk that the checkpoint names is missing")?;
        chunks.get(handle).map_err(|error| error.to_string())
    };
    let mut bytes = Vec::new();
    for hash in &manifest.state {
        bytes.extend_from_slice(&read(hash).map_err(corrupt)?);
    }
    let state = State::decode(&bytes)
        .map_err(|error| corrupt(format!("the state of the checkpoint is malformed: {error}")))?;
    let mut bytes = Vec::new();
    for root in &manifest.roots {
        let hash = root.as_slice().try_into();
        let hash: &[u8; 32] = hash.map_err(|_| corrupt("a malformed checkpoint".to_owned()))?;
        bytes.extend_from_slice(&read(hash).map_err(corrupt)?);
    }
    let mut cache = DecodeCache::default();
    let mut load = |root: &[u8; 32]| -> std::result::Result<PageMap, String> {
        let mut get = |hash: &[u8; 32]| read(hash).map(|bytes| bytes.to_vec());
        let mut find = |hash: &[u8; 32]| find_page(chunks, hash);
        PageMap::decode(root, &mut get, &mut find, &mut cache).map_err(|error| error.to_string())
    };
    let tables = TablesDecoder::new(&bytes, &mut load).decode().map_err(corrupt)?;
    Ok((state, tables))
}

fn seed_of(space: [u8; 16]) -> u64 {
    let (head, _) = space.split_first_chunk::<8>().expect("16 bytes hold 8");
    u64::from_le_bytes(*head)
}

fn report(repaired: &[Damage]) {
    for damage in repaired {
        tracing::warn!(%damage, "repaired from a second copy");
    }
}

pub(crate) fn open_error(error: OpenError) -> Error {
    let kind = match &error {
        OpenError::Locked => Kind::Locked,
        OpenError::DiskFull { .. } => Kind::DiskFull,
        OpenError::InvalidOption { .. } => Kind::InvalidArgument,
        OpenError::Missing { .. } | OpenError::Io { .. } => Kind::Unavailable,
        _ => Kind::Corrupt,
    };
    Error::no(kind, error.to_string()).because(error)
}
