//! Verifying the journal: the same analysis as opening, plus every unused byte.

use std::collections::BTreeMap;

use super::{Context, Severity, Walk, read_file};
use crate::format::envelope;
use crate::format::identifier;
use crate::format::padded;
use crate::format::record::{self, Summary};
use crate::format::superblock::{self, Superblock};
use crate::journal::analysis::{Analysis, Scanned, analyse};
use crate::journal::scan::scan;
use crate::journal::segment::{DATA_START, DIR, Geometry, file_name, parse_name};
use crate::recovery::Action;
use crate::{Damage, OpenError, Ordinal, Structure};

impl Walk {
    pub(super) fn journal(&mut self, context: &Context<'_>) -> Result<(), OpenError> {
        let names = context.disk.list(DIR).map_err(|error| OpenError::io(DIR, error))?;
        let mut segments = BTreeMap::new();
        let mut expected = None;
        for name in names {
            let path = format!("{DIR}/{name}");
            let (_, bytes) = read_file(context.disk, &path)?;
            self.file(&path, bytes.len() as u64);
            if let Some(number) = parse_name(&name) {
                self.gap(&mut expected, number);
                if let Some(scanned) = self.segment(context, &path, number, &bytes) {
                    segments.insert(number, (scanned, bytes));
                }
            } else if name.strip_suffix(".aside").is_some() {
                self.aside(&path, &bytes);
            } else {
                self.stray(&path, bytes.len() as u64);
            }
        }
        if expected.is_none() {
            let what = "there is no journal segment";
            self.found(Severity::Damage, Damage::new(DIR, 0, 0, Structure::Segment, what));
        }
        let scanned: Vec<_> = segments.values().map(|(scanned, _)| scanned).collect();
        let analysis = analyse(&scanned);
        self.journal_findings(context, &analysis);
        if let Some(last) = analysis.kept.last()
            && last.summary == Summary::Seal
            && !segments.contains_key(&(last.at.segment + 1))
        {
            let what = "the journal goes on in this segment, and it is missing";
            let name = file_name(last.at.segment + 1);
            self.found(Severity::Damage, Damage::new(name, 0, 0, Structure::Segment, what));
        }
        for (number, (scanned, bytes)) in &segments {
            self.segment_contents(*number, scanned.geometry, bytes, &analysis);
        }
        Ok(())
    }

    fn gap(&mut self, expected: &mut Option<u32>, number: u32) {
        if let Some(expected) = *expected
            && expected != number
        {
            let what = "a segment between others is missing";
            let damage = Damage::new(file_name(expected), 0, 0, Structure::Segment, what);
            self.found(Severity::Damage, damage);
        }
        *expected = Some(number + 1);
    }

    fn segment(
        &mut self,
        context: &Context<'_>,
        path: &str,
        number: u32,
        bytes: &[u8],
    ) -> Option<Scanned> {
        let kind = superblock::Kind::Journal;
        let superblock: Superblock =
            self.superblock(kind, (path, bytes), context.space, Severity::Damage)?;
        let size = bytes.len() as u64;
        let geometry = Geometry::new(superblock.size);
        if let Some(geometry) =
            geometry.filter(|_| superblock.size == size && superblock.number == number)
        {
            Some(Scanned { number, geometry, scan: scan(bytes, geometry) })
        } else {
            let what = "size or number are not those of the superblock";
            self.found(Severity::Damage, Damage::new(path, 0, size, Structure::Segment, what));
            None
        }
    }

    fn journal_findings(&mut self, context: &Context<'_>, analysis: &Analysis) {
        for damage in &analysis.damaged {
            self.found(Severity::Damage, damage.clone());
        }
        for repair in &analysis.repairs {
            self.found(Severity::Repairable, repair.damage.clone());
        }
        if let Some(stop) = &analysis.stop
            && stop.row.action == Action::SetAside
        {
            self.found(Severity::Damage, stop.damage.clone());
        }
        let needed = context.manifest.as_ref().map_or(Ordinal(1), |manifest| manifest.journal_from);
        let end = analysis.kept.last().map_or(1, |kept| kept.at.ordinal.0 + 1);
        let begins_late = analysis.first.unwrap_or(1) > needed.0.max(1);
        let ends_early = end < needed.0 && analysis.damaged.is_empty();
        if begins_late || ends_early {
            let what = "records that the checkpoint needs are missing";
            self.found(Severity::Damage, Damage::new(DIR, 0, 0, Structure::Segment, what));
        }
    }

    /// Lists the records of a segment and checks padding and everything after the last one.
    fn segment_contents(
        &mut self,
        number: u32,
        geometry: Geometry,
        bytes: &[u8],
        analysis: &Analysis,
    ) {
        let path = file_name(number);
        let from = analysis.kept.partition_point(|kept| kept.at.segment < number);
        let (mut end, mut slots) = (DATA_START, 0);
        for kept in analysis.kept[from..].iter().take_while(|kept| kept.at.segment == number) {
            let (offset, length) = (kept.at.offset, kept.at.length);
            let repaired = |repair: &crate::journal::analysis::Repair| {
                repair.ordinal == kept.at.ordinal.0 && repair.damage.structure == Structure::Record
            };
            if !analysis.repairs.iter().any(repaired) {
                let ordinal = kept.at.ordinal.0;
                self.intact(&path, offset.into(), length.into(), Structure::Record, || {
                    format!("{ordinal}: {}", describe(&kept.summary))
                });
                self.padding(&path, bytes, offset as usize, length as usize);
            }
            (end, slots) = (offset + length, kept.slot + 1);
        }
        let start = geometry.identifiers_start();
        let next = start + slots * identifier::BYTES;
        let damaged = |offset: u32| {
            let covers = |damage: &Damage| {
                damage.file == path
                    && (damage.offset..damage.offset + damage.length).contains(&offset.into())
            };
            analysis.damaged.iter().any(covers)
        };
        // Beyond damage in the middle nothing can be told apart; the damage itself is named.
        if !damaged(end) {
            self.unused(Severity::Unused, &path, end.into(), &bytes[end as usize..start as usize]);
            self.unused(Severity::Unused, &path, next.into(), &bytes[next as usize..]);
        }
    }

    fn padding(&mut self, path: &str, bytes: &[u8], offset: usize, length: usize) {
        let Ok((header, ..)) = record::decode(&bytes[offset..offset + length]) else { return };
        let content = record::HEADER + header.length as usize;
        debug_assert!(padded(content as u64) == length as u64);
        let from = offset + content;
        self.unused(Severity::Unused, path, from as u64, &bytes[from..offset + length]);
    }

    fn aside(&mut self, path: &str, bytes: &[u8]) {
        let size = bytes.len() as u64;
        let (severity, what) = match envelope::decode(envelope::ASIDE, bytes) {
            Ok(_) => (Severity::Note, "bytes given up by an accepted loss"),
            Err(fault) => (Severity::Damage, fault.what()),
        };
        self.found(severity, Damage::new(path, 0, size, Structure::Aside, what));
    }
}

fn describe(summary: &Summary) -> String {
    match summary {
        Summary::Payload { id, .. } => {
            format!("payload of session {} seq {} attempt {}", id.session.0, id.seq, id.attempt)
        }
        Summary::Entry { index, term, kind } => format!("entry {index} term {term} kind {kind}"),
        Summary::Part { term, transaction, part } => {
            format!("part {part} of transaction {transaction} term {term}")
        }
        Summary::Confirm | Summary::Seal => summary.kind().name().to_owned(),
    }
}
