//! Numbers and bytes one after the other, little-endian: written into a buffer of known length, and read from one.
//! A buffer that is too short is a bug of the caller, who knows the length of what it holds.

/// Writes fields from a buffer's beginning on.
pub struct FieldWriter<'a> {
    rest: &'a mut [u8],
}

impl<'a> FieldWriter<'a> {
    /// Into `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> FieldWriter<'a> {
        FieldWriter { rest: bytes }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut FieldWriter<'a> {
        let (now, later) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        self.rest = later;
        self
    }

    /// Two bytes.
    pub fn u16(&mut self, number: u16) -> &mut FieldWriter<'a> {
        self.bytes(&number.to_le_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, number: u32) -> &mut FieldWriter<'a> {
        self.bytes(&number.to_le_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, number: u64) -> &mut FieldWriter<'a> {
        self.bytes(&number.to_le_bytes())
    }
}

/// Reads fields from a buffer's beginning on.
pub struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// From `bytes`.
    pub fn new(bytes: &'a [u8]) -> FieldReader<'a> {
        FieldReader { rest: bytes }
    }

    /// So many bytes as they are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.rest.split_at(count);
        self.rest = later;
        now
    }

    /// An array of bytes.
    pub fn array<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let (now, later) =
            self.rest.split_first_chunk().expect("the caller knows how long a structure is");
        self.rest = later;
        *now
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}
