//! From the scans of all segments to a plan: what is kept, repaired, cut, refused. Pure.

use super::scan::{Scan, Slot, identifier_of, presence};
use super::segment::{DATA_START, Geometry, file_name};
use super::{Ordinal, Position};
use crate::format::identifier::Identifier;
use crate::format::record::{Header, Kind, Summary};
use crate::recovery::{Action, Facts, Presence, Row, decide};
use crate::{Damage, Structure};

/// A segment as scanned.
pub(crate) struct Scanned {
    pub(crate) number: u32,
    pub(crate) geometry: Geometry,
    pub(crate) scan: Scan,
}

/// A record that stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) at: Position,
    pub(crate) slot: u32,
    pub(crate) summary: Summary,
}

/// Bytes to write again from the second copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) ordinal: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) damage: Damage,
}

/// The first record that does not stay.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) segment: u32,
    pub(crate) slot: u32,
    pub(crate) offset: u32,
    pub(crate) ordinal: u64,
    pub(crate) row: &'static Row,
    pub(crate) damage: Damage,
    /// Records recognised from there on.
    pub(crate) records: u64,
}

/// The plan.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) kept: Vec<Kept>,
    pub(crate) repairs: Vec<Repair>,
    pub(crate) stop: Option<Stop>,
    /// Damage of confirmed records, all of it.
    pub(crate) damaged: Vec<Damage>,
    /// The newest flush of which anything is intact; 0 if there is none.
    pub(crate) newest_flush: u64,
    /// Its first ordinal (1 if there is no flush): records below are confirmed.
    pub(crate) unconfirmed_from: u64,
    /// The first ordinal on disk, if there is any record.
    pub(crate) first: Option<u64>,
}

/// The newest flush.
#[derive(Clone, Copy, Debug)]
struct Newest {
    flush: u64,
    first: u64,
    count: Option<u32>,
}

fn newest(segments: &[&Scanned]) -> Newest {
    let mut newest = Newest { flush: 0, first: 1, count: None };
    for segment in segments {
        let Some(base) = segment.scan.base else { continue };
        for slot in &segment.scan.slots {
            let Some((flush, place, count)) = slot.flush() else { continue };
            let first = (base + u64::from(slot.number)).saturating_sub(place.into());
            if flush > newest.flush {
                newest = Newest { flush, first, count };
            } else if flush == newest.flush {
                newest.count = newest.count.or(count);
            }
        }
    }
    newest
}

/// An odd slot with where it is; everything else is kept without further thought.
struct Odd<'a> {
    segment: u32,
    geometry: Geometry,
    ordinal: u64,
    slot: &'a Slot,
}

/// Decides about every slot. Segments ascend by number; their numbers are dense (checked before).
pub(crate) fn analyse(segments: &[&Scanned]) -> Analysis {
    let newest = newest(segments);
    let mut analysis = Analysis {
        newest_flush: newest.flush,
        unconfirmed_from: newest.first,
        first: segments.iter().find_map(|segment| segment.scan.base),
        ..Analysis::default()
    };
    let mut odd = Vec::new();
    let mut missing = None;
    let mut next = None;
    for segment in segments {
        // A segment in which nothing is intact is taken to go on where the last one ended.
        let base = segment.scan.base.or(next).unwrap_or(1);
        if let Some(expected) = next
            && segment.scan.base.is_some()
            && base != expected
        {
            missing = missing.or(Some((expected, base, segment.number)));
        }
        for slot in &segment.scan.slots {
            let ordinal = base + u64::from(slot.number);
            next = Some(ordinal + 1);
            if let Ok((header, summary)) = &slot.record {
                let at = position(segment.number, slot, header);
                analysis.kept.push(Kept { at, slot: slot.number, summary: *summary });
            }
            if slot.record.is_err() || !slot.agree() {
                let (segment, geometry) = (segment.number, segment.geometry);
                odd.push(Odd { segment, geometry, ordinal, slot });
            }
        }
    }
    let gone = missing.is_some_and(|(expected, ..)| expected >= newest.first);
    let incomplete = gone || is_incomplete(&odd, newest, next.unwrap_or(1));
    for odd in &odd {
        let confirmed = odd.ordinal < newest.first;
        let row = decide(facts(odd.slot, confirmed, incomplete && !confirmed));
        analysis.carry_out(row, odd, newest);
        if analysis.stop.is_some() {
            break;
        }
    }
    if let Some((expected, base, number)) = missing {
        analysis.bridge(segments, expected, base, number, newest);
    }
    analysis.count_dropped(next.unwrap_or(1));
    analysis
}

fn position(segment: u32, slot: &Slot, header: &Header) -> Position {
    let ordinal = Ordinal(header.ordinal);
    Position { ordinal, segment, offset: slot.offset, length: slot.extent }
}

