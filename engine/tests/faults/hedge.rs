//! Asking twice: a read whose first byte is among the slowest is asked a second time, within the
//! budget of retries, and whichever answers first is served.

use std::time::Duration;

use nilas_engine::metrics::OriginEvent;
use nilas_shards::RingBody;

use crate::behaviour::Behaviour;
use crate::node::TestNode;
use crate::origin::FaultyOrigin;
use crate::{node_before, noise, on_both_bodies, target, timed};

on_both_bodies! {
    the_slowest_reads_are_asked_twice_within_the_budget
    nothing_is_asked_twice_where_that_is_off
}

/// How late the slow answers are.
const SLOW: Duration = Duration::from_secs(3);

fn events(node: &TestNode, event: OriginEvent) -> u64 {
    node.node().metrics().origin_events(event)
}

/// Reads many small objects of which every twentieth is slow; gives the time of the slowest.
fn slowest_read(node: &TestNode, origin: &FaultyOrigin, reads: u64) -> Duration {
    let bytes = noise(1, 1000);
    (0..reads).for_each(|number| origin.place(&format!("object-{number}"), bytes.clone()));
    origin.script(|asked| {
        let number: u64 = asked.path.rsplit('-').next().expect("a number").parse().expect("one");
        let is_slow = number > 50 && number.is_multiple_of(20) && asked.number == 0;
        Behaviour::late(if is_slow { SLOW } else { Duration::from_millis(2) })
    });
    let mut client = node.client();
    let mut slowest = Duration::ZERO;
    for number in 0..reads {
        let key = target(&format!("object-{number}"));
        let (answer, took) = timed(|| client.get(&key, &[]));
        assert!(answer.body == bytes);
        slowest = slowest.max(took);
    }
    slowest
}

fn the_slowest_reads_are_asked_twice_within_the_budget(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let node = node_before(&origin, ring, &["--origin.hedge", "true"]);
    let slowest = slowest_read(&node, &origin, 400);
    assert!(slowest < SLOW, "{slowest:?}");
    let hedges = events(&node, OriginEvent::Hedge);
    assert!(hedges >= events(&node, OriginEvent::HedgeWon));
    assert!(events(&node, OriginEvent::HedgeWon) >= 17, "the slow ones");
    assert!(hedges <= 400 / 10 + 32, "{hedges}");
}

fn nothing_is_asked_twice_where_that_is_off(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let node = node_before(&origin, ring, &["--origin.hedge", "false"]);
    let slowest = slowest_read(&node, &origin, 100);
    assert!(slowest >= SLOW);
    assert_eq!(events(&node, OriginEvent::Hedge), 0);
    assert_eq!(origin.asked().len(), 100);
}
