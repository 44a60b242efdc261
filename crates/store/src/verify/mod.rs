//! Reads every byte of a stopped node's directory and says what is wrong. Changes nothing.
//!
//! Every byte of every file belongs to a structure with a checksum, or is listed as unused and
//! must be zero; so any changed byte appears in a finding that covers it. What only an interrupted
//! write can leave, and what lies beyond the newest checkpoint and will be cut, is reported too,
//! with a milder [`Severity`].

mod chunks;
mod history;
mod journal;

use std::io;
use std::sync::Arc;

use crate::copies::{self, Copy};
use crate::disk::{self, Disk, DiskFile, LOCK_FILE, Open};
use crate::format::superblock;
use crate::format::{envelope, nonzero_extent};
use crate::inspect::{FileListing, Item};
use crate::{CheckpointManifest, Damage, OpenError, Structure, checkpoint, identity, vote};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Not needed: left by an interrupted write, beyond the newest checkpoint, or foreign.
    Note,
    /// Bytes that nothing reads and that should be zero.
    Unused,
    /// Damaged, and a second copy has it all: nothing is lost.
    Repairable,
    /// Damaged, and there is no second copy here.
    Damage,
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Where and what.
    pub damage: Damage,
}

/// What verify read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Records, chunks, frames and copies found intact.
    pub records: u64,
    /// Everything found, by file and offset.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing worse than notes was found.
    pub fn clean(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Severity::Note)
    }

    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Reads and checks everything. Needs an identity ([`OpenError::Missing`] without any copy);
/// everything else that is wrong is a finding, except when the operating system refuses a read.
/// The caller holds the lock.
pub fn verify(disk: &dyn Disk) -> Result<Report, OpenError> {
    Ok(walk(disk, false)?.report)
}

/// Both results of one pass over the directory.
pub(crate) struct Walk {
    pub(crate) report: Report,
    pub(crate) listing: Option<Vec<FileListing>>,
}

/// What the walkers need to know of the space.
struct Context<'a> {
    disk: &'a dyn Disk,
    /// `None` when the identity itself is damaged.
    space: Option<[u8; 16]>,
    manifest: Option<CheckpointManifest>,
}

pub(crate) fn walk(disk: &dyn Disk, list: bool) -> Result<Walk, OpenError> {
    let mut walk = Walk { report: Report::default(), listing: list.then(Vec::new) };
    let space = walk.identity(disk)?;
    walk.vote(disk)?;
    let manifest = walk.manifests(disk)?;
    walk.root(disk)?;
    let context = Context { disk, space, manifest };
    walk.journal(&context)?;
    walk.chunks(&context)?;
    walk.history(&context)?;
    walk.report
        .findings
        .sort_by(|a, b| (&a.damage.file, a.damage.offset).cmp(&(&b.damage.file, b.damage.offset)));
    Ok(walk)
}

impl Walk {
    fn found(&mut self, severity: Severity, damage: Damage) {
        let text = || format!("{}: {}", damage.structure, damage.what);
        self.item(&damage.file, damage.offset, damage.length, damage.structure, text);
        self.report.findings.push(Finding { severity, damage });
    }

    fn file(&mut self, file: &str, bytes: u64) {
        self.report.files += 1;
        self.report.bytes += bytes;
        if let Some(listing) = &mut self.listing {
            listing.push(FileListing { file: file.to_owned(), bytes, items: Vec::new() });
        }
    }

    fn intact(
        &mut self,
        file: &str,
        offset: u64,
        length: u64,
        structure: Structure,
        text: impl FnOnce() -> String,
    ) {
        self.report.records += 1;
        self.item(file, offset, length, structure, text);
    }

    fn item(
        &mut self,
        file: &str,
        offset: u64,
        length: u64,
        structure: Structure,
        text: impl FnOnce() -> String,
    ) {
        let Some(listing) = &mut self.listing else { return };
        let Some(listing) = listing.iter_mut().rfind(|listing| listing.file == file) else {
            return;
        };
        listing.items.push(Item { offset, length, structure, text: text() });
    }

    /// Bytes that must be zero, at `offset` of the file.
    fn unused(&mut self, severity: Severity, file: &str, offset: u64, bytes: &[u8]) {
        if let Some((start, end)) = nonzero_extent(bytes) {
            let what = "unused bytes are not zero";
            let (offset, length) = (offset + start as u64, (end - start) as u64);
            self.found(severity, Damage::new(file, offset, length, Structure::Unused, what));
        }
    }

    /// The area at the start of a segment or pack; its superblock, if there is one. `worst` is
    /// `Note` for a file that is not needed.
    fn superblock(
        &mut self,
        kind: superblock::Kind,
        (file, bytes): (&str, &[u8]),
        space: Option<[u8; 16]>,
        worst: Severity,
    ) -> Option<superblock::Superblock> {
        let area = &bytes[..bytes.len().min(superblock::AREA)];
        let read = superblock::read_area(kind, area);
        let size = superblock::SIZE as u64;
        let usable = read.superblock.is_ok();
        for at in superblock::COPIES {
            let bad = read.bad.iter().find(|(bad, _)| *bad == at);
            match (bad, &read.superblock) {
                (None, Ok(superblock)) => {
                    let number = superblock.number;
                    self.intact(file, at as u64, size, Structure::Superblock, || {
                        format!("superblock of number {number}")
                    });
                }
                (None, Err(fault)) => {
                    let damage =
                        Damage::new(file, at as u64, size, Structure::Superblock, fault.what());
                    self.found(worst, damage);
                }
                (Some((_, fault)), _) => {
                    let damage =
                        Damage::new(file, at as u64, size, Structure::Superblock, fault.what());
                    let severity = if usable { Severity::Repairable } else { Severity::Damage };
                    self.found(severity.min(worst), damage);
                }
            }
        }
        for (start, end) in [
            (superblock::SIZE, superblock::COPIES[1]),
            (superblock::COPIES[1] + superblock::SIZE, superblock::AREA),
        ] {
            if let Some(gap) = area.get(start..end) {
                self.unused(worst.min(Severity::Unused), file, start as u64, gap);
            }
        }
        let superblock = read.superblock.ok()?;
        if space.is_some_and(|space| space != superblock.space) {
            let what = "belongs to another space";
            let damage = Damage::new(file, 0, bytes.len() as u64, Structure::Superblock, what);
            self.found(worst, damage);
            return None;
        }
        Some(superblock)
    }

