//! Heads that are late, refuse or lie: a read is asked again where that may help, the origin's own
//! error is passed on where it does not, and what a head does not prove is never kept.

use std::time::Duration;

use nilas_engine::metrics::OriginEvent;
use nilas_shards::RingBody;

use crate::behaviour::{Behaviour, Lie};
use crate::node::TestNode;
use crate::origin::FaultyOrigin;
use crate::time::pause;
use crate::{
    FIRST_BYTE_TIMEOUT, HASTY, at_first, get_unless_cut, node_before, noise, on_both_bodies,
    target, timed,
};

on_both_bodies! {
    a_fault_that_passes_is_not_seen
    a_fault_that_stays_is_the_origins_own_error_and_nothing_is_kept
    a_silent_origin_is_an_error_in_time
    retry_after_is_waited_for_where_it_is_short_and_passed_on_where_it_is_long
    what_a_head_does_not_prove_is_never_kept
    writes_are_never_asked_twice
    field_report_49_a_connection_that_was_idle_for_long_costs_no_error
    retries_are_a_fraction_of_requests
}

const LENGTH: usize = 300_000;

fn events(node: &TestNode, event: OriginEvent) -> u64 {
    node.node().metrics().origin_events(event)
}

fn a_fault_that_passes_is_not_seen(ring: RingBody) {
    for behaviour in [
        Behaviour::late(Duration::from_millis(300)),
        Behaviour::reset(),
        Behaviour::error(500),
        Behaviour::error(502),
        Behaviour::error(503),
        Behaviour::error(504),
        Behaviour::error(429),
        Behaviour::error_for(503, "1"),
    ] {
        let origin = FaultyOrigin::start();
        let bytes = noise(1, LENGTH);
        for key in ["whole", "part", "head"] {
            origin.place(key, bytes.clone());
        }
        origin.script(at_first(1, behaviour.clone()));
        let node = node_before(&origin, ring, &[]);
        let mut client = node.client();
        let whole = client.get(&target("whole"), &[]);
        assert_eq!(whole.status, 200, "{behaviour:?} {}", whole.text());
        assert!(whole.body == bytes, "{behaviour:?}");
        let part = client.get(&target("part"), &[("Range", "bytes=70000-80000")]);
        assert!(part.status == 206 && part.body == bytes[70_000..=80_000], "{behaviour:?}");
        let head = client.request("HEAD", &target("head"), &[], b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("300000")));
        let retries = events(&node, OriginEvent::Retry);
        assert_eq!(retries > 0, behaviour.delay.is_zero(), "{behaviour:?}: {retries}");
    }
}

fn a_fault_that_stays_is_the_origins_own_error_and_nothing_is_kept(ring: RingBody) {
    for (behaviour, status) in [
        (Behaviour::reset(), 503),
        (Behaviour::error(500), 500),
        (Behaviour::error(503), 503),
        (Behaviour::error(403), 403),
        (Behaviour::error(404), 404),
    ] {
        let origin = FaultyOrigin::start();
        let bytes = noise(2, LENGTH);
        origin.place("object", bytes.clone());
        let failing = behaviour.clone();
        origin.script(move |_| failing.clone());
        let node = node_before(&origin, ring, &[]);
        let mut client = node.client();
        for method in ["GET", "HEAD"] {
            let answer = client.request(method, &target("object"), &[], b"");
            assert_eq!(answer.status, status, "{behaviour:?}");
        }
        let requests = origin.asked().len();
        assert!(requests <= 2 * 3, "{behaviour:?}: {requests}");
        origin.behave();
        assert!(client.get(&target("object"), &[]).body == bytes, "{behaviour:?}: it recovers");
    }
}

fn a_silent_origin_is_an_error_in_time(ring: RingBody) {
    let origin = FaultyOrigin::start();
    origin.place("object", noise(3, LENGTH));
    let late = Duration::from_secs(18);
    origin.script(move |_| Behaviour::late(late));
    let node = node_before(&origin, ring, &HASTY);
    let (answer, took) = timed(|| node.client().get(&target("object"), &[]));
    assert_eq!((answer.status, answer.code().as_str()), (503, "ServiceUnavailable"));
    assert!(answer.header("retry-after").is_some());
    assert!(took >= FIRST_BYTE_TIMEOUT && took < late, "{took:?}");
    assert_eq!(origin.asked().len(), 1, "to ask again would double the wait");
}

