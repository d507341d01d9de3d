//! Claims about journals on real files, on both bodies that have disks, with `O_DIRECT` where the file system has it.
//! What happens in random order is in `real` and, with loss of power, in `simulated`; both ask `model`.

mod bench;
mod claim;
mod damage;
mod model;
mod real;
mod simulated;
mod whatever;

use crate::ring::RingBody;

/// Stamps each claim on the bodies that have disks.
macro_rules! on_bodies {
    ([$($body:ident = $name:ident),*] $claims:tt) => {
        $(on_bodies!(@one $body $name $claims);)*
    };
    (@one $body:ident $name:ident { $($room:ident::$claim:ident),* $(,)? }) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $claim() {
                    $room::$claim(RingBody::$body);
                }
            )*
        }
    };
}

on_bodies!([IoUring = io_uring, Epoll = epoll] {
    claim::a_new_area_is_fresh_and_then_whole,
    claim::what_is_durable_is_found_again_in_order,
    claim::what_was_only_appended_is_found_after_a_flush,
    claim::appenders_share_syncs,
    claim::a_checkpoint_forgets_what_came_before_it,
    claim::a_log_goes_round_its_area_many_times,
    claim::an_unfinished_checkpoint_forgets_nothing,
    claim::another_owner_begins_anew,
    claim::a_full_queue_drops_and_who_waits_gets_room,
    claim::a_full_area_fails_and_is_not_believed_again,
    claim::a_file_that_cannot_be_written_is_not_believed,
    claim::a_log_of_many_pieces_is_read_back,
    damage::one_copy_of_the_ledger_is_enough,
    damage::without_a_ledger_nothing_is_believed,
    damage::every_lost_page_of_the_log_is_seen,
    damage::an_area_that_is_cut_off_is_damaged,
    damage::segments_that_are_exchanged_are_damage,
    damage::an_older_content_of_a_segment_is_damage,
    damage::what_an_earlier_opening_left_behind_is_not_taken,
    whatever::on_whatever_an_area_holds_a_journal_opens,
    real::no_kill_and_no_damage_loses_what_is_durable,
});
