//! Reads a segment's bytes into facts about its slots. Pure; used by opening, verify and inspect.

use std::collections::BTreeMap;

use super::segment::{DATA_START, Geometry};
use crate::format::identifier::{self, Identifier};
use crate::format::record::{self, Header, Kind, Summary};
use crate::format::{ALIGN, Fault, nonzero_extent};
use crate::recovery::Presence;

/// One slot of a segment: a record, its identifier, and what is known of both.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    /// Where the record starts, and how many bytes are its (up to the next known structure).
    pub(crate) offset: u32,
    pub(crate) extent: u32,
    pub(crate) record: Result<(Header, Summary), Fault>,
    pub(crate) identifier: Result<Identifier, Fault>,
}

impl Slot {
    pub(crate) fn agree(&self) -> bool {
        let (Ok((header, summary)), Ok(identifier)) = (&self.record, &self.identifier) else {
            return false;
        };
        *identifier == identifier_of(header, summary, self.offset, identifier.count)
    }

    /// Flush, place and (from the identifier) count.
    pub(crate) fn flush(&self) -> Option<(u64, u32, Option<u32>)> {
        match (&self.record, &self.identifier) {
            (_, Ok(identifier)) => {
                Some((identifier.flush, identifier.place, Some(identifier.count)))
            }
            (Ok((header, _)), _) => Some((header.flush, header.place, None)),
            _ => None,
        }
    }
}

/// The identifier that belongs to a record.
pub(crate) fn identifier_of(
    header: &Header,
    summary: &Summary,
    offset: u32,
    count: u32,
) -> Identifier {
    Identifier {
        kind: header.kind,
        flush: header.flush,
        ordinal: header.ordinal,
        place: header.place,
        count,
        offset,
        length: header.length,
        crc: header.crc,
        who: summary.who(),
    }
}

pub(crate) fn presence<T>(found: &Result<T, Fault>) -> Presence {
    match found {
        Ok(_) => Presence::Intact,
        Err(Fault::Absent) => Presence::Absent,
        Err(_) => Presence::Bad,
    }
}

/// Everything found in one segment.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// The ordinal of slot 0, if anything intact tells.
    pub(crate) base: Option<u64>,
    pub(crate) slots: Vec<Slot>,
    /// First byte after the last slot's record.
    pub(crate) end: u32,
    /// End of the last non-zero byte in the data area (at least `DATA_START`).
    pub(crate) data_used: u32,
    /// Slots up to the last one with a non-zero byte.
    pub(crate) slots_used: u32,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    geometry: Geometry,
    identifiers: Vec<Result<Identifier, Fault>>,
    base: Option<u64>,
    data_used: u32,
}

/// Scans the bytes of a whole segment file (their number is the geometry's).
pub(crate) fn scan(bytes: &[u8], geometry: Geometry) -> Scan {
    assert_eq!(bytes.len(), geometry.bytes() as usize, "the caller checks the size");
    let start = geometry.identifiers_start() as usize;
    let area = &bytes[start..];
    let used = nonzero_extent(area).map_or(0, |(_, end)| end.div_ceil(identifier::SIZE));
    let identifiers: Vec<_> =
        area.chunks(identifier::SIZE).take(used).map(Identifier::decode).collect();
    let data_used = nonzero_extent(&bytes[DATA_START as usize..start])
        .map_or(DATA_START, |(_, end)| DATA_START + as_u32(end));
    let mut scanner = Scanner { bytes, geometry, identifiers, base: None, data_used };
    scanner.base = scanner.find_base();
    let (slots, end) = scanner.slots();
    Scan { base: scanner.base, slots, end, data_used, slots_used: as_u32(used) }
}

fn as_u32(position: usize) -> u32 {
    u32::try_from(position).expect("segments are at most 1 GiB")
}

