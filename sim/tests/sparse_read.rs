//! A thousand small reads, one in each block of a large object, of a node of the usual size: the
//! origin sends a sector for each and little more, and the next pass asks it for nothing.

use nilas_base::{KIB, MIB, Rng};
use nilas_sim::key::{Key, Nature};
use nilas_sim::node::NodeShape;
use nilas_sim::stage::{FAIR, Stage, small_shape};
use nilas_sim::weather::{SmallBudget, SmallGeometry};

const BLOCKS: u64 = 1000;
const BLOCK_BYTES: u64 = 2 * MIB;
const SECTOR_BYTES: u64 = 64 * KIB;

fn shape() -> NodeShape {
    let geometry = SmallGeometry {
        block_bytes: BLOCK_BYTES,
        data_sector_bytes: SECTOR_BYTES,
        metadata_sector_bytes: 4 * KIB,
    };
    let budget =
        SmallBudget { data_bytes: 128 * MIB, metadata_bytes: 16 * MIB, mapping_bytes: 64 * KIB };
    let mutable_ttl = std::time::Duration::from_secs(3600);
    NodeShape { geometry, budget, mutable_ttl, ..small_shape() }
}

/// Origin bytes of a pass over one place in each block, in this order; the second pass's requests.
fn two_passes(order: &[u64], seed: u64) -> (u64, u64) {
    let key = Key { name: "plain/large".to_owned(), nature: Nature::Mutable };
    let stage = Stage::new(&shape(), vec![key], FAIR);
    stage.write(0, BLOCKS * BLOCK_BYTES);
    let mut rng = Rng::from_seed(seed);
    let mut places = vec![0; BLOCKS as usize];
    for (block, place) in places.iter_mut().enumerate() {
        *place = block as u64 * BLOCK_BYTES + rng.below(BLOCK_BYTES / (4 * KIB)) * 4 * KIB;
    }
    let pass = |stage: &Stage| {
        for &block in order {
            stage.play(0, stage.range(0, places[block as usize], 4 * KIB));
        }
        stage.assert_right();
    };
    pass(&stage);
    let (bytes, requests) = {
        let count = stage.origin.count.borrow();
        (count.body_bytes, count.requests)
    };
    pass(&stage);
    let again = stage.origin.count.borrow().requests - requests;
    (bytes, again)
}

fn check(order: &[u64], seed: u64) {
    let (bytes, again) = two_passes(order, seed);
    let most = BLOCKS * SECTOR_BYTES * 11 / 10;
    assert!(bytes <= most, "{bytes} bytes came, {most} at most");
    assert_eq!(again, 0, "the second pass asks the origin");
}

#[test]
fn a_thousand_small_reads_in_order_bring_a_thousand_sectors_once() {
    check(&(0..BLOCKS).collect::<Vec<_>>(), 5);
}

#[test]
fn a_thousand_small_reads_out_of_order_bring_a_thousand_sectors_once() {
    let mut rng = Rng::from_seed(11);
    let mut order: Vec<u64> = (0..BLOCKS).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    check(&order, 6);
}
