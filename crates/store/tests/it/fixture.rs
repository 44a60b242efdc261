//! A small space with everything in it, and a reader that checks all of it.

#![expect(clippy::cast_possible_truncation, reason = "patterns in test data")]

use std::sync::Arc;

use anabranch_store::disk::{self, Disk};
use anabranch_store::{
    AppendError, CheckpointManifest, ChunkOptions, ChunkStore, Damage, Digest, Frame, History,
    HistoryOptions, Identity, Index, Journal, JournalOptions, JournalRecord, OpenError, Ordinal,
    ReadError, SessionId, Vote, WriteError, WriteId, chain, checkpoint, identity, vote,
};

pub(crate) const SPACE: [u8; 16] = *b"fixture of tests";

pub(crate) fn journal_options() -> JournalOptions {
    JournalOptions { segment_bytes: 64 << 10, ..JournalOptions::new(SPACE) }
}

pub(crate) fn chunk_options() -> ChunkOptions {
    ChunkOptions { pack_bytes: 64 << 10, cache_bytes: 0, ..ChunkOptions::new(SPACE) }
}

pub(crate) fn history_options() -> HistoryOptions {
    HistoryOptions { segment_bytes: 64 << 10, ..HistoryOptions::new(SPACE) }
}

pub(crate) fn payload(seq: u64) -> JournalRecord {
    let length = if seq.is_multiple_of(3) { 9000 } else { 101 };
    let bytes = vec![seq as u8 | 1; length];
    let id = WriteId { session: SessionId(2), seq, attempt: 0 };
    JournalRecord::Payload { id, digest: Digest([seq as u8; 32]), bytes }
}

pub(crate) fn chunk(n: u64) -> Vec<u8> {
    let mut bytes = vec![n as u8 | 1; [700, 301, 40_000][usize::try_from(n % 3).unwrap()]];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

pub(crate) fn frame(first: Index, before: chain::Link, n: u64) -> Frame {
    let digest = Digest([n as u8; 32]);
    let chain = chain::next(before, digest, first);
    Frame { first, count: n % 3, raft_index: n, digest, chain, body: vec![n as u8; 90] }
}

pub(crate) const PAYLOADS: u64 = 15;
pub(crate) const CHUNKS: u64 = 6;
pub(crate) const FRAMES: u64 = 12;

/// Everything open at once.
pub(crate) struct Space {
    pub(crate) journal: Journal,
    pub(crate) chunks: ChunkStore,
    pub(crate) history: History,
    pub(crate) repaired: Vec<Damage>,
    pub(crate) seqs: Vec<u64>,
    payloads: Vec<anabranch_store::Position>,
    pub(crate) manifest: Option<CheckpointManifest>,
    vote: Vote,
}

pub(crate) fn create(disk: &Arc<dyn Disk>) -> Result<(), OpenError> {
    drop(disk::lock(&**disk)?);
    let options = JournalOptions { create: true, ..journal_options() };
    drop(Journal::open(disk.clone(), options)?);
    drop(vote::VoteFile::create(&**disk, SPACE)?);
    let identity = Identity { space: SPACE, name: "small".to_owned(), node: 1 };
    identity::create(&**disk, &identity)
}

pub(crate) fn open(disk: &Arc<dyn Disk>, accept_loss: bool) -> Result<Space, OpenError> {
    let (identity, mut repaired) = identity::load(&**disk)?;
    assert_eq!((identity.space, &*identity.name, identity.node), (SPACE, "small", 1));
    let (votes, more) = vote::VoteFile::open(&**disk, SPACE)?;
    repaired.extend(more);
    let loaded = checkpoint::load_newest(&**disk)?;
    let (manifest, more) = loaded.map_or((None, Vec::new()), |(read, more)| (Some(read), more));
    repaired.extend(more);
    let needed_from = manifest.as_ref().map_or(Ordinal(1), |manifest| manifest.journal_from);
    let options = JournalOptions { needed_from, accept_loss, ..journal_options() };
    let (journal, recovered) = Journal::open(disk.clone(), options)?;
    repaired.extend(recovered.repaired);
    let mark = manifest.as_ref().map(|manifest| &manifest.chunks);
    let (chunks, more) = ChunkStore::open(disk.clone(), mark, chunk_options())?;
    repaired.extend(more);
    let mark = manifest.as_ref().map(|manifest| &manifest.history);
    let (history, more) = History::open(disk.clone(), mark, history_options())?;
    repaired.extend(more);
    let seqs = recovered.payloads.iter().map(|(id, ..)| id.seq).collect();
    let payloads = recovered.payloads.iter().map(|(.., at)| *at).collect();
    let vote = votes.vote();
    Ok(Space { journal, chunks, history, repaired, seqs, payloads, manifest, vote })
}

pub(crate) fn append(journal: &mut Journal, record: &JournalRecord) -> Result<(), WriteError> {
    match journal.append(record) {
        Ok(_) => Ok(()),
        Err(AppendError::NeedsSegment) => {
            journal.prepare_next_segment()?;
            journal.append(record).map(drop).map_err(|_| anabranch_store::Poisoned.into())
        }
        Err(_) => Err(anabranch_store::Poisoned.into()),
    }
}

pub(crate) fn flush(journal: &mut Journal) -> Result<(), WriteError> {
    let Some(flush) = journal.take_flush() else { return Ok(()) };
    let result = flush.run();
    journal.complete_flush(flush, result)?;
    Ok(())
}

/// Takes a checkpoint of whatever there is.
pub(crate) fn checkpoint_now(disk: &Arc<dyn Disk>, space: &Space) -> Result<(), WriteError> {
    space.chunks.sync()?;
    space.history.sync()?;
    let number = space.manifest.as_ref().map_or(1, |manifest| manifest.number + 1);
    let manifest = CheckpointManifest {
        number,
        index: Index(space.history.next().0 - 1),
        raft_index: 1,
        raft_term: 1,
        chain: space.history.chain(),
        state: vec![[1; 32]],
        roots: vec![vec![2; 40]],
        chunks: space.chunks.mark(),
        history: space.history.mark(),
        journal_from: Ordinal(1),
    };
    checkpoint::write(&**disk, &manifest)?;
    checkpoint::remove_older(&**disk, number)
}

/// A space with a vote, a journal over two segments, packs (one sealed), history, a checkpoint.
pub(crate) fn build(disk: &Arc<dyn Disk>) {
    create(disk).unwrap();
    let mut space = open(disk, false).unwrap();
    let (mut votes, _) = vote::VoteFile::open(&**disk, SPACE).unwrap();
    votes.write(Vote { term: 3, voted_for: 1, commit: 2 }).unwrap();
    for seq in 1..=PAYLOADS {
        append(&mut space.journal, &payload(seq)).unwrap();
        if seq % 4 == 0 {
            flush(&mut space.journal).unwrap();
        }
    }
    append(
        &mut space.journal,
        &JournalRecord::Entry { index: 1, term: 3, kind: 0, data: vec![8; 20] },
    )
    .unwrap();
    flush(&mut space.journal).unwrap();
    append(&mut space.journal, &JournalRecord::Confirm).unwrap();
    flush(&mut space.journal).unwrap();
    for n in 0..CHUNKS {
        space.chunks.put(&chunk(n)).unwrap();
    }
    for n in 0..FRAMES {
        let frame = frame(space.history.next(), space.history.chain(), n);
        space.history.append(&frame).unwrap();
    }
    checkpoint_now(disk, &space).unwrap();
}

/// What reading everything gave: how much was right, and the damage named.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) right: u64,
    pub(crate) damage: Vec<Damage>,
}

