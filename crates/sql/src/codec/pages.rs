//! Page deltas: how a follower gets a commit's pages without running SQL.

use std::fmt;
use std::sync::Arc;

use crate::map::PageMap;
use crate::page::{PAGE_SIZE, PageError, PageStore};
use crate::wire::{Malformed, Reader, put_varint};

const WHOLE: u8 = 0;
const RUNS: u8 = 1;

/// Equal bytes shorter than this between two differing ones are carried along: a run of its own
/// would cost as much.
const MERGE_GAP: usize = 4;

/// Changed pages of one commit, relative to the pages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDelta {
    /// Database size after the commit, in pages.
    pub page_count: u32,
    pages: Vec<(u32, Image)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Image {
    Whole(Arc<[u8]>),
    Runs { check: u64, runs: Vec<(usize, Vec<u8>)> },
}

/// Why page deltas could not be installed. The given map is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// A page could not be read or stored.
    Page(PageError),
    /// The delta was made against other pages than these.
    WrongBase {
        /// Page number.
        number: u32,
    },
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::Page(error) => error.fmt(f),
            InstallError::WrongBase { number } => {
                write!(f, "page delta was made against other pages; number=`{number}`")
            }
        }
    }
}

impl std::error::Error for InstallError {}

impl From<PageError> for InstallError {
    fn from(error: PageError) -> InstallError {
        InstallError::Page(error)
    }
}

impl PageDelta {
    /// Numbers of the changed pages, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.iter().map(|(number, _)| *number)
    }

    pub(super) fn between(
        store: &dyn PageStore,
        base: &PageMap,
        page_count: u32,
        pages: &[(u32, Arc<[u8]>)],
    ) -> Result<PageDelta, PageError> {
        let zeros = [0; PAGE_SIZE];
        let mut images = Vec::with_capacity(pages.len());
        for (number, page) in pages {
            let before = base.get(*number).map(|page| store.get(page)).transpose()?;
            let before = before.as_deref().unwrap_or(&zeros);
            images.push((*number, image(before, page)));
        }
        Ok(PageDelta { page_count, pages: images })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(self.page_count));
        put_varint(&mut out, self.pages.len() as u64);
        let mut next = 0;
        for (number, image) in &self.pages {
            put_varint(&mut out, u64::from(*number) - next);
            next = u64::from(*number) + 1;
            match image {
                Image::Whole(page) => {
                    out.push(WHOLE);
                    out.extend_from_slice(page);
                }
                Image::Runs { check, runs } => {
                    out.push(RUNS);
                    out.extend_from_slice(&check.to_le_bytes());
                    put_varint(&mut out, runs.len() as u64);
                    let mut end = 0;
                    for (start, bytes) in runs {
                        put_varint(&mut out, (start - end) as u64);
                        put_varint(&mut out, bytes.len() as u64);
                        out.extend_from_slice(bytes);
                        end = start + bytes.len();
                    }
                }
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<PageDelta, Malformed> {
        let mut reader = Reader::new(bytes);
        let Ok(page_count) = u32::try_from(reader.varint("page count")?) else {
            return reader.fail("page count");
        };
        let count = reader.count(2, "number of pages")?;
        let mut pages = Vec::with_capacity(count);
        let mut next = 0u64;
        for _ in 0..count {
            let number = next.checked_add(reader.varint("page number")?);
            let Some(number) = number.filter(|number| *number < u64::from(page_count)) else {
                return reader.fail("page number");
            };
            next = number + 1;
            let image = read_image(&mut reader)?;
            pages.push((u32::try_from(number).unwrap_or(u32::MAX), image));
        }
        reader.finish("trailing bytes after pages")?;
        Ok(PageDelta { page_count, pages })
    }
}

fn read_image(reader: &mut Reader<'_>) -> Result<Image, Malformed> {
    match reader.byte("kind of a page image")? {
        WHOLE => Ok(Image::Whole(reader.take(PAGE_SIZE, "page")?.into())),
        RUNS => {
            let check = u64::from_le_bytes(reader.array("check of a page")?);
            let count = reader.count(2, "number of runs")?;
            let mut runs = Vec::with_capacity(count.min(PAGE_SIZE));
            let mut end = 0usize;
            for _ in 0..count {
                let gap = reader.varint("gap of a run")?;
                let start = usize::try_from(gap).ok().and_then(|gap| end.checked_add(gap));
                let Some(start) = start.filter(|start| *start < PAGE_SIZE) else {
                    return reader.fail("gap of a run");
                };
                let bytes = reader.bytes("bytes of a run")?;
                if bytes.is_empty() || bytes.len() > PAGE_SIZE - start {
                    return reader.fail("bytes of a run");
                }
                end = start + bytes.len();
                runs.push((start, bytes.to_vec()));
            }
            Ok(Image::Runs { check, runs })
        }
        _ => reader.fail("kind of a page image"),
    }
}

/// Installs a commit's pages: the branch's pages after it. Runs no SQL. The new pages are put
/// into the store; durability is the log's.
pub fn install(
    root: &PageMap,
    store: &dyn PageStore,
    delta: &PageDelta,
) -> Result<PageMap, InstallError> {
    let mut map = root.clone();
    map.resize(delta.page_count);
    for (number, image) in &delta.pages {
        let stored = match image {
            Image::Whole(page) => store.put(page)?,
            Image::Runs { check, runs } => {
                let mut page = [0; PAGE_SIZE];
                if let Some(before) = root.get(*number) {
                    page.copy_from_slice(&store.get(before)?);
                }
                for (start, bytes) in runs {
                    page[*start..*start + bytes.len()].copy_from_slice(bytes);
                }
                if checksum(&page) != *check {
                    return Err(InstallError::WrongBase { number: *number });
                }
                store.put(&page)?
            }
        };
        map.set(*number, stored);
    }
    Ok(map)
}

fn image(before: &[u8], page: &Arc<[u8]>) -> Image {
    let runs = runs(before, page);
    let size: usize = runs.iter().map(|(_, bytes)| bytes.len() + MERGE_GAP).sum();
    if size + 16 >= PAGE_SIZE {
        Image::Whole(Arc::clone(page))
    } else {
        Image::Runs { check: checksum(page), runs }
    }
}

/// The stretches of `page` that differ from `before`, ascending, not touching.
fn runs(before: &[u8], page: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let words = before.chunks(8).zip(page.chunks(8)).enumerate();
    for (word, (old, new)) in words.filter(|(_, (old, new))| old != new) {
        for position in (0..new.len()).filter(|position| old[*position] != new[*position]) {
            let at = word * 8 + position;
            match runs.last_mut() {
                Some((_, end)) if at - *end <= MERGE_GAP => *end = at + 1,
                _ => runs.push((at, at + 1)),
            }
        }
    }
    runs.into_iter().map(|(start, end)| (start, page[start..end].to_vec())).collect()
}

/// A 64-bit check of a page: not against an adversary (records carry stronger sums), only against
/// applying a delta to the wrong page.
fn checksum(page: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for word in page.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        state = (state ^ u64::from_le_bytes(bytes)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 29;
    }
    state ^ (state >> 32)
}