fn facts(slot: &Slot, confirmed: bool, incomplete: bool) -> Facts {
    let empty = slot.identifier.as_ref().is_ok_and(|identifier| identifier.kind.is_empty());
    Facts {
        record: presence(&slot.record),
        identifier: presence(&slot.identifier),
        agree: slot.agree(),
        empty,
        confirmed,
        incomplete,
    }
}

/// Whether some record of the newest flush has neither record nor identifier.
fn is_incomplete(odd: &[Odd<'_>], newest: Newest, next: u64) -> bool {
    let Some(count) = newest.count else { return false };
    let end = newest.first + u64::from(count);
    let both_missing = odd.iter().any(|odd| {
        (newest.first..end).contains(&odd.ordinal)
            && odd.slot.record.is_err()
            && presence(&odd.slot.identifier) == Presence::Absent
    });
    both_missing || next < end
}

impl Analysis {
    fn carry_out(&mut self, row: &'static Row, odd: &Odd<'_>, newest: Newest) {
        let Odd { segment, geometry, ordinal, slot } = odd;
        let file = file_name(*segment);
        let in_slot = geometry.slot_offset(slot.number);
        let at_record =
            Damage::new(&*file, slot.offset.into(), slot.extent.into(), Structure::Record, row.why);
        match row.action {
            Action::Keep => {}
            Action::RepairIdentifier => {
                let Ok((header, summary)) = &slot.record else { return };
                let count = newest.count.filter(|_| header.flush == newest.flush);
                let count = count.unwrap_or(0).max(header.place + 1);
                let identifier = identifier_of(header, summary, slot.offset, count);
                let size = identifier.encode().len() as u64;
                let damage =
                    Damage::new(file, in_slot.into(), size, Structure::Identifier, row.why);
                self.repairs.push(Repair {
                    segment: *segment,
                    offset: in_slot,
                    ordinal: *ordinal,
                    bytes: identifier.encode().to_vec(),
                    damage,
                });
            }
            Action::RepairRecord => {
                let Ok(identifier) = &slot.identifier else { return };
                let (header, summary) = empty_record(identifier);
                self.repairs.push(Repair {
                    segment: *segment,
                    offset: slot.offset,
                    ordinal: *ordinal,
                    bytes: header.encode().to_vec(),
                    damage: at_record,
                });
                let at = position(*segment, slot, &header);
                let place = self.kept.partition_point(|kept| kept.at.ordinal.0 < *ordinal);
                self.kept.insert(place, Kept { at, slot: slot.number, summary });
            }
            Action::Damaged => self.damaged.push(at_record),
            Action::Cut | Action::SetAside => {
                self.stop = Some(Stop {
                    segment: *segment,
                    slot: slot.number,
                    offset: slot.offset,
                    ordinal: *ordinal,
                    row,
                    damage: at_record,
                    records: 0,
                });
            }
        }
    }

    /// Ordinals that should lie between two segments and do not.
    fn bridge(
        &mut self,
        segments: &[&Scanned],
        expected: u64,
        base: u64,
        number: u32,
        newest: Newest,
    ) {
        if base < expected || expected < newest.first {
            let what = "records before this segment are missing";
            self.damaged.push(Damage::new(file_name(number), 0, 0, Structure::Segment, what));
            return;
        }
        let before = segments.iter().rfind(|segment| segment.number < number);
        let (Some(before), true) =
            (before, self.stop.as_ref().is_none_or(|stop| stop.ordinal > expected))
        else {
            return;
        };
        let row = decide(Facts {
            record: Presence::Absent,
            identifier: Presence::Absent,
            agree: false,
            empty: false,
            confirmed: false,
            incomplete: true,
        });
        let slot = before.scan.slots.last().map_or(0, |slot| slot.number + 1);
        let offset = before.scan.end;
        let damage =
            Damage::new(file_name(before.number), offset.into(), 0, Structure::Record, row.why);
        let (segment, ordinal) = (before.number, expected);
        self.stop = Some(Stop { segment, slot, offset, ordinal, row, damage, records: 0 });
    }

    fn count_dropped(&mut self, next: u64) {
        if let Some(stop) = &mut self.stop {
            stop.records = next.saturating_sub(stop.ordinal);
            let from = stop.ordinal;
            self.kept.retain(|kept| kept.at.ordinal.0 < from);
            self.repairs.retain(|repair| repair.ordinal < from);
        }
    }

    /// Where the next record goes: (segment, slot, offset) right after the last kept one.
    pub(crate) fn end(&self, first_segment: u32) -> (u32, u32, u32) {
        self.kept.last().map_or((first_segment, 0, DATA_START), |kept| {
            (kept.at.segment, kept.slot + 1, kept.at.offset + kept.at.length)
        })
    }
}

fn empty_record(identifier: &Identifier) -> (Header, Summary) {
    let Identifier { kind, flush, ordinal, place, length, crc, .. } = *identifier;
    let summary = if kind == Kind::Seal { Summary::Seal } else { Summary::Confirm };
    (Header { kind, flush, ordinal, place, length, crc }, summary)
}
