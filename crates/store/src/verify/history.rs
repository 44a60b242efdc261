//! Verifying the history: frames, their order, the hash chain.

use std::collections::BTreeMap;

use super::{Context, Severity, Walk, read_file};
use crate::chain;
use crate::format::frame::{self, Header};
use crate::format::superblock::{self, Superblock};
use crate::history::{DIR, FrameScan, HistoryMark, file_name, parse_name};
use crate::{Damage, Digest, Index, OpenError, Structure};

/// Where the walk stands: what the next frame and the next segment must say.
struct Progress {
    next: u64,
    /// `None` after damage: the chain is taken up again from the next frame.
    chain: Option<chain::Link>,
    prior: u64,
}

impl Walk {
    pub(super) fn history(&mut self, context: &Context<'_>) -> Result<(), OpenError> {
        let mark =
            context.manifest.as_ref().map_or(HistoryMark::START, |manifest| manifest.history);
        let names = context.disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mut segments = BTreeMap::new();
        for name in names {
            let path = format!("{DIR}/{name}");
            if let Some(number) = parse_name(&name) {
                drop(segments.insert(number, path));
            } else {
                let (_, bytes) = read_file(context.disk, &path)?;
                self.file(&path, bytes.len() as u64);
                self.stray(&path, bytes.len() as u64);
            }
        }
        for number in (1..=mark.segment).filter(|number| !segments.contains_key(number)) {
            let what = "the file is missing";
            let damage = Damage::new(file_name(number), 0, 0, Structure::HistorySegment, what);
            self.found(Severity::Damage, damage);
        }
        let mut progress = Progress { next: 1, chain: Some(chain::START), prior: 0 };
        for (number, path) in segments {
            self.history_segment(context, &path, number, &mark, &mut progress)?;
        }
        Ok(())
    }

    fn history_segment(
        &mut self,
        context: &Context<'_>,
        path: &str,
        number: u32,
        mark: &HistoryMark,
        progress: &mut Progress,
    ) -> Result<(), OpenError> {
        let (file, bytes) = read_file(context.disk, path)?;
        let size = bytes.len() as u64;
        self.file(path, size);
        let kind = superblock::Kind::History;
        let worst = if number <= mark.segment { Severity::Damage } else { Severity::Note };
        if let Some(superblock) = self.superblock(kind, (path, &bytes), context.space, worst) {
            self.history_superblock(path, worst, size, &superblock, progress);
        }

        let needed = match number.cmp(&mark.segment) {
            std::cmp::Ordering::Less => size,
            std::cmp::Ordering::Equal => mark.length,
            std::cmp::Ordering::Greater => 0,
        };
        if size < needed {
            let what = "the file is cut short";
            let damage = Damage::new(path, size, 0, Structure::HistorySegment, what);
            self.found(Severity::Damage, damage);
        }
        let start = superblock::AREA as u64;
        for (from, end) in [(start, needed.min(size)), (needed.max(start), size)] {
            let mut scan = FrameScan::new(file.clone(), end);
            scan.skip_to(from);
            while let Some(found) = scan.next().map_err(|error| OpenError::io(path, error))? {
                let frame = scan.bytes(&found).map_err(|error| OpenError::io(path, error))?;
                let severity =
                    if found.offset < needed { Severity::Damage } else { Severity::Note };
                self.frame(path, severity, found.offset, frame, progress);
            }
            if number == mark.segment && end == needed && from == start {
                let chain = progress.chain.is_none_or(|chain| chain == mark.chain);
                if progress.next != mark.next.0 || !chain {
                    let what = "the history does not end as the checkpoint says";
                    self.found(Severity::Damage, Damage::new(path, end, 0, Structure::Chain, what));
                }
            }
        }
        progress.prior += size;
        Ok(())
    }

    fn history_superblock(
        &mut self,
        path: &str,
        worst: Severity,
        size: u64,
        superblock: &Superblock,
        progress: &mut Progress,
    ) {
        let fits = path == file_name(superblock.number) && superblock.prior == progress.prior;
        if !fits {
            let what = "the segment does not follow the one before";
            let structure = Structure::HistorySegment;
            self.found(worst, Damage::new(path, 0, size, structure, what));
        }
        let chain = progress.chain.is_none_or(|chain| chain == superblock.chain);
        if fits && (superblock.first != progress.next || !chain) {
            let what = "the chain does not go on from the segment before";
            self.found(worst, Damage::new(path, 0, size, Structure::Chain, what));
        }
        progress.next = superblock.first;
        progress.chain = Some(superblock.chain);
    }

    fn frame(
        &mut self,
        path: &str,
        severity: Severity,
        offset: u64,
        bytes: &[u8],
        progress: &mut Progress,
    ) {
        let length = bytes.len() as u64;
        let header = match frame::decode(bytes) {
            Ok((header, _)) => header,
            Err(fault) => {
                let damage = Damage::new(path, offset, length, Structure::Frame, fault.what());
                self.found(severity, damage);
                // If only the body is damaged, order and chain go on.
                let Ok(header) = Header::decode(bytes) else {
                    progress.chain = None;
                    return;
                };
                header
            }
        };
        let expected = progress
            .chain
            .map(|chain| chain::next(chain, Digest(header.digest), Index(header.first)));
        let gap = progress.chain.is_none();
        if !gap && (header.first != progress.next || expected != Some(header.chain)) {
            let what = "the frame does not follow the one before";
            self.found(severity, Damage::new(path, offset, length, Structure::Chain, what));
        }
        progress.next = header.end();
        progress.chain = Some(header.chain);
        self.intact(path, offset, length, Structure::Frame, || {
            format!("{}: {} indexes, raft index {}", header.first, header.count, header.raft_index)
        });
        let end = frame::HEADER + header.length as usize;
        if let Some(padding) = bytes.get(end..) {
            let severity = severity.min(Severity::Unused);
            self.unused(severity, path, offset + end as u64, padding);
        }
    }
}
