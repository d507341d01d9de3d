//! One suite for all ring bodies: each claim is stamped on io_uring, epoll and the simulated world,
//! and each test says which body it runs on. Claims of some bodies only stand apart, in `disk`, `unix`,
//! `threads` and `simulation`.

/// Stamps each claim (a function of a stage) on the bodies named.
macro_rules! on_bodies {
    ([$($body:ident),*] $claims:tt) => {
        $(on_bodies!(@one $body $claims);)*
    };
    (@one $body:ident { $($room:ident::$claim:ident),* $(,)? }) => {
        mod $body {
            $(
                #[test]
                fn $claim() {
                    let stage = crate::stage::Stage::$body();
                    crate::$room::$claim(&stage);
                    stage.end();
                }
            )*
        }
    };
}

#[path = "reactor/cancellation.rs"]
mod cancellation;
#[path = "reactor/disk.rs"]
mod disk;
#[path = "reactor/mailbox.rs"]
mod mailbox;
#[path = "reactor/simulation.rs"]
mod simulation;
#[path = "reactor/stage.rs"]
mod stage;
#[path = "reactor/stream.rs"]
mod stream;
#[path = "reactor/thread.rs"]
mod thread;
#[path = "reactor/time.rs"]
mod time;
#[path = "reactor/unix.rs"]
mod unix;

on_bodies!([io_uring, epoll, simulated] {
    stream::bytes_come_back_from_an_echo,
    stream::pipelined_heads_arrive_in_order,
    stream::a_body_follows_its_head_through_a_pause,
    stream::a_big_vectored_send_arrives_whole_at_a_slow_reader,
    stream::an_end_is_no_bytes,
    stream::a_closed_port_refuses,
    stream::listeners_share_an_address,
    stream::a_reader_that_does_not_read_takes_no_more_buffers,
    stream::a_send_that_nobody_takes_shows_no_progress_and_can_be_aborted,
    stream::addresses_of_both_ends_agree,
    cancellation::a_dropped_receive_is_given_back,
    cancellation::a_dropped_send_tears_the_socket_only,
    cancellation::a_dropped_socket_is_closed_after_its_operations,
    cancellation::a_dropped_accept_loses_no_connection,
    cancellation::a_closed_reactor_has_no_tasks_and_no_operations,
    cancellation::a_dropped_reactor_waits_for_the_ring,
    time::timers_fire_in_order,
    time::a_timeout_ends_what_takes_too_long,
    time::many_timers_leave_nothing_behind,
    mailbox::calls_to_oneself_are_answered,
    mailbox::a_full_mailbox_waits_in_order,
    mailbox::a_dropped_call_gives_its_place_back,
    mailbox::shards_answer_each_other,
});
