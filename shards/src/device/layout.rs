//! How a plan's budgets become areas: one of each kind a shard, whole segments, nothing above a budget. The head, one
//! segment, comes out of the data budget. Pure; nothing here knows a path.

use nilas_base::MIB;

use super::{DevicePlan, DeviceProblem};
use crate::disk::{AREAS_MAX, AreaKind, DeviceId, HEAD_BYTES, SEGMENT_BYTES_MIN, Superblock};

/// In the order in which a shard's areas lie.
const KINDS: [AreaKind; 3] = [AreaKind::Mappings, AreaKind::Metadata, AreaKind::Data];
/// Shards that a device's table has room for.
pub const SHARDS_MAX: u16 = (AREAS_MAX / KINDS.len()) as u16;
/// Segments are no longer than this: one is read through at start when it was not sealed, and reclaimed as a whole.
const SEGMENT_BYTES_MAX: u64 = 64 * MIB;
/// Blocks that a segment is as long as, at least: it holds some records of a quarter of a block, and wastes little at
/// its end.
const BLOCKS_PER_SEGMENT_MIN: u64 = 2;
/// The longest block.
const BLOCK_BYTES_MAX: u64 = 8 * MIB;

/// Segments of an area: what it is given by choosing segments short enough, and without which it is of no use.
struct Segments {
    wanted: u64,
    least: u64,
}

/// Reclaim frees whole segments: of sixteen, one that is being filled and one that is being emptied are little.
/// A log of mappings needs its ledger, what is live, and room to write that anew.
fn segments(kind: AreaKind) -> Segments {
    match kind {
        AreaKind::Data | AreaKind::Metadata => Segments { wanted: 16, least: 8 },
        AreaKind::Mappings => Segments { wanted: 4, least: 4 },
    }
}

/// The least budget that areas of a kind can be cut from, for so many shards and blocks of such a length.
///
/// # Panics
/// Where a block is longer than 8 MiB.
pub fn area_budget_min(kind: AreaKind, shards: u16, block_bytes: u64) -> u64 {
    let segment = segment_bytes_min(block_bytes);
    head_bytes(kind, segment) + u64::from(shards) * segments(kind).least * segment
}

impl DevicePlan {
    /// The device's layout, for a device of this id: the longest segments that leave every area as many as it wants, or
    /// else the shortest.
    ///
    /// # Errors
    /// A budget is too small for the shards, or they are too many.
    pub(super) fn lay_out(&self, device: DeviceId) -> Result<Superblock, DeviceProblem> {
        self.check()?;
        let shortest = segment_bytes_min(self.block_bytes);
        let mut segment = SEGMENT_BYTES_MAX;
        while segment > shortest && !self.is_roomy(segment) {
            segment /= 2;
        }
        let area = |shard, kind| (kind, shard, self.segments_per_shard(kind, segment) * segment);
        let areas: Vec<_> =
            (0..self.shards).flat_map(|shard| KINDS.map(|kind| area(shard, kind))).collect();
        let segment_bytes = u32::try_from(segment).expect("it is at most 64 MiB");
        let block_bytes = u32::try_from(self.block_bytes).expect("it is at most 8 MiB");
        Ok(Superblock::lay_out(device, segment_bytes, block_bytes, &areas))
    }

    fn check(&self) -> Result<(), DeviceProblem> {
        assert!(self.shards > 0, "a node has a shard");
        let shards = self.shards;
        if shards > SHARDS_MAX {
            return Err(DeviceProblem::TooManyShards { shards, shards_max: SHARDS_MAX });
        }
        for kind in KINDS {
            let bytes = self.budget_bytes(kind);
            let bytes_min = area_budget_min(kind, shards, self.block_bytes);
            if bytes < bytes_min {
                return Err(DeviceProblem::BudgetTooSmall { kind, shards, bytes, bytes_min });
            }
        }
        Ok(())
    }

    fn is_roomy(&self, segment_bytes: u64) -> bool {
        let has_enough =
            |kind| self.segments_per_shard(kind, segment_bytes) >= segments(kind).wanted;
        KINDS.into_iter().all(has_enough)
    }

    fn segments_per_shard(&self, kind: AreaKind, segment_bytes: u64) -> u64 {
        let bytes = self.budget_bytes(kind).saturating_sub(head_bytes(kind, segment_bytes));
        bytes / u64::from(self.shards) / segment_bytes
    }

    fn budget_bytes(&self, kind: AreaKind) -> u64 {
        match kind {
            AreaKind::Data => self.data_bytes,
            AreaKind::Metadata => self.metadata_bytes,
            AreaKind::Mappings => self.mapping_bytes,
        }
    }
}

/// What the head takes of a budget.
fn head_bytes(kind: AreaKind, segment_bytes: u64) -> u64 {
    match kind {
        AreaKind::Data => HEAD_BYTES.next_multiple_of(segment_bytes),
        AreaKind::Metadata | AreaKind::Mappings => 0,
    }
}

