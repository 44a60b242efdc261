//! Lists what is in a directory, structure by structure. Changes nothing.

use std::fmt;

use crate::disk::Disk;
use crate::verify::walk;
use crate::{OpenError, Structure};

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileListing {
    /// Path below the space directory.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Structures in offset order; damaged ones say so.
    pub items: Vec<Item>,
}

/// One structure in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Its kind.
    pub structure: Structure,
    /// One line for people.
    pub text: String,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10} {:>8}  {}", self.offset, self.length, self.text)
    }
}

/// Lists every file, in the order identity, vote, checkpoints, journal, chunks, history. Reads
/// everything, as [`verify`](crate::verify()) does.
pub fn inspect(disk: &dyn Disk) -> Result<Vec<FileListing>, OpenError> {
    let mut listing = walk(disk, true)?.listing.unwrap_or_default();
    for file in &mut listing {
        file.items.sort_by_key(|item| item.offset);
    }
    Ok(listing)
}
