//! What a power cut leaves of writes and names that were not synced.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Content, Durable, Pending, PendingName, State, parent};
use crate::sim::random::Random;

/// The unit that is written whole or not at all.
pub(super) const SECTOR: usize = 512;

/// How lucky one crash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Luck {
    /// Everything had reached the medium.
    Everything,
    /// Nothing had.
    Nothing,
    /// Whole writes and names, each for itself.
    Whole,
    /// Sectors, each for itself.
    Torn,
}

const LUCK: [(Luck, u64); 4] =
    [(Luck::Everything, 1), (Luck::Nothing, 2), (Luck::Whole, 2), (Luck::Torn, 5)];

/// How much of one write had reached the medium.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    None,
    /// About one sector in this many.
    OneIn(u64),
    /// The first sectors, up to this offset in the file.
    Before(usize),
    /// The last sectors, from this offset in the file.
    From(usize),
}

/// Turns the state into the one that is found after the power cut.
pub(super) fn settle(state: &mut State, random: &mut Random) {
    let luck = random.weighted(&LUCK);
    names(state, luck, random);
    for content in state.files.values_mut() {
        let pending = std::mem::take(&mut content.pending);
        if !pending.is_empty() {
            content.durable = bytes(content, &pending, luck, random);
        }
        content.current.clone_from(&content.durable);
    }
}

fn names(state: &mut State, luck: Luck, random: &mut Random) {
    // On a journaling file system one lost change takes the later ones of its directory along.
    let ordered = random.one_in(2);
    let lost_one_in = random.between(2, 4);
    let mut cut = BTreeSet::new();
    for PendingName { change, .. } in std::mem::take(&mut state.pending_names) {
        let dir = parent(change.target()).to_owned();
        let lost = match luck {
            Luck::Everything => false,
            Luck::Nothing => true,
            Luck::Whole | Luck::Torn => {
                let lost = random.one_in(lost_one_in);
                lost || (ordered && cut.contains(&dir))
            }
        };
        if lost {
            cut.insert(dir);
        } else {
            change.apply(&mut state.durable_names);
        }
    }
    let mut gone = Vec::new();
    for (dir, durable) in &mut state.dirs {
        let kept = durable.0
            || match luck {
                Luck::Everything => true,
                Luck::Nothing => false,
                Luck::Whole | Luck::Torn => random.one_in(2),
            };
        if kept {
            *durable = Durable(true);
        } else {
            gone.push(dir.clone());
        }
    }
    for dir in gone {
        state.dirs.remove(&dir);
        state.durable_names.retain(|name, _| parent(name) != dir);
    }
    state.names = state.durable_names.clone();
}

/// The bytes of one file after the power cut.
fn bytes(content: &Content, pending: &[Pending], luck: Luck, random: &mut Random) -> Vec<u8> {
    let kept: Vec<Kept> =
        pending.iter().map(|pending| draw(&pending.change, luck, random)).collect();
    let mut size = content.durable.len();
    let mut final_size = size;
    let mut touched: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut largest = size;
    for (number, Pending { change, .. }) in pending.iter().enumerate() {
        let before = size;
        let sectors = match change {
            Change::Write { offset, bytes } => {
                size = size.max(offset + bytes.len());
                offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR)
            }
            Change::SetSize(new) => {
                size = *new;
                new / SECTOR..largest.div_ceil(SECTOR)
            }
        };
        largest = largest.max(size);
        for sector in sectors {
            touched.entry(sector).or_default().push(number);
        }
        let size_kept = match kept[number] {
            Kept::All => true,
            Kept::None => false,
            Kept::OneIn(_) | Kept::Before(_) | Kept::From(_) => random.one_in(2),
        };
        if size != before && size_kept {
            final_size = size;
        }
    }
    let mut found = content.durable.clone();
    found.resize(largest.next_multiple_of(SECTOR), 0);
    for (sector, changes) in touched {
        let newest = changes.iter().rposition(|change| reached(kept[*change], sector, random));
        let Some(newest) = newest else { continue };
        for change in &changes[..=newest] {
            on_sector(&pending[*change].change, sector, &mut found);
        }
    }
    found.resize(final_size, 0);
    found
}

fn draw(change: &Change, luck: Luck, random: &mut Random) -> Kept {
    match luck {
        Luck::Everything => Kept::All,
        Luck::Nothing => Kept::None,
        Luck::Whole => *random.pick(&[Kept::All, Kept::None]),
        Luck::Torn => {
            let (start, length) = match change {
                Change::Write { offset, bytes } => (*offset, bytes.len()),
                Change::SetSize(_) => (0, 0),
            };
            let cut = start + usize::try_from(random.below(length as u64 + 1)).expect("in memory");
            let choices = [
                (Kept::All, 2),
                (Kept::None, 2),
                (Kept::OneIn(random.between(2, 8)), 4),
                (Kept::Before(cut), 2),
                (Kept::From(cut), 2),
            ];
            random.weighted(&choices)
        }
    }
}

fn reached(kept: Kept, sector: usize, random: &mut Random) -> bool {
    match kept {
        Kept::All => true,
        Kept::None => false,
        Kept::OneIn(times) => random.one_in(times),
        Kept::Before(end) => sector * SECTOR < end,
        Kept::From(start) => sector * SECTOR >= start,
    }
}

/// Applies the part of a change that lies in one sector.
fn on_sector(change: &Change, sector: usize, found: &mut [u8]) {
    let (start, end) = (sector * SECTOR, (sector + 1) * SECTOR);
    match change {
        Change::Write { offset, bytes } => {
            let first = start.max(*offset);
            let last = end.min(offset + bytes.len());
            if first < last {
                found[first..last].copy_from_slice(&bytes[first - offset..last - offset]);
            }
        }
        Change::SetSize(size) => {
            let first = start.max(*size);
            if first < end {
                found[first..end].fill(0);
            }
        }
    }
}