fn segment_bytes_min(block_bytes: u64) -> u64 {
    assert!(block_bytes <= BLOCK_BYTES_MAX, "a block of {block_bytes} bytes");
    let segment_bytes = (BLOCKS_PER_SEGMENT_MIN * block_bytes).next_power_of_two();
    segment_bytes.max(u64::from(SEGMENT_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use nilas_base::GIB;

    const ID: DeviceId = DeviceId([3; 16]);

    fn plan(shards: u16, data_bytes: u64, metadata_bytes: u64, mapping_bytes: u64) -> DevicePlan {
        let block_bytes = 2 * MIB;
        let path = "/nowhere".into();
        DevicePlan { path, shards, data_bytes, metadata_bytes, mapping_bytes, block_bytes }
    }

    fn segment_mib(plan: &DevicePlan) -> u64 {
        let superblock = plan.lay_out(ID).expect("the budgets are large enough");
        u64::from(superblock.segment_bytes) / MIB
    }

    #[test]
    fn segments_are_as_long_as_leaves_each_area_enough_of_them() {
        let usual = |shards| plan(shards, 10 * GIB, GIB, 256 * MIB);
        assert_eq!(segment_mib(&usual(1)), 64);
        assert_eq!(segment_mib(&usual(2)), 32);
        assert_eq!(segment_mib(&usual(8)), 8);
        assert_eq!(segment_mib(&usual(16)), 4);
        assert_eq!(segment_mib(&plan(2, 1024 * GIB, 100 * GIB, 10 * GIB)), 64);
        // Sixteen segments of metadata are not to be had, so there are eight of the shortest.
        assert_eq!(segment_mib(&plan(1, 10 * GIB, 32 * MIB, 256 * MIB)), 4);
    }

    #[test]
    fn a_longer_block_makes_longer_segments() {
        let usual = plan(16, 100 * GIB, GIB, GIB);
        let of_block = |block_bytes| segment_mib(&DevicePlan { block_bytes, ..usual.clone() });
        assert_eq!([of_block(MIB), of_block(2 * MIB), of_block(4 * MIB)], [4, 4, 8]);
    }

    #[test]
    fn more_shards_than_the_table_has_room_for_are_refused() {
        let many = |shards| plan(shards, 100 * GIB, 10 * GIB, 10 * GIB).lay_out(ID);
        assert_eq!(many(SHARDS_MAX).expect("it has room").areas.len(), AREAS_MAX);
        let refusal = many(SHARDS_MAX + 1).expect_err("one too many").to_string();
        assert_eq!(refusal, "has no room in its table for 114 shards, only for 113");
    }

    #[test]
    fn a_refused_budget_is_named_with_the_least_that_works() {
        let refusal = plan(3, GIB, 95 * MIB, GIB).lay_out(ID).expect_err("96 MiB are the least");
        assert_eq!(
            refusal.to_string(),
            "has too little for 3 shards: a metadata budget of 99614720 bytes, where 100663296 (96 MiB) are the least"
        );
    }

    prop_compose! {
        fn plans()(
            shards in 1..=SHARDS_MAX,
            budgets in [20..42_u32, 20..42, 20..42],
            parts in [0.0..1.0, 0.0..1.0, 0.0..1.0],
            block in 0..4_u32,
        ) -> DevicePlan {
            // Every order of magnitude is as likely.
            let bytes = |at: usize| {
                (1 << budgets[at]) + ((1_u64 << budgets[at]) as f64 * parts[at]) as u64
            };
            let plan = plan(shards, bytes(0), bytes(1), bytes(2));
            DevicePlan { block_bytes: MIB << block, ..plan }
        }
    }

    fn bytes_of(superblock: &Superblock, kind: AreaKind) -> u64 {
        superblock.areas.iter().filter(|area| area.kind == kind).map(|area| area.length).sum()
    }

    proptest! {
        #[test]
        fn areas_fit_and_no_budget_is_exceeded(plan in plans()) {
            let Ok(superblock) = plan.lay_out(ID) else { return Ok(()) };
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock.clone()));
            let segment = u64::from(superblock.segment_bytes);
            prop_assert!((MIB..=64 * MIB).contains(&segment) && segment >= 2 * plan.block_bytes);
            prop_assert!(segment + bytes_of(&superblock, AreaKind::Data) <= plan.data_bytes);
            for kind in [AreaKind::Metadata, AreaKind::Mappings] {
                prop_assert!(bytes_of(&superblock, kind) <= plan.budget_bytes(kind));
            }
            for shard in 0..plan.shards {
                for kind in KINDS {
                    let place = superblock.place(kind, shard).expect("every shard has each");
                    prop_assert!(place.length >= segments(kind).least * segment);
                    // No more is left over than one segment could not be made of for each shard.
                    let unused = plan.budget_bytes(kind) - bytes_of(&superblock, kind);
                    prop_assert!(unused < (u64::from(plan.shards) + 1) * segment);
                }
            }
            let budgets = plan.data_bytes + plan.metadata_bytes + plan.mapping_bytes;
            prop_assert!(superblock.device_bytes <= budgets);
        }

        #[test]
        fn the_least_budget_that_is_named_works_and_less_does_not(plan in plans()) {
            let mut plan = plan;
            while let Err(refusal) = plan.lay_out(ID) {
                let DeviceProblem::BudgetTooSmall { kind, bytes_min, .. } = refusal else {
                    panic!("the shards fit: {refusal}");
                };
                let with = |bytes| match kind {
                    AreaKind::Data => DevicePlan { data_bytes: bytes, ..plan.clone() },
                    AreaKind::Metadata => DevicePlan { metadata_bytes: bytes, ..plan.clone() },
                    AreaKind::Mappings => DevicePlan { mapping_bytes: bytes, ..plan.clone() },
                };
                prop_assert!(with(bytes_min - 1).lay_out(ID).is_err());
                plan = with(bytes_min);
                let next = plan.lay_out(ID).err();
                let is_another = !matches!(
                    next, Some(DeviceProblem::BudgetTooSmall { kind: again, .. }) if again == kind
                );
                prop_assert!(is_another, "{kind:?} again");
            }
        }
    }
}
