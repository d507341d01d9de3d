//! The memory that the cache device's tables take: of the class's own budget, so that the sum of all budgets stays
//! what it is. The index has what the area can need at worst, or what the budget can spare; where that is too little,
//! less is kept on the device, and nothing grows.

/// Memory of the index for one record, at most, 96: one block with one record, or one record more of a block. What a
/// policy remembers is an eighth of all.
const INDEX_BYTES_PER_RECORD: u64 = 110;
/// What a record takes beside its data: a page.
const RECORD_OVERHEAD_BYTES: u64 = 4 << 10;
/// The index has one part in so many of the class's budget at most, and headers of records this.
const INDEX_DIVISOR: u64 = 4;
const HEADER_DIVISOR: u64 = 32;
/// Buffers for what is written have one part in so many of the class's budget, within these. A shard with much to send
/// looks after them once in some milliseconds: with 2 MiB half of what an origin brings as fast finds no buffer in time,
/// with 8 MiB next to nothing.
const BUFFER_DIVISOR: u64 = 16;
const BUFFER_BYTES_MIN: u64 = 2 << 20;
const BUFFER_BYTES_MAX: u64 = 8 << 20;
/// What an index and headers have at least, however small the budget is.
const TABLE_BYTES_MIN: u64 = 64 << 10;

/// Memory for the tables of one area, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskBudget {
    /// For the index.
    pub index_bytes: u64,
    /// For headers of records.
    pub header_bytes: u64,
    /// For buffers of what is written.
    pub buffer_bytes: u64,
}

/// A class's share of the memory: its store's, and its area's tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBudget {
    /// For the store.
    pub store_bytes: u64,
    /// For the area on the device; nothing where there is none.
    pub disk: DiskBudget,
}

impl DiskBudget {
    /// All together.
    pub fn total_bytes(&self) -> u64 {
        self.index_bytes + self.header_bytes + self.buffer_bytes
    }
}

impl StoreBudget {
    /// A class's budget of so many bytes, whose area has `area_bytes` (none without a device) in sectors of
    /// `sector_bytes`.
    pub fn new(budget_bytes: u64, area_bytes: Option<u64>, sector_bytes: u64) -> StoreBudget {
        let Some(area_bytes) = area_bytes else {
            return StoreBudget { store_bytes: budget_bytes, disk: DiskBudget::default() };
        };
        let records = area_bytes / (sector_bytes + RECORD_OVERHEAD_BYTES);
        let needed = (records * INDEX_BYTES_PER_RECORD).max(TABLE_BYTES_MIN);
        let disk = DiskBudget {
            index_bytes: needed.min(budget_bytes / INDEX_DIVISOR),
            header_bytes: (budget_bytes / HEADER_DIVISOR).max(TABLE_BYTES_MIN),
            buffer_bytes: (budget_bytes / BUFFER_DIVISOR).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX),
        };
        StoreBudget { store_bytes: budget_bytes.saturating_sub(disk.total_bytes()), disk }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn without_a_device_the_store_has_all() {
        let budget = StoreBudget::new(100 * MIB, None, 64 << 10);
        assert_eq!(budget.store_bytes, 100 * MIB);
        assert_eq!(budget.disk.total_bytes(), 0);
    }

    #[test]
    fn a_terabyte_of_data_is_indexed_in_less_than_two_gigabytes() {
        let budget = StoreBudget::new(8 << 30, Some(1 << 40), 64 << 10);
        assert!(budget.disk.index_bytes < 2_000_000_000, "{budget:?}");
        assert!(budget.store_bytes > 6 << 30, "{budget:?}");
    }

    proptest! {
        #[test]
        fn store_and_tables_never_have_more_than_the_budget(
            budget_mib in 8_u64..100_000,
            area_mib in 8_u64..10_000_000,
            is_metadata: bool,
        ) {
            let sector_bytes = if is_metadata { 4 << 10 } else { 64 << 10 };
            let budget = StoreBudget::new(budget_mib * MIB, Some(area_mib * MIB), sector_bytes);
            prop_assert!(budget.store_bytes + budget.disk.total_bytes() <= budget_mib * MIB);
            prop_assert!(budget.store_bytes >= budget_mib * MIB / 3);
        }
    }
}
