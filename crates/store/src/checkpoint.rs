//! The manifest of a checkpoint: `checkpoint-<number>.a` and `.b`, equal.
//!
//! Content of the envelope, in order: number, index, Raft index, Raft term, journal ordinal (u64
//! each); chain 32 bytes; history mark: segment u32, zero u32, length u64, next index u64, chain 32
//! bytes; then three lists, each with a u32 count: packs (number u32, zero u32, length u64), state
//! chunks (32 bytes each), roots (length u32, bytes).
//!
//! Order of a checkpoint: chunks and history are synced, both copies of the manifest are written
//! (each beside and renamed), and only then older manifests, journal segments and retired packs
//! may go. A crash anywhere leaves the older checkpoint whole, or the newer one.

use crate::chunks::ChunkMark;
use crate::copies;
use crate::disk::Disk;
use crate::format::Fault;
use crate::format::envelope;
use crate::format::fields::{Fields, count32};
use crate::history::HistoryMark;
use crate::{Damage, Index, OpenError, Ordinal, Structure, WriteError};

/// Everything needed to start from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointManifest {
    /// Numbered from 1, without reuse.
    pub number: u64,
    /// The last applied operation's index.
    pub index: Index,
    /// The Raft entry up to which everything is applied.
    pub raft_index: u64,
    /// Its term.
    pub raft_term: u64,
    /// The hash chain after it.
    pub chain: [u8; 32],
    /// Hashes of the chunks that hold the encoded state, in order.
    pub state: Vec<[u8; 32]>,
    /// Page-map roots and whatever else the node keeps, in order (opaque here).
    pub roots: Vec<Vec<u8>>,
    /// Packs and lengths that hold every chunk named above.
    pub chunks: ChunkMark,
    /// How far the history reaches.
    pub history: HistoryMark,
    /// Journal records with a smaller ordinal are not needed any more.
    pub journal_from: Ordinal,
}

impl CheckpointManifest {
    fn encode(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for field in
            [self.number, self.index.0, self.raft_index, self.raft_term, self.journal_from.0]
        {
            content.extend_from_slice(&field.to_le_bytes());
        }
        content.extend_from_slice(&self.chain);
        content.extend_from_slice(&self.history.segment.to_le_bytes());
        content.extend_from_slice(&[0; 4]);
        content.extend_from_slice(&self.history.length.to_le_bytes());
        content.extend_from_slice(&self.history.next.0.to_le_bytes());
        content.extend_from_slice(&self.history.chain);
        content.extend_from_slice(&count32(self.chunks.packs.len()).to_le_bytes());
        for (number, length) in &self.chunks.packs {
            content.extend_from_slice(&number.to_le_bytes());
            content.extend_from_slice(&[0; 4]);
            content.extend_from_slice(&length.to_le_bytes());
        }
        content.extend_from_slice(&count32(self.state.len()).to_le_bytes());
        for hash in &self.state {
            content.extend_from_slice(hash);
        }
        content.extend_from_slice(&count32(self.roots.len()).to_le_bytes());
        for root in &self.roots {
            content.extend_from_slice(&count32(root.len()).to_le_bytes());
            content.extend_from_slice(root);
        }
        content
    }

    fn decode(content: &[u8]) -> Option<Self> {
        let mut fields = Fields(content);
        let number = fields.u64()?;
        let index = Index(fields.u64()?);
        let (raft_index, raft_term) = (fields.u64()?, fields.u64()?);
        let journal_from = Ordinal(fields.u64()?);
        let chain = fields.array()?;
        let segment = fields.u32()?;
        fields.zeros::<4>()?;
        let length = fields.u64()?;
        let next = Index(fields.u64()?);
        let history = HistoryMark { segment, length, next, chain: fields.array()? };
        let packs = (0..fields.count(16)?)
            .map(|_| {
                let number = fields.u32()?;
                fields.zeros::<4>()?;
                Some((number, fields.u64()?))
            })
            .collect::<Option<Vec<_>>>()?;
        let state = (0..fields.count(32)?).map(|_| fields.array()).collect::<Option<Vec<_>>>()?;
        let roots = (0..fields.count(4)?)
            .map(|_| {
                let length = fields.count(1)?;
                Some(fields.bytes(length)?.to_vec())
            })
            .collect::<Option<Vec<_>>>()?;
        fields.end()?;
        let chunks = ChunkMark { packs };
        let ascending = chunks.packs.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ascending.then_some(Self {
            number,
            index,
            raft_index,
            raft_term,
            chain,
            state,
            roots,
            chunks,
            history,
            journal_from,
        })
    }
}

