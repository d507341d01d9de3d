//! Where wire text is written: a growing vector, a fixed send buffer, or a mere count.
//! Writers here never allocate by themselves; what a sink does when it is full is its own affair.

/// Takes bytes in order.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }
}

/// Counts what would have been written: a body's length before its head goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted(pub u64);

impl Sink for Counted {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

/// Writes `number` in decimal.
pub(crate) fn put_decimal<S: Sink + ?Sized>(sink: &mut S, number: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    sink.put(&digits[start..]);
}

/// Writes `number` in lower-case hexadecimal without leading zeros.
pub(crate) fn put_hex<S: Sink + ?Sized>(sink: &mut S, number: u64) {
    let mut digits = [0u8; 16];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    sink.put(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 7, 10, 15, 16, 4096, u64::MAX] {
            let mut decimal = Vec::new();
            put_decimal(&mut decimal, number);
            assert_eq!(decimal, number.to_string().into_bytes());
            let mut hex = Vec::new();
            put_hex(&mut hex, number);
            assert_eq!(hex, format!("{number:x}").into_bytes());
        }
    }
}
