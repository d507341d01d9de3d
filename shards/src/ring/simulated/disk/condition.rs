//! How well a simulated disk works: how long its operations take, and what goes wrong with them.

/// One disk's condition, until it is set anew. An operation takes the time of the condition that it
/// began under, and meets the faults of the one that it ends under.
/// A fault comes to one in so many operations; `None` for none.
#[derive(Clone, Copy, Debug)]
pub struct DiskCondition {
    /// The longest read or write, mostly.
    pub delay_us_max: u64,
    /// The longest sync, mostly.
    pub sync_delay_us_max: u64,
    /// One in so many operations is slow.
    pub slow_one_in: u64,
    /// The longest slow operation.
    pub slow_delay_us_max: u64,
    /// Operations that take up to `stall_ms_max`.
    pub stall_one_in: Option<u64>,
    /// The longest stall.
    pub stall_ms_max: u64,
    /// Reads that fail with `EIO`.
    pub read_error_one_in: Option<u64>,
    /// Writes that fail with `EIO`; they may have written a part, or all.
    pub write_error_one_in: Option<u64>,
    /// Syncs that fail with `EIO`. What such a one was to make durable may be lost in a crash, even
    /// when a later sync succeeds.
    pub sync_error_one_in: Option<u64>,
    /// Writes that fail with `ENOSPC`.
    pub no_space_one_in: Option<u64>,
    /// Reads that give one bit wrong, once.
    pub flip_one_in: Option<u64>,
    /// Reads of bytes of which one bit has changed on the medium, for good.
    pub rot_one_in: Option<u64>,
    /// Reads some of whose pages are those of another place.
    pub misdirected_read_one_in: Option<u64>,
    /// Writes some of whose pages go to another place.
    pub misdirected_write_one_in: Option<u64>,
    /// Reads that give fewer bytes than there are: a multiple of 512, and not none.
    pub short_read_one_in: Option<u64>,
    /// Writes that take fewer bytes than they were given: a multiple of 512, and not none.
    pub short_write_one_in: Option<u64>,
    /// What offsets, lengths and memory must be a multiple of, as with `O_DIRECT`: else `EINVAL`.
    pub alignment_bytes: usize,
}

impl Default for DiskCondition {
    /// An NVMe disk in good health that takes operations of any alignment.
    fn default() -> DiskCondition {
        DiskCondition {
            delay_us_max: 200,
            sync_delay_us_max: 2_000,
            slow_one_in: 64,
            slow_delay_us_max: 20_000,
            stall_one_in: None,
            stall_ms_max: 5_000,
            read_error_one_in: None,
            write_error_one_in: None,
            sync_error_one_in: None,
            no_space_one_in: None,
            flip_one_in: None,
            rot_one_in: None,
            misdirected_read_one_in: None,
            misdirected_write_one_in: None,
            short_read_one_in: None,
            short_write_one_in: None,
            alignment_bytes: 1,
        }
    }
}
