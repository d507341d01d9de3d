//! What memory, slots and leases promise, across threads and after their owner's end.

use std::sync::mpsc;
use std::thread;

use super::*;

fn memory(slots: u32, leases_max: usize) -> (SlotMemory, Doorbell) {
    let doorbell = Doorbell::unattached();
    let memory = SlotMemory::new(slots, 16, leases_max, doorbell.clone());
    (memory.expect("a page can be mapped"), doorbell)
}

fn first_slot(memory: &SlotMemory) -> SlotNumber {
    memory.numbers().next().expect("there is a slot")
}

fn take_all_returned(memory: &mut SlotMemory) -> usize {
    std::iter::from_fn(|| memory.take_returned()).count()
}

#[test]
fn a_lease_keeps_its_bytes_while_later_ones_are_appended() {
    let (mut memory, _) = memory(2, 4);
    let slot = first_slot(&memory);
    memory.append(slot, b"first ");
    let early = memory.lease(slot, 0..6).expect("within the ceiling");
    memory.append(slot, b"second");
    let late = memory.lease(slot, 3..12).expect("within the ceiling");
    assert_eq!((&early[..], &late[..]), (&b"first "[..], &b"st second"[..]));
}

#[test]
fn a_slot_holds_what_was_written_into_it_and_not_its_neighbour() {
    let (mut memory, _) = memory(3, 4);
    for (slot, byte) in memory.numbers().zip(b'a'..) {
        memory.append(slot, &[byte; 16]);
    }
    for (slot, byte) in memory.numbers().zip(b'a'..) {
        let lease = memory.lease(slot, 0..16).expect("within the ceiling");
        assert_eq!(lease[..], [byte; 16]);
    }
}

#[test]
#[should_panic(expected = "a leased slot is never reused")]
fn a_leased_slot_is_not_cleared() {
    let (mut memory, _) = memory(1, 4);
    let slot = first_slot(&memory);
    memory.append(slot, b"held");
    let _lease = memory.lease(slot, 0..4).expect("within the ceiling");
    memory.clear(slot);
}

#[test]
#[should_panic(expected = "only filled bytes are leased")]
fn unfilled_bytes_are_not_leased() {
    let (mut memory, _) = memory(1, 4);
    let slot = first_slot(&memory);
    memory.append(slot, b"four");
    let _lease = memory.lease(slot, 0..5);
}

#[test]
#[should_panic(expected = "a slot holds no more than its size")]
fn a_slot_does_not_run_over() {
    let (mut memory, _) = memory(2, 4);
    let slot = first_slot(&memory);
    memory.append(slot, &[1; 10]);
    memory.append(slot, &[1; 7]);
}

#[test]
fn no_more_leases_are_out_than_the_queue_has_places() {
    let (mut memory, _) = memory(1, 2);
    let slot = first_slot(&memory);
    memory.append(slot, b"x");
    let first = memory.lease(slot, 0..1).expect("one of two");
    let _second = memory.lease(slot, 0..1).expect("two of two");
    assert!(memory.lease(slot, 0..1).is_none());
    drop(first);
    assert!(memory.lease(slot, 0..1).is_none(), "returned, not taken back");
    assert_eq!(memory.take_returned(), Some(Returned::Lease(slot)));
    assert!(memory.lease(slot, 0..1).is_some());
}

#[test]
fn a_return_rings_once_and_only_when_it_is_wanted() {
    let (mut memory, doorbell) = memory(1, 4);
    let slot = first_slot(&memory);
    memory.append(slot, b"x");
    let mut leases: Vec<Lease> = (0..3).filter_map(|_| memory.lease(slot, 0..1)).collect();
    leases.pop();
    assert!(!doorbell.take_rung());
    memory.want_returns();
    leases.pop();
    assert!(doorbell.take_rung());
    leases.pop();
    assert!(!doorbell.take_rung());
    assert_eq!(take_all_returned(&mut memory), 3);
}

#[test]
fn a_lease_outlives_the_owner_on_another_thread() {
    let (mut memory, _) = memory(1, 4);
    let slot = first_slot(&memory);
    memory.append(slot, b"still here");
    let lease = memory.lease(slot, 0..10).expect("within the ceiling");
    drop(memory);
    let reader = thread::spawn(move || assert_eq!(&lease[..], b"still here"));
    reader.join().expect("the bytes were still here");
}

#[test]
fn slots_reused_under_readers_on_other_threads_never_show_other_bytes() {
    const READERS: usize = 3;
    let rounds: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let (mut memory, _) = memory(4, 64);
    let (senders, readers): (Vec<_>, Vec<_>) = (0..READERS)
        .map(|_| {
            let (sender, receiver) = mpsc::sync_channel::<(u8, Lease)>(8);
            let reader = thread::spawn(move || {
                for (byte, lease) in receiver {
                    assert!(lease.iter().all(|held| *held == byte));
                }
            });
            (sender, reader)
        })
        .unzip();
    let mut reused = 0;
    for round in 0..rounds {
        while memory.take_returned().is_some() {}
        let Some(slot) = memory.numbers().find(|slot| memory.leases(*slot) == 0) else {
            thread::yield_now();
            continue;
        };
        memory.clear(slot);
        reused += 1;
        let byte = round as u8;
        for (sender, end) in senders.iter().zip([4, 8, 12]) {
            memory.append(slot, &[byte; 4]);
            let lease = memory.lease(slot, 0..end).expect("four slots have twelve leases");
            sender.send((byte, lease)).expect("readers go on to the end");
        }
    }
    drop(senders);
    for reader in readers {
        reader.join().expect("no reader saw another slot's bytes");
    }
    assert!(reused > 4);
}

#[test]
fn a_room_is_written_by_one_and_read_when_it_is_accepted() {
    let (mut memory, _) = memory(2, 4);
    let slot = first_slot(&memory);
    let mut room = memory.lend(slot).expect("nothing is out");
    room.bytes_mut()[..4].copy_from_slice(b"four");
    assert_eq!(memory.filled(slot), b"");
    assert!(memory.is_out(slot));
    memory.accept(room, 4);
    assert_eq!(memory.filled(slot), b"four");
    let lease = memory.lease(slot, 1..3).expect("it is filled");
    assert_eq!(&*lease, b"ou");
    assert_eq!(memory.take_returned(), Some(Returned::Room(slot)));
    assert!(memory.is_out(slot), "the lease still is");
    drop(lease);
    assert_eq!(memory.take_returned(), Some(Returned::Lease(slot)));
    assert!(!memory.is_out(slot));
}

#[test]
fn a_room_that_nobody_accepts_goes_home_empty() {
    let (mut memory, doorbell) = memory(1, 1);
    let slot = first_slot(&memory);
    let room = memory.lend(slot).expect("nothing is out");
    memory.want_returns();
    std::thread::spawn(move || drop(room)).join().expect("a room may go home from any thread");
    assert!(doorbell.take_rung());
    assert_eq!(memory.take_returned(), Some(Returned::Room(slot)));
    memory.clear(slot);
    let _room = memory.lend(slot).expect("it has come home");
}

#[test]
#[should_panic(expected = "what is lent has one writer")]
fn a_lent_slot_is_not_appended_to() {
    let (mut memory, _) = memory(1, 4);
    let slot = first_slot(&memory);
    let _room = memory.lend(slot).expect("nothing is out");
    memory.append(slot, b"x");
}
