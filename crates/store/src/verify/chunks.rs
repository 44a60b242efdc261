//! Verifying packs and their index files.

use std::collections::BTreeSet;

use super::{Context, Severity, Walk, read_file};
use crate::chunks::open::{Found, Scan};
use crate::chunks::pack::{DIR, file_name, parse_name};
use crate::chunks::{ChunkMark, padding};
use crate::format::chunk;
use crate::format::pack_index::PackIndex;
use crate::format::superblock;
use crate::{Damage, OpenError, Structure};

/// Contents seen so far, by hash.
#[derive(Default)]
struct Held {
    intact: BTreeSet<[u8; 32]>,
    /// With the place of the finding.
    damaged: Vec<([u8; 32], usize)>,
}

impl Walk {
    pub(super) fn chunks(&mut self, context: &Context<'_>) -> Result<(), OpenError> {
        let none = ChunkMark::default();
        let mark = context.manifest.as_ref().map_or(&none, |manifest| &manifest.chunks);
        let names = context.disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mut seen = BTreeSet::new();
        let mut held = Held::default();
        for name in &names {
            let path = format!("{DIR}/{name}");
            if let Some(number) = parse_name(name, ".pack") {
                seen.insert(number);
                let length = mark.packs.iter().find(|(marked, _)| *marked == number);
                self.pack(context, &path, number, length.map(|(_, length)| *length), &mut held)?;
            } else if parse_name(name, ".idx").is_none() {
                let (_, bytes) = read_file(context.disk, &path)?;
                self.file(&path, bytes.len() as u64);
                self.stray(&path, bytes.len() as u64);
            }
        }
        // Damaged content that was put again since is whole elsewhere.
        for (hash, finding) in held.damaged {
            let finding = &mut self.report.findings[finding];
            if held.intact.contains(&hash) {
                finding.severity = finding.severity.min(Severity::Repairable);
            }
        }
        for name in names {
            if let Some(number) = parse_name(&name, ".idx") {
                let newest = mark.packs.last().map(|(number, _)| *number);
                let marked = mark.packs.iter().find(|(marked, _)| *marked == number);
                let sealed = marked.filter(|_| Some(number) != newest);
                self.pack_index(context, &name, number, sealed.map(|(_, length)| *length))?;
            }
        }
        for (number, _) in mark.packs.iter().filter(|(number, _)| !seen.contains(number)) {
            let damage =
                Damage::new(file_name(*number), 0, 0, Structure::Pack, "the file is missing");
            self.found(Severity::Damage, damage);
        }
        Ok(())
    }

    /// `marked`: the length that the checkpoint needs; what lies beyond will be cut.
    fn pack(
        &mut self,
        context: &Context<'_>,
        path: &str,
        number: u32,
        marked: Option<u64>,
        held: &mut Held,
    ) -> Result<(), OpenError> {
        let (file, bytes) = read_file(context.disk, path)?;
        let size = bytes.len() as u64;
        self.file(path, size);
        let worst = if marked.is_some() { Severity::Damage } else { Severity::Note };
        let kind = superblock::Kind::Pack;
        let superblock = self.superblock(kind, (path, &bytes), context.space, worst);
        if superblock.is_some_and(|superblock| superblock.number != number) {
            let what = "the pack of another number";
            self.found(worst, Damage::new(path, 0, size, Structure::Pack, what));
        }
        let needed = marked.unwrap_or(0);
        if size < needed {
            let what = "the file is cut short";
            self.found(Severity::Damage, Damage::new(path, size, 0, Structure::Pack, what));
        }
        let failed = |error| OpenError::io(path, error);
        // Two walks: a chunk torn by a crash must not swallow the end of what the mark covers.
        for (start, end) in [(0, needed.min(size)), (needed.max(superblock::AREA as u64), size)] {
            let mut scan = Scan::new(file.clone(), end);
            scan.skip_to(start);
            while let Some(found) = scan.next().map_err(failed)? {
                let whole = scan.bytes(&found).map_err(failed)?;
                let intact = found.chunk.as_ref().is_ok_and(|entry| {
                    let end = chunk::HEADER + entry.length as usize;
                    let bytes = whole.get(chunk::HEADER..end);
                    bytes.is_some_and(|bytes| chunk::hash(bytes) == entry.hash)
                });
                let needed = found.offset < needed;
                if intact {
                    let severity = if needed { Severity::Unused } else { Severity::Note };
                    let (offset, gap) = padding(&bytes, &found);
                    self.unused(severity, path, offset, gap);
                    let (offset, length) = (found.offset, found.size);
                    self.intact(path, offset, length, Structure::Chunk, || {
                        format!("chunk of {length} bytes")
                    });
                    held.intact.extend(found.chunk.ok().map(|entry| entry.hash));
                } else {
                    let saved =
                        found.chunk.is_err() && scan.salvage(&found).map_err(failed)?.is_some();
                    let severity = match (needed, saved) {
                        (false, _) => Severity::Note,
                        (true, true) => Severity::Repairable,
                        (true, false) => Severity::Damage,
                    };
                    self.bad_chunk(path, severity, &found, held);
                }
            }
        }
        Ok(())
    }

    fn bad_chunk(&mut self, path: &str, severity: Severity, found: &Found, held: &mut Held) {
        let what = match &found.chunk {
            Ok(entry) => {
                held.damaged.push((entry.hash, self.report.findings.len()));
                "content does not match its hash"
            }
            Err(fault) => fault.what(),
        };
        let damage = Damage::new(path, found.offset, found.size, Structure::Chunk, what);
        self.found(severity, damage);
    }

    fn pack_index(
        &mut self,
        context: &Context<'_>,
        name: &str,
        number: u32,
        sealed: Option<u64>,
    ) -> Result<(), OpenError> {
        let path = format!("{DIR}/{name}");
        let (_, bytes) = read_file(context.disk, &path)?;
        let size = bytes.len() as u64;
        self.file(&path, size);
        let what = match PackIndex::decode(&bytes) {
            Err(fault) => Some(fault.what()),
            Ok(index) if index.pack != number => Some("the index of another pack"),
            Ok(index) => match sealed {
                Some(length) if index.bytes != length => Some("the index of another length"),
                Some(_) if !index_fits(context, &index) => {
                    Some("the pack does not hold what the index says")
                }
                _ => None,
            },
        };
        let severity = if sealed.is_some() { Severity::Repairable } else { Severity::Note };
        match what {
            Some(what) => {
                self.found(severity, Damage::new(path, 0, size, Structure::PackIndex, what));
            }
            None => self
                .intact(&path, 0, size, Structure::PackIndex, || format!("index of pack {number}")),
        }
        Ok(())
    }
}

/// Whether every intact chunk that the index names is where it says.
fn index_fits(context: &Context<'_>, index: &PackIndex) -> bool {
    let Ok((_, bytes)) = read_file(context.disk, &file_name(index.pack)) else { return true };
    index.entries.iter().all(|entry| {
        let header = bytes.get(entry.offset as usize..).map(chunk::Header::decode);
        // A damaged header is a finding of the pack, not of its index.
        let fits =
            |header: chunk::Header| header.hash == entry.hash && header.length == entry.length;
        header.is_some_and(|header| header.map_or(true, fits))
    })
}
