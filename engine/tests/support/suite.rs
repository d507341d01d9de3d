//! What every suite begins with: its tests stamped on both real ring bodies, and bytes to read back.

/// Stamps tests on every real ring body.
macro_rules! on_both_bodies {
    ($($name:ident)*) => {
        mod io_uring {
            $(#[test] fn $name() { super::$name(nilas_shards::RingBody::IoUring); })*
        }
        mod epoll {
            $(#[test] fn $name() { super::$name(nilas_shards::RingBody::Epoll); })*
        }
    };
}
pub(crate) use on_both_bodies;

/// Bytes that no other seed gives.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = nilas_base::Rng::from_seed(seed);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    let mut bytes: Vec<u8> = words.take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}
