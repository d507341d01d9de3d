//! The store of an area against what was put into it: on every ring body, through restarts and damage, whatever it
//! gives is right, and its ceilings hold.

#[path = "area/model.rs"]
mod model;
#[expect(dead_code, reason = "the stage of the reactor's suite has more than is needed here")]
#[path = "reactor/stage.rs"]
mod stage;

use model::{Life, Medium, Story};
use stage::Stage;

/// Stamps each story on the bodies named.
macro_rules! on_bodies {
    ([$($body:ident),*] $claims:tt) => {
        $(on_bodies!(@one $body $claims);)*
    };
    (@one $body:ident { $($claim:ident),* $(,)? }) => {
        mod $body {
            $(
                #[test]
                fn $claim() {
                    super::$claim(super::Stage::$body);
                }
            )*
        }
    };
}

on_bodies!([io_uring, epoll] {
    what_was_kept_is_read_back_also_after_a_restart,
    what_is_damaged_is_a_miss,
    old_blocks_make_room_and_those_that_are_read_stay,
    whatever_happens_no_byte_is_wrong,
});

type Body = fn() -> Stage;

fn what_was_kept_is_read_back_also_after_a_restart(body: Body) {
    let medium = Medium::new(16);
    for close in [true, false] {
        let mut life = Life::begin(body(), &medium);
        assert_eq!(life.keep_all(0..20), 20);
        assert_eq!(life.hits(0..20), 20);
        if close {
            life.close();
        } else {
            life.flush();
        }
        life.end();
        let mut life = Life::begin(body(), &medium);
        assert_eq!(life.recovered.records, 20);
        assert_eq!(life.recovered.unsealed, u32::from(!close));
        assert_eq!(life.hits(0..20), 20, "after a restart");
        assert_eq!(life.hits(20..40), 0);
        life.end();
        medium.wipe();
    }
}

fn what_is_damaged_is_a_miss(body: Body) {
    let medium = Medium::new(16);
    let mut life = Life::begin(body(), &medium);
    life.keep_all(0..20);
    life.close();
    medium.spoil_everything();
    assert_eq!(life.hits(0..20), 0);
    assert_eq!(life.usage().counts.damaged, 20);
    assert_eq!(life.usage().blocks, 0, "what is damaged is forgotten");
    assert_eq!(life.keep_all(0..20), 20, "and kept anew");
    assert_eq!(life.hits(0..20), 20);
    life.end();
}

fn old_blocks_make_room_and_those_that_are_read_stay(body: Body) {
    let medium = Medium::new(8);
    let mut life = Life::begin(body(), &medium);
    life.keep_all(0..8);
    // Many times what the area holds.
    for block in 8..400 {
        life.keep_all(block..block + 1);
        life.hits(0..2);
    }
    assert_eq!(life.hits(0..2), 2, "hot blocks are carried over");
    assert_eq!(life.hits(2..8), 0, "cold ones have left");
    let usage = life.usage();
    assert!(usage.counts.reclaimed > 8 && usage.counts.carried_bytes > 0, "{usage:?}");
    assert!(usage.used_bytes < usage.area_bytes);
    life.end();
}

fn whatever_happens_no_byte_is_wrong(body: Body) {
    let mut hits = 0;
    let mut damaged = 0;
    for seed in 0..6 {
        let counts = Story::new(seed, body).play(4_000);
        hits += counts.hits;
        damaged += counts.damaged;
    }
    assert!(hits > 1000 && damaged > 10, "{hits} hits, {damaged} damaged: the story is one");
}