impl Scanner<'_> {
    /// The ordinal of slot 0, by majority: one misdirected identifier must not shift everything.
    fn find_base(&self) -> Option<u64> {
        let mut votes = BTreeMap::<u64, u32>::new();
        for (slot, identifier) in self.identifiers.iter().enumerate() {
            if let Ok(identifier) = identifier
                && let Some(base) = identifier.ordinal.checked_sub(slot as u64)
            {
                *votes.entry(base).or_default() += 1;
            }
        }
        if let Ok((header, _)) = self.record(DATA_START, None) {
            *votes.entry(header.ordinal).or_default() += 1;
        }
        votes.into_iter().max_by_key(|(base, count)| (*count, *base)).map(|(base, _)| base)
    }

    fn record(&self, offset: u32, expected: Option<u64>) -> Result<(Header, Summary), Fault> {
        let end = self.geometry.identifiers_start() as usize;
        let bytes = self.bytes.get(offset as usize..end).unwrap_or_default();
        if bytes.len() < record::HEADER {
            return Err(Fault::Absent);
        }
        let (header, summary, _) = record::decode(bytes)?;
        match expected {
            Some(ordinal) if ordinal != header.ordinal => {
                Err(Fault::Bad("a record of another place"))
            }
            _ => Ok((header, summary)),
        }
    }

    /// Bytes of the record at `offset` by its own header, when only its content is bad.
    fn size_by_header(&self, offset: u32, expected: Option<u64>) -> Option<u32> {
        let end = self.geometry.identifiers_start();
        let header = Header::decode(self.bytes.get(offset as usize..end as usize)?).ok()?;
        let size = u32::try_from(header.size()).ok()?;
        (expected == Some(header.ordinal) && size <= end - offset).then_some(size)
    }

    fn identifier(&self, slot: u32, offset: u32) -> Result<Identifier, Fault> {
        let found = *self.identifiers.get(slot as usize).unwrap_or(&Err(Fault::Absent));
        let identifier = found?;
        let ordinal = self.base.map(|base| base + u64::from(slot));
        if Some(identifier.ordinal) != ordinal {
            return Err(Fault::Bad("an identifier of another place"));
        }
        let size = record::size(identifier.length.into());
        let end = u64::from(self.geometry.identifiers_start());
        if identifier.offset != offset || u64::from(offset) + size > end {
            return Err(Fault::Bad("an identifier that points elsewhere"));
        }
        Ok(identifier)
    }

    fn slots(&self) -> (Vec<Slot>, u32) {
        let mut slots = Vec::with_capacity(self.identifiers.len());
        let (mut slot, mut offset) = (0, DATA_START);
        while slot < self.geometry.slots() {
            let expected = self.base.map(|base| base + u64::from(slot));
            let record = self.record(offset, expected);
            let identifier = self.identifier(slot, offset);
            let past = slot as usize >= self.identifiers.len();
            if past && record == Err(Fault::Absent) {
                break;
            }
            let size = match (&record, &identifier) {
                (Ok((header, _)), _) => u32::try_from(header.size()).ok(),
                (Err(_), Ok(identifier)) => {
                    u32::try_from(record::size(identifier.length.into())).ok()
                }
                (Err(_), Err(_)) => self.size_by_header(offset, expected),
            };
            let (next_slot, next) = match size {
                Some(size) => (slot + 1, offset + size),
                None => self
                    .resume(slot, offset)
                    .unwrap_or((self.geometry.slots(), self.data_used.max(offset))),
            };
            // Nothing belongs to a segment after its seal.
            let sealed = match (&record, &identifier) {
                (Ok((header, _)), _) => header.kind == Kind::Seal,
                (Err(_), Ok(identifier)) => identifier.kind == Kind::Seal,
                (Err(_), Err(_)) => false,
            };
            slots.push(Slot { number: slot, offset, extent: next - offset, record, identifier });
            if sealed {
                return (slots, next);
            }
            for missing in slot + 1..next_slot.min(as_u32(self.identifiers.len())) {
                let identifier = self.identifiers[missing as usize];
                let record = Err(Fault::Bad("its place is not known"));
                let identifier = identifier.and(Err(Fault::Bad("its record is not known")));
                slots.push(Slot { number: missing, offset: next, extent: 0, record, identifier });
            }
            (slot, offset) = (next_slot, next);
        }
        (slots, offset)
    }

    /// After a slot whose length nobody knows: the next one that can be placed, if any, as
    /// (slot, offset).
    fn resume(&self, slot: u32, offset: u32) -> Option<(u32, u32)> {
        let base = self.base?;
        let by_identifier = (slot + 1..as_u32(self.identifiers.len())).find_map(|later| {
            let identifier = self.identifiers[later as usize].ok()?;
            let fits = identifier.ordinal == base + u64::from(later)
                && identifier.offset > offset
                && identifier.offset < self.geometry.identifiers_start();
            fits.then_some((later, identifier.offset))
        });
        let by_header = || {
            let step = usize::try_from(ALIGN).unwrap_or(8);
            (offset + 8..self.data_used).step_by(step).find_map(|at| {
                let (header, _) = self.record(at, None).ok()?;
                let later = u32::try_from(header.ordinal.checked_sub(base)?).ok()?;
                (later > slot && later < self.geometry.slots()).then_some((later, at))
            })
        };
        by_identifier.or_else(by_header)
    }
}
