//! How well a simulated network carries: delays, pieces, windows, and connections that are reset.

/// The network's condition, until it is set anew.
#[derive(Clone, Copy, Debug)]
pub struct NetworkCondition {
    /// The longest way between two sockets, mostly.
    pub delay_us_max: u64,
    /// One in so many ways is slow.
    pub slow_one_in: u64,
    /// The longest slow way.
    pub slow_delay_us_max: u64,
    /// Pieces that the bytes of one send arrive in.
    pub pieces_max: usize,
    /// Bytes sent by one end that the other has not read yet, at most; then a send waits.
    pub window_bytes: usize,
    /// One in so many pieces is lost, and its connection reset at both ends; `None` for none.
    pub reset_one_in: Option<u64>,
}

impl Default for NetworkCondition {
    fn default() -> NetworkCondition {
        NetworkCondition {
            delay_us_max: 300,
            slow_one_in: 64,
            slow_delay_us_max: 20_000,
            pieces_max: 4,
            window_bytes: 256 << 10,
            reset_one_in: None,
        }
    }
}