fn retry_after_is_waited_for_where_it_is_short_and_passed_on_where_it_is_long(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(4, LENGTH);
    origin.place("object", bytes.clone());
    origin.script(at_first(1, Behaviour::error_for(503, "7")));
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    let (answer, took) = timed(|| client.get(&target("object"), &[]));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("7")));
    assert_eq!(answer.code(), "SlowDown", "the origin's own");
    assert!(took < Duration::from_secs(7), "{took:?}");
    origin.script(at_first(1, Behaviour::error_for(503, "1")));
    let (answer, took) = timed(|| client.get(&target("object"), &[]));
    assert!(answer.body == bytes);
    assert!(took >= Duration::from_secs(1), "{took:?}");
}

fn what_a_head_does_not_prove_is_never_kept(ring: RingBody) {
    for lie in [
        Lie::LengthTooLong,
        Lie::LengthTooShort,
        Lie::RangeShifted,
        Lie::TotalTooLong,
        Lie::NoRange,
        Lie::NoEtag,
        Lie::Whole,
    ] {
        for range in [None, Some((100_000, 200_000))] {
            let origin = FaultyOrigin::start();
            let bytes = noise(5, LENGTH);
            origin.place("object", bytes.clone());
            origin.script(move |_| Behaviour::lies(lie));
            let node = node_before(&origin, ring, &[]);
            // What comes while it lies may be cut or an error; the relay passes on what came.
            let header = range.map(|(first, last)| format!("bytes={first}-{last}"));
            let headers: Vec<_> = header.iter().map(|range| ("Range", range.as_str())).collect();
            drop(get_unless_cut(&node, &target("object"), &headers));
            origin.behave();
            let answer = node.client().get(&target("object"), &headers);
            let expected = match range {
                None => &bytes[..],
                Some((first, last)) => &bytes[first..=last],
            };
            assert!(answer.body == expected, "{lie:?} {range:?}: {}", answer.status);
        }
    }
}

fn writes_are_never_asked_twice(ring: RingBody) {
    for behaviour in [Behaviour::reset(), Behaviour::error(500), Behaviour::error(503)] {
        let origin = FaultyOrigin::start();
        let failing = behaviour.clone();
        origin.script(move |_| failing.clone());
        let node = node_before(&origin, ring, &[]);
        let answer = node.client().request("DELETE", &target("object"), &[], b"");
        assert!(answer.status >= 500, "{behaviour:?}: {}", answer.status);
        assert_eq!(origin.asked().len(), 1, "{behaviour:?}");
    }
}

fn field_report_49_a_connection_that_was_idle_for_long_costs_no_error(ring: RingBody) {
    let origin = FaultyOrigin::start();
    let bytes = noise(6, LENGTH);
    for number in 0..4 {
        origin.place(&format!("object-{number}"), bytes.clone());
    }
    let node = node_before(&origin, ring, &[]);
    let mut client = node.client();
    assert!(client.get(&target("object-0"), &[]).body == bytes);
    // What was idle is reset, or answered 400 or 408 and closed, as soon as it is used again.
    for (number, behaviour) in
        [Behaviour::reset(), Behaviour::stale(400), Behaviour::stale(408)].iter().enumerate()
    {
        let stale = behaviour.clone();
        origin.script(
            move |asked| {
                if asked.on_connection > 0 { stale.clone() } else { Behaviour::well() }
            },
        );
        // The answer before has left its connection idle by then.
        pause(Duration::from_millis(200));
        let answer = client.get(&target(&format!("object-{}", number + 1)), &[]);
        assert!(answer.body == bytes, "{behaviour:?}: {} {}", answer.status, answer.text());
        assert_eq!(origin.asked().len(), 2, "{behaviour:?}: once more, at once");
    }
}

fn retries_are_a_fraction_of_requests(ring: RingBody) {
    let origin = FaultyOrigin::start();
    origin.place("object", noise(7, 1000));
    // Every third succeeds, so that the breaker stays closed.
    origin.script(|asked| match asked.number % 3 {
        0 => Behaviour::well(),
        _ => Behaviour::error(500),
    });
    let flags = ["--cache.mutable_ttl", "0s"];
    let node = node_before(&origin, ring, &flags);
    let mut client = node.client();
    let reads = 300;
    for _ in 0..reads {
        client.request("HEAD", &target("object"), &[], b"");
    }
    let retries = events(&node, OriginEvent::Retry);
    assert!((30..=reads / 10 + 40).contains(&retries), "{retries}");
    assert!(events(&node, OriginEvent::RetryRefused) > 0);
    assert_eq!(origin.asked().len() as u64, reads + retries);
}