impl Space {
    /// Reads everything that [`build`] wrote and compares; anything wrong panics.
    pub(crate) fn read_everything(&self) -> Seen {
        let mut seen = Seen::default();
        assert_eq!(self.vote, Vote { term: 3, voted_for: 1, commit: 2 });
        assert_eq!(self.seqs, (1..=PAYLOADS).collect::<Vec<_>>());
        for (seq, at) in (1..).zip(&self.payloads) {
            seen.one(self.journal.read(*at), &payload(seq));
        }
        for n in 0..CHUNKS {
            let content = chunk(n);
            match self.chunks.find(blake3::hash(&content).as_bytes()) {
                Some(handle) => {
                    seen.one(self.chunks.get(handle).map(|found| found.to_vec()), &content);
                }
                None => panic!("chunk {n} is missing and nobody said so"),
            }
        }
        let (mut next, mut link) = (Index(1), chain::START);
        for n in 0..FRAMES {
            let frame = frame(next, link, n);
            (next, link) = (Index(frame.first.0 + frame.count), frame.chain);
            if frame.count > 0 {
                seen.one(self.history.read(frame.first), &frame);
            }
        }
        assert_eq!((self.history.next(), self.history.chain()), (next, link));
        seen
    }
}

impl Seen {
    fn one<T: PartialEq + std::fmt::Debug>(&mut self, found: Result<T, ReadError>, expected: &T) {
        match found {
            Ok(found) => {
                assert!(found == *expected, "wrong data");
                self.right += 1;
            }
            Err(ReadError::Corrupt(damage)) => self.damage.push(damage),
            Err(error) => panic!("{error}"),
        }
    }
}