pub(crate) fn stem(number: u64) -> String {
    format!("checkpoint-{number:020}")
}

/// The number in a manifest's file name.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("checkpoint-")?;
    let digits = rest.strip_suffix(".a").or_else(|| rest.strip_suffix(".b"))?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// Writes both copies; durable on return. Chunks and history named in it must be synced before.
/// After a failure the older checkpoint still counts, or this one; try the next number.
pub fn write(disk: &dyn Disk, manifest: &CheckpointManifest) -> Result<(), WriteError> {
    let stem = stem(manifest.number);
    copies::write(disk, &stem, envelope::MANIFEST, &manifest.encode())
        .map_err(|error| WriteError::io(stem, error))
}

/// The newest manifest, and what was repaired; `None` before the first one. A newest manifest that
/// is damaged in both copies is refused: an older one would silently take the space back.
pub fn load_newest(
    disk: &dyn Disk,
) -> Result<Option<(CheckpointManifest, Vec<Damage>)>, OpenError> {
    let Some(number) = numbers(disk)?.last().copied() else { return Ok(None) };
    let (manifest, found) = read(disk, number)?;
    let mut repaired = Vec::new();
    for copy in &found {
        if let Some(damage) = copy.damage(Structure::Manifest) {
            copies::repair(disk, copy, envelope::MANIFEST, &manifest.encode())?;
            repaired.push(damage);
        }
    }
    Ok(Some((manifest, repaired)))
}

