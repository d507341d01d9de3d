//! What is known of the cache device as a whole, beside what each shard counts of it. Written by the one who watches it,
//! `disk::watch`.

use super::cell::Cell;

/// Facts of the cache device that no shard knows.
#[derive(Debug, Default)]
pub struct DeviceCells {
    failing: Cell,
    files_lost: Cell,
}

impl DeviceCells {
    /// It begins to fail, or works again.
    pub fn set_failing(&self, is_failing: bool) {
        self.failing.set(u64::from(is_failing));
    }

    /// Its file was found removed or cut off.
    pub fn note_file_lost(&self) {
        self.files_lost.add(1);
    }

    /// Whether it fails.
    pub fn is_failing(&self) -> bool {
        self.failing.get() > 0
    }

    /// How often its file was found removed or cut off.
    pub fn files_lost(&self) -> u64 {
        self.files_lost.get()
    }
}
