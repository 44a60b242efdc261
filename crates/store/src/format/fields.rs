//! Reading and writing fields without indexing.

/// Takes fields off the front of a byte slice; `None` when it is too short.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Skips `N` bytes that must be zero.
    pub(crate) fn zeros<const N: usize>(&mut self) -> Option<()> {
        (self.array::<N>()? == [0; N]).then_some(())
    }

    /// A `u32` count of items of `item` bytes each, refused if they cannot all be there.
    pub(crate) fn count(&mut self, item: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(item)? <= self.0.len()).then_some(count)
    }

    /// The end, and nothing after it.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Fills a fixed-size structure from the front.
pub(crate) struct Build<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Build<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    pub(crate) fn put(mut self, field: &[u8]) -> Self {
        let end = self.at + field.len();
        self.bytes[self.at..end].copy_from_slice(field);
        self.at = end;
        self
    }

    pub(crate) fn u8(self, value: u8) -> Self {
        self.put(&[value])
    }

    pub(crate) fn u32(self, value: u32) -> Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn zeros(mut self, count: usize) -> Self {
        self.at += count;
        self
    }

    /// Appends the CRC-32C of everything so far and ends the structure, which must be full then.
    pub(crate) fn seal(self) -> [u8; N] {
        let crc = super::crc32c(&self.bytes[..self.at]);
        let sealed = self.u32(crc);
        assert_eq!(sealed.at, N, "a structure is written whole");
        sealed.bytes
    }
}

/// A count for the disk. Counts are bounded far below `u32::MAX` by every caller.
pub(crate) fn count32(count: usize) -> u32 {
    u32::try_from(count).expect("bounded by the caller")
}
