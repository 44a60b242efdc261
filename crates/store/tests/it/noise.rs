//! Heavier damage than the fault budget allows: the store may refuse, but never panics and never
//! returns wrong data.

#![expect(clippy::cast_possible_truncation, reason = "patterns in test data")]

use std::sync::Arc;

use anabranch_store::disk::{CrashKeeps, Disk};
use anabranch_store::{MemoryDisk, verify};

use crate::fixture;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Zeroes, fills or swaps a few sectors, or flips a few bytes.
fn harm(disk: &MemoryDisk, draw: &mut Draw) {
    let files: Vec<_> = disk.files().into_iter().filter(|(_, size)| *size > 0).collect();
    let pick = |draw: &mut Draw| {
        let (file, size) = &files[usize::try_from(draw.below(files.len() as u64)).unwrap()];
        (file.clone(), *size)
    };
    let (file, size) = pick(draw);
    // Half of the time near the start, where the structures are dense.
    let at = if draw.below(2) == 0 { draw.below(size.min(12_000)) } else { draw.below(size) };
    match draw.below(4) {
        0 => disk.damage(&file, at / 512 * 512, |bytes| {
            let end = bytes.len().min(512);
            bytes[..end].fill(0);
        }),
        1 => {
            let byte = draw.below(256) as u8;
            disk.damage(&file, at, |bytes| {
                let end = bytes.len().min(300);
                bytes[..end].fill(byte);
            });
        }
        2 => {
            // A misdirected write: a sector of one place also lands in another.
            let (other, size) = pick(draw);
            let from = usize::try_from(draw.below(size) / 512 * 512).unwrap();
            let bytes = disk.bytes(&other).unwrap();
            let sector = bytes[from..bytes.len().min(from + 512)].to_vec();
            disk.damage(&file, at / 512 * 512, |bytes| {
                let end = bytes.len().min(sector.len());
                bytes[..end].copy_from_slice(&sector[..end]);
            });
        }
        _ => disk.damage(&file, at, |bytes| bytes[0] ^= 1 << (at % 8)),
    }
}

#[test]
fn noise_never_panics_and_never_gives_wrong_data() {
    let origin = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(origin.clone());
    fixture::build(&disk);
    let (mut whole, mut refused) = (0, 0);
    for seed in 0..3000 {
        let mut draw = Draw(seed);
        let memory = origin.after_crash(CrashKeeps::Everything);
        for _ in 0..=draw.below(4) {
            harm(&memory, &mut draw);
        }
        let report = verify(&memory);
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        match fixture::open(&disk, false) {
            // Payloads lost with both witnesses at the very end are beyond the budget, and the
            // fixture's reader insists on all of them.
            Ok(space) if space.seqs.len() as u64 == fixture::PAYLOADS => {
                let seen = space.read_everything();
                whole += u64::from(seen.damage.is_empty());
                if !seen.damage.is_empty() {
                    assert!(!report.unwrap().clean(), "seed {seed}");
                }
            }
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(whole > 500 && refused > 300, "{whole} {refused}");
}
