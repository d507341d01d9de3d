//! What has happened on a simulated disk, counted: so that a test can show that its faults came.

/// Counts of one disk since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskEvents {
    /// Reads that have ended, failed ones too.
    pub reads: u64,
    /// Writes that have ended, failed ones too.
    pub writes: u64,
    /// Syncs that have ended, failed ones too.
    pub syncs: u64,
    /// Reads that failed with `EIO`.
    pub read_errors: u64,
    /// Writes that failed with `EIO`.
    pub write_errors: u64,
    /// Syncs that failed with `EIO`.
    pub sync_errors: u64,
    /// Writes that failed with `ENOSPC`.
    pub no_space: u64,
    /// Bits that a read gave wrong once.
    pub flipped_bits: u64,
    /// Bits that have changed on the medium.
    pub rotten_bits: u64,
    /// Reads that gave pages of another place.
    pub misdirected_reads: u64,
    /// Writes that put pages in another place.
    pub misdirected_writes: u64,
    /// Reads that gave fewer bytes than there were.
    pub short_reads: u64,
    /// Writes that took fewer bytes than they were given.
    pub short_writes: u64,
    /// Operations that stalled.
    pub stalls: u64,
    /// Operations that failed with `EINVAL` for they were not aligned.
    pub misaligned: u64,
    /// Operations that were cancelled, and are as if they had never been.
    pub withdrawn: u64,
    /// Operations that were in flight at a crash, or when their ring ended.
    pub cut_short: u64,
    /// Crashes.
    pub crashes: u64,
    /// Writes that a crash, a failed sync or an end in flight left whole.
    pub kept_writes: u64,
    /// Writes of which those left nothing.
    pub lost_writes: u64,
    /// Writes of which those left some sectors.
    pub torn_writes: u64,
}