/// Numbers of all manifests, ascending.
pub(crate) fn numbers(disk: &dyn Disk) -> Result<Vec<u64>, OpenError> {
    let names = disk.list("").map_err(|error| OpenError::io("", error))?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| parse_name(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Reads one manifest without repairing.
pub(crate) fn read(
    disk: &dyn Disk,
    number: u64,
) -> Result<(CheckpointManifest, [copies::Copy; 2]), OpenError> {
    let mut found = copies::read(disk, &stem(number), envelope::MANIFEST)?;
    let mut manifest = None;
    for copy in &mut found {
        let Ok(content) = &copy.content else { continue };
        match CheckpointManifest::decode(content).filter(|manifest| manifest.number == number) {
            Some(decoded) if manifest.as_ref().is_none_or(|manifest| *manifest == decoded) => {
                manifest = Some(decoded);
            }
            Some(_) => copy.content = Err(Fault::Bad("the copies differ")),
            None => copy.content = Err(Fault::Bad("fields out of bounds")),
        }
    }
    if let Some(manifest) = manifest {
        Ok((manifest, found))
    } else {
        let bad = found.iter().find(|copy| !copy.missing()).unwrap_or(&found[0]);
        Err(bad.error(Structure::Manifest))
    }
}

/// Removes manifests older than `number`, and what interrupted writes left.
pub fn remove_older(disk: &dyn Disk, number: u64) -> Result<(), WriteError> {
    let names = disk.list("").map_err(|error| WriteError::io("", error))?;
    let mut removed = false;
    for name in names {
        let leftover = name.starts_with("checkpoint-") && name.strip_suffix(".tmp").is_some();
        if leftover || parse_name(&name).is_some_and(|found| found < number) {
            disk.remove(&name).map_err(|error| WriteError::io(name, error))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_dir("").map_err(|error| WriteError::io("", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CrashKeeps, MemoryDisk};

    fn manifest(number: u64) -> CheckpointManifest {
        let history =
            HistoryMark { segment: 2, length: 4321, next: Index(number * 10), chain: [8; 32] };
        CheckpointManifest {
            number,
            index: Index(number * 10 - 1),
            raft_index: number * 3,
            raft_term: 2,
            chain: [8; 32],
            state: vec![[1; 32], [2; 32]],
            roots: vec![b"root".to_vec(), Vec::new()],
            chunks: ChunkMark { packs: vec![(1, 9000), (3, 4096)] },
            history,
            journal_from: Ordinal(17),
        }
    }

    #[test]
    fn golden() {
        crate::format::check::golden(
            &manifest(1).encode(),
            "010000000000000009000000000000000300000000000000020000000000000011000000000000000808",
        );
        assert_eq!(manifest(1).encode().len(), 40 + 32 + 56 + 4 + 32 + 4 + 64 + 4 + 8 + 4);
    }

    #[test]
    fn content_is_bounded_and_whole() {
        let content = manifest(4).encode();
        assert_eq!(CheckpointManifest::decode(&content), Some(manifest(4)));
        for cut in 0..content.len() {
            assert_eq!(CheckpointManifest::decode(&content[..cut]), None);
        }
        let mut counts = content.clone();
        counts[128..132].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(CheckpointManifest::decode(&counts), None, "a wild count allocates nothing");
    }

    #[test]
    fn the_newest_counts_and_older_ones_go() {
        let disk = MemoryDisk::new();
        assert!(load_newest(&disk).unwrap().is_none());
        for number in [1, 2, 10] {
            write(&disk, &manifest(number)).unwrap();
        }
        assert_eq!(load_newest(&disk).unwrap(), Some((manifest(10), vec![])));
        remove_older(&disk, 10).unwrap();
        assert_eq!(disk.files().len(), 2);
    }

    #[test]
    fn every_flip_is_repaired_from_the_other_copy() {
        let origin = MemoryDisk::new();
        write(&origin, &manifest(3)).unwrap();
        for (file, size) in origin.files() {
            for at in 0..size {
                let disk = origin.after_crash(CrashKeeps::Synced);
                disk.damage(&file, at, |bytes| bytes[0] ^= 1);
                let (found, repaired) = load_newest(&disk).unwrap().unwrap();
                assert_eq!((found, repaired.len()), (manifest(3), 1));
                assert_eq!(repaired[0].file, file);
                assert_eq!(disk.bytes(&file), origin.bytes(&file));
            }
        }
    }

    #[test]
    fn both_copies_damaged_is_refused_although_an_older_one_is_there() {
        let disk = MemoryDisk::new();
        write(&disk, &manifest(1)).unwrap();
        write(&disk, &manifest(2)).unwrap();
        for copy in ["a", "b"] {
            let file = format!("{}.{copy}", stem(2));
            disk.damage(&file, 50, |bytes| bytes[0] ^= 1);
        }
        assert!(matches!(load_newest(&disk), Err(OpenError::Damaged(_))));
    }

    #[test]
    fn a_crash_at_any_step_leaves_one_of_the_two() {
        let origin = MemoryDisk::new();
        write(&origin, &manifest(1)).unwrap();
        for step in 0..40 {
            for seed in 0..20 {
                let disk = origin.after_crash(CrashKeeps::Everything);
                disk.fail_after(step);
                let written = write(&disk, &manifest(2)).is_ok();
                let removed = written && remove_older(&disk, 2).is_ok();
                let disk = disk.after_crash(CrashKeeps::Some(seed));
                let (found, _) = load_newest(&disk).unwrap().unwrap();
                assert!(found == manifest(1) || found == manifest(2));
                assert!(!written || found == manifest(2), "durable on return");
                remove_older(&disk, found.number).unwrap();
                assert!(disk.files().len() == 2 || !removed);
            }
        }
    }
}
