//! Bodies that break off, stand still or are of another version: the rest is asked for from where it
//! stopped, under the same version or not at all.

use nilas_engine::metrics::OriginEvent;
use nilas_shards::RingBody;

use crate::behaviour::{Behaviour, Ending};
use crate::node::TestNode;
use crate::origin::FaultyOrigin;
use crate::time::eventually;
use crate::{
    BODY_IDLE_TIMEOUT, HASTY, at_first, get_unless_cut, node_before, noise, on_both_bodies, target,
    timed,
};

on_both_bodies! {
    a_body_that_breaks_off_is_resumed_by_range_under_its_version
    field_report_16_a_body_that_stalls_after_its_head_is_resumed
    field_report_17_a_reset_in_mid_body_is_resumed_by_range_with_if_match
    a_body_that_breaks_off_again_and_again_comes_whole_while_it_goes_on
    a_body_that_never_comes_is_an_error_in_time
    a_version_that_changes_while_a_body_is_resumed_is_never_mixed
}

const LENGTH: usize = (5 << 20) + 77;

fn resumes(node: &TestNode) -> u64 {
    node.node().metrics().origin_events(OriginEvent::Resume)
}

/// Reads an object whose first answers end in this way, whole and in part; then from the cache.
fn read_through(ring: RingBody, count: u64, behaviour: &Behaviour) {
    for range in [None, Some((10, 4_000_000)), Some((LENGTH - 1000, LENGTH - 1))] {
        let origin = FaultyOrigin::start();
        let bytes = noise(1, LENGTH);
        origin.place("object", bytes.clone());
        origin.script(at_first(count, behaviour.clone()));
        let node = node_before(&origin, ring, &HASTY);
        let mut client = node.client();
        for round in ["cold", "warm"] {
            let asked = origin.asked().len();
            let (answer, expected) = match range {
                None => (client.get(&target("object"), &[]), &bytes[..]),
                Some((first, last)) => {
                    let range = format!("bytes={first}-{last}");
                    (client.get(&target("object"), &[("Range", &range)]), &bytes[first..=last])
                }
            };
            assert!(matches!(answer.status, 200 | 206), "{range:?} {}", answer.text());
            assert!(answer.body == expected, "{round} {range:?} {behaviour:?}");
            assert!(round == "cold" || origin.asked().len() == asked, "it was kept");
        }
        let first = &origin.asked()[0];
        let etag = Some("\"version-0\"".to_owned());
        let later = &origin.asked()[1..];
        assert!(first.if_match.is_none() && later.iter().all(|asked| asked.if_match == etag));
    }
}

fn a_body_that_breaks_off_is_resumed_by_range_under_its_version(ring: RingBody) {
    for after in [0, 1, 100, 65_536, 1_000_000] {
        read_through(ring, 1, &Behaviour::ends(after, Ending::Cut));
    }
}

fn field_report_16_a_body_that_stalls_after_its_head_is_resumed(ring: RingBody) {
    for after in [0, 100_000] {
        let ((), took) = timed(|| read_through(ring, 1, &Behaviour::ends(after, Ending::Stall)));
        // Three reads, and one pause in each.
        assert!(took < 3 * (BODY_IDLE_TIMEOUT + std::time::Duration::from_secs(1)), "{took:?}");
    }
}

fn field_report_17_a_reset_in_mid_body_is_resumed_by_range_with_if_match(ring: RingBody) {
    for after in [0, 300, 100_000] {
        read_through(ring, 1, &Behaviour::ends(after, Ending::Reset));
    }
}

fn a_body_that_breaks_off_again_and_again_comes_whole_while_it_goes_on(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(2, LENGTH);
    origin.place("object", bytes.clone());
    origin.script(|_| Behaviour::ends(50_000, Ending::Cut));
    let node = node_before(&origin, ring, &HASTY);
    let answer = node.client().get(&target("object"), &[]);
    assert_eq!(answer.status, 200);
    assert!(answer.body == bytes);
    assert!(resumes(&node) >= LENGTH as u64 / 50_000 - 1, "{}", resumes(&node));
    let twice = origin.body_bytes() - LENGTH as u64;
    assert_eq!(twice, 0, "nothing is asked for twice");
}

fn a_body_that_never_comes_is_an_error_in_time(ring: RingBody) {
    for ending in [Ending::Cut, Ending::Reset, Ending::Stall] {
        let origin = FaultyOrigin::start();
        let bytes = noise(3, LENGTH);
        origin.place("object", bytes.clone());
        origin.script(move |_| Behaviour::ends(0, ending));
        let node = node_before(&origin, ring, &HASTY);
        let mut client = node.client();
        let (answer, took) = timed(|| client.get(&target("object"), &[]));
        assert_eq!((answer.status, answer.code().as_str()), (503, "ServiceUnavailable"));
        assert!(answer.header("retry-after").is_some());
        assert!(took < 5 * BODY_IDLE_TIMEOUT, "{ending:?}: {took:?}");
        assert!(origin.asked().len() <= 4 * 4, "{ending:?}: {}", origin.asked().len());
        origin.behave();
        // Who joins a fill that began before may still see it fail.
        eventually("it recovers", || {
            get_unless_cut(&node, &target("object"), &[]).is_some_and(|answer| answer.body == bytes)
        });
    }
}

fn a_version_that_changes_while_a_body_is_resumed_is_never_mixed(ring: RingBody) {
    for number in 1..6 {
        let origin = FaultyOrigin::start();
        let (old, new) = (noise(4, 4 * LENGTH), noise(5, 4 * LENGTH - 4096));
        origin.place("object", old.clone());
        origin.replace_at(number, "object", new.clone());
        let node = node_before(&origin, ring, &HASTY);
        if let Some(answer) = get_unless_cut(&node, &target("object"), &[]) {
            assert!(answer.body == old || answer.body == new, "{number}: a mixture");
        }
        let answer = node.client().get(&target("object"), &[]);
        assert!(answer.status == 200 && answer.body == new, "{number}: the old one is forgotten");
    }
}
