//! A node that is killed, or whose power is cut, and the next one on the same disk in the same world.

use crate::scene::Scene;
use nilas_shards::{Buffer, Listener, Reactor, SimulatedWorld};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// A shard that accepts connections, and sends one byte on each.
fn serve(world: &SimulatedWorld, byte: u8) -> Reactor {
    let reactor = world.reactor();
    let listener = reactor.listen(ADDRESS).expect("the address is free");
    let server = reactor.clone();
    reactor.spawn(async move { accept(&server, listener, byte).await });
    reactor
}

async fn accept(reactor: &Reactor, mut listener: Listener, byte: u8) {
    let mut sockets = Vec::new();
    loop {
        let socket = listener.accept().await.expect("clients connect");
        let mut parts = reactor.parts();
        parts.push_bytes(bytes::Bytes::copy_from_slice(&[byte]));
        socket.send(parts).await.expect("it is open");
        sockets.push(socket);
    }
}

#[test]
fn a_killed_shard_runs_no_task_and_holds_nothing() {
    let scene = Scene::new(1);
    let (alive, held) = (Rc::new(()), scene.reactor.clone());
    let witness = Rc::clone(&alive);
    scene.reactor.spawn(async move {
        held.sleep(Duration::from_secs(1)).await;
        unreachable!("{witness:?} was killed before");
    });
    scene.begin_write(0, vec![1; 4096]);
    scene.world.remove_reactor(&scene.reactor);
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!((scene.reactor.task_count(), scene.reactor.operation_count()), (0, 0));
    scene.world.run_for(Duration::from_secs(2));
}

#[test]
fn writes_in_flight_of_a_killed_shard_land_in_part_and_never_later() {
    let mut landed = [0; 3];
    for seed in 0..100 {
        let scene = Scene::new(seed);
        scene.begin_write(0, vec![1; 4096]);
        scene.world.remove_reactor(&scene.reactor);
        let count = scene.bytes().iter().filter(|byte| **byte == 1).count();
        landed[match count {
            0 => 0,
            4096 => 1,
            _ => 2,
        }] += 1;
        let next = scene.world.reactor();
        let write = next.write_at(&scene.file, Buffer::from_vec(vec![2; 4096]), 0);
        scene.world.block_on(write).0.expect("no fault");
        scene.world.run_for(Duration::from_secs(10));
        assert_eq!(scene.bytes()[..4096], [2; 4096]);
    }
    assert!(landed.iter().all(|&count| count > 10), "none, all, some: {landed:?}");
}

#[test]
fn what_a_killed_shard_has_written_stays_unless_the_power_is_cut_too() {
    let mut lost = 0;
    for seed in 0..100 {
        let scene = Scene::new(seed);
        scene.write(0, &[1; 512]).expect("no fault");
        scene.sync().expect("no fault");
        scene.write(512, &[2; 512]).expect("no fault");
        scene.world.remove_reactor(&scene.reactor);
        assert_eq!((scene.bytes()[0], scene.bytes()[512]), (1, 2));
        scene.crash();
        assert_eq!(scene.bytes()[0], 1);
        lost += usize::from(scene.bytes()[512] == 0);
    }
    assert!(lost > 20 && lost < 80, "{lost}");
}

#[test]
fn clients_of_a_killed_node_see_its_end_and_find_the_next_one() {
    for seed in 0..20 {
        let world = SimulatedWorld::new(seed);
        let (first, clients) = (serve(&world, 1), world.reactor());
        let client = world.block_on(clients.connect(ADDRESS)).expect("it listens");
        let received = world.block_on(client.receive_head()).expect("it is sent");
        assert_eq!(received[..], [1]);
        world.remove_reactor(&first);
        let end = world.block_on(client.receive_head());
        assert!(end.is_ok_and(|received| received.is_empty()), "the node is gone");
        let refused = world.block_on(clients.connect(ADDRESS));
        let refused = refused.map(|_| ()).expect_err("nobody listens");
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        let _second = serve(&world, 2);
        let client = world.block_on(clients.connect(ADDRESS)).expect("the next one listens");
        let received = world.block_on(client.receive_head()).expect("it is sent");
        assert_eq!(received[..], [2]);
    }
}

#[test]
fn nothing_arrives_at_a_killed_shard() {
    for seed in 0..20 {
        let world = SimulatedWorld::new(seed);
        let (_server, victim) = (serve(&world, 1), world.reactor());
        let connecting = victim.clone();
        victim.spawn(async move {
            connecting.connect(ADDRESS).await.expect("it listens");
            unreachable!("the connection was on its way when the shard was killed");
        });
        world.run_for(Duration::ZERO);
        world.remove_reactor(&victim);
        world.run_for(Duration::from_secs(1));
        assert_eq!(victim.operation_count(), 0);
    }
}