    fn copy(&mut self, copy: &Copy, structure: Structure, other: Severity, text: &str) {
        if !copy.missing() {
            self.file(&copy.file, copy.bytes);
        }
        match copy.damage(structure) {
            Some(damage) => self.found(other, damage),
            None => self.intact(&copy.file, 0, copy.bytes, structure, || text.to_owned()),
        }
    }

    fn both(&mut self, found: &[Copy; 2], structure: Structure, usable: bool, text: &str) {
        let severity = if usable { Severity::Repairable } else { Severity::Damage };
        for copy in found {
            self.copy(copy, structure, severity, text);
        }
    }

    fn identity(&mut self, disk: &dyn Disk) -> Result<Option<[u8; 16]>, OpenError> {
        match identity::read(disk) {
            Ok((identity, found)) => {
                let text = format!("space `{}` on node {}", identity.name, identity.node);
                self.both(&found, Structure::Identity, true, &text);
                Ok(Some(identity.space))
            }
            Err(OpenError::Damaged(_) | OpenError::Version { .. }) => {
                let found = copies::read(disk, identity::NAME, envelope::IDENTITY)?;
                self.unusable(&found, Structure::Identity);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Both copies, when neither can be used.
    fn unusable(&mut self, found: &[Copy; 2], structure: Structure) {
        for copy in found {
            if !copy.missing() {
                self.file(&copy.file, copy.bytes);
            }
            let damage = copy.damage(structure).unwrap_or_else(|| {
                Damage::new(&*copy.file, 0, copy.bytes, structure, "fields or copies do not fit")
            });
            self.found(Severity::Damage, damage);
        }
    }

    fn vote(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        match vote::read(disk) {
            Ok((sequence, vote, _, found)) => {
                let text = format!("term {} voted for {}", vote.term, vote.voted_for);
                self.both(&found, Structure::Vote, true, &text);
                for copy in &found {
                    let decoded =
                        copy.content.as_ref().ok().and_then(|content| vote::decode(content));
                    if decoded.is_some_and(|(_, older, _)| older != sequence) {
                        let what = "one vote behind the other copy";
                        let (file, size) = (&*copy.file, copy.bytes);
                        let damage = Damage::new(file, 0, size, Structure::Vote, what);
                        self.found(Severity::Note, damage);
                    }
                }
                Ok(())
            }
            Err(OpenError::Damaged(_) | OpenError::Version { .. }) => {
                let found = copies::read(disk, vote::NAME, envelope::VOTE)?;
                self.unusable(&found, Structure::Vote);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn manifests(&mut self, disk: &dyn Disk) -> Result<Option<CheckpointManifest>, OpenError> {
        let numbers = checkpoint::numbers(disk)?;
        let newest = numbers.last().copied();
        let mut manifest = None;
        for number in numbers {
            match checkpoint::read(disk, number) {
                Ok((read, found)) => {
                    let text = format!("checkpoint {number} at index {}", read.index.0);
                    if Some(number) == newest {
                        self.both(&found, Structure::Manifest, true, &text);
                        manifest = Some(read);
                    } else {
                        for copy in &found {
                            self.copy(copy, Structure::Manifest, Severity::Note, &text);
                        }
                    }
                }
                Err(OpenError::Damaged(_) | OpenError::Version { .. }) => {
                    let found = copies::read(disk, &checkpoint::stem(number), envelope::MANIFEST)?;
                    self.unusable(&found, Structure::Manifest);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(manifest)
    }

    /// Whatever else lies in the space directory.
    fn root(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        for name in disk.list("").map_err(|error| OpenError::io("", error))? {
            let copy = [identity::NAME, vote::NAME].iter().any(|stem| {
                name.strip_prefix(stem).is_some_and(|ending| ending == ".a" || ending == ".b")
            });
            if copy || checkpoint::parse_name(&name).is_some() {
                continue;
            }
            let (_, bytes) = read_file(disk, &name)?;
            self.file(&name, bytes.len() as u64);
            if name == LOCK_FILE {
                if !bytes.is_empty() {
                    let what = "the lock file holds bytes";
                    let damage = Damage::new(name, 0, bytes.len() as u64, Structure::Lock, what);
                    self.found(Severity::Unused, damage);
                }
            } else {
                self.stray(&name, bytes.len() as u64);
            }
        }
        Ok(())
    }

    /// A file that the format does not know, or that an interrupted write left.
    fn stray(&mut self, file: &str, bytes: u64) {
        let what = if file.strip_suffix(".tmp").is_some() {
            "left by an interrupted write"
        } else {
            "not a file of this format"
        };
        self.found(Severity::Note, Damage::new(file, 0, bytes, Structure::Unknown, what));
    }
}

fn read_file(disk: &dyn Disk, name: &str) -> Result<(Arc<dyn DiskFile>, Vec<u8>), OpenError> {
    let read = || -> io::Result<_> {
        let file = disk.open(name, Open::Read)?;
        file.drop_cache()?;
        let bytes = disk::read_all(&*file)?;
        Ok((file, bytes))
    };
    read().map_err(|error| OpenError::io(name, error))
}
