//! Claims about what is dropped while the kernel has it.

use crate::stage::{Stage, connection, listener, receive, send};
use nilas_shards::Buffer;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(5);
/// More than sockets and windows hold.
const TOO_MUCH: usize = 16 << 20;

pub(crate) fn a_dropped_receive_is_given_back(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let receive_in_vain = server.receive_into(Buffer::with_capacity(1 << 20));
        assert!(reactor.timeout(SHORT, receive_in_vain).await.is_err());
        // The kernel may hold the buffer still: what comes now must go nowhere else.
        send(&client, b"too late").await.expect("it is open");
        let (again, _) = server.receive_into(Buffer::with_capacity(10)).await;
        assert!(again.is_err(), "bytes may have been lost, so nothing is received after them");
    });
    stage.until(&reactor, || reactor.operation_count() == 0);
}

pub(crate) fn a_dropped_send_tears_the_socket_only(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let flood = vec![2; TOO_MUCH];
        assert!(reactor.timeout(SHORT, send(&server, &flood)).await.is_err());
        assert!(send(&server, b"more").await.is_err(), "half an answer has no second half");
        drop(server);
        // Some bytes, and the end or a reset.
        let mut count = 0;
        while let Ok(received) = client.receive_head().await
            && !received.is_empty()
        {
            assert!(received.iter().all(|&byte| byte == 2));
            count += received.len();
        }
        assert!(count < TOO_MUCH);
        let (client, server) = connection(&reactor).await;
        send(&server, b"others go on").await.expect("it is open");
        assert_eq!(receive(&client, 12).await, b"others go on");
    });
    stage.until(&reactor, || reactor.operation_count() == 0);
}

pub(crate) fn a_dropped_socket_is_closed_after_its_operations(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        for _ in 0..20 {
            let (client, server) = connection(&reactor).await;
            // One repeating receive and one stuck send in flight, then nobody.
            assert!(reactor.timeout(SHORT, server.receive_head()).await.is_err());
            let flood = vec![3; TOO_MUCH];
            assert!(reactor.timeout(SHORT, send(&server, &flood)).await.is_err());
            assert!(reactor.operation_count() >= 1);
            drop(server);
            while let Ok(received) = client.receive_head().await
                && !received.is_empty()
            {}
        }
    });
    stage.until(&reactor, || reactor.operation_count() == 0);
}

pub(crate) fn a_dropped_accept_loses_no_connection(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let mut listener = listener(&reactor);
        let address = listener.local_address().expect("it listens");
        assert!(reactor.timeout(SHORT, listener.accept()).await.is_err());
        let client = reactor.connect(address).await.expect("it listens");
        let server = listener.accept().await.expect("the client is there");
        send(&client, b"here").await.expect("it is open");
        assert_eq!(receive(&server, 4).await, b"here");
    });
}

pub(crate) fn a_closed_reactor_has_no_tasks_and_no_operations(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        for _ in 0..10 {
            let (client, server) = connection(&reactor).await;
            reactor.spawn(async move {
                let (result, _) = server.receive_into(Buffer::with_capacity(4096)).await;
                panic!("nobody sends: {result:?}");
            });
            reactor.spawn(async move {
                let received = client.receive_head().await;
                panic!("nobody sends: {received:?}");
            });
            let clone = reactor.clone();
            reactor.spawn(async move { clone.sleep(Duration::from_secs(3600)).await });
        }
        reactor.sleep(SHORT).await;
    });
    assert_eq!(reactor.task_count(), 30);
    assert!(reactor.operation_count() >= 20);
    reactor.close();
    assert_eq!(reactor.task_count(), 0);
    assert_eq!(reactor.operation_count(), 0);
}

pub(crate) fn a_dropped_reactor_waits_for_the_ring(stage: &Stage) {
    let reactor = stage.reactor();
    let socket = stage.block_on(async {
        let (_, server) = connection(&reactor).await;
        let mut receiving = Box::pin(server.receive_into(Buffer::with_capacity(1 << 20)));
        let _ = reactor.timeout(Duration::ZERO, receiving.as_mut()).await;
        drop(receiving);
        server
    });
    // The cancellation is asked for and not yet submitted; nobody turns the reactor any more.
    drop(socket);
    drop(reactor);
}
