//! Claims about files, on all bodies: each has disks of its own kind, and refuses the others'.

use crate::stage::Stage;
use nilas_shards::{Buffer, File, SimulatedWorld};
use std::io::ErrorKind;
use std::time::Duration;

const FILE_BYTES: u64 = 1 << 20;

fn what_is_written_is_read_back(stage: &Stage) {
    let reactor = stage.reactor();
    let file = stage.file(FILE_BYTES);
    stage.block_on(async {
        let bytes: Vec<u8> = (0..300_000_u32).map(|index| (index % 253) as u8).collect();
        let (count, _) = reactor.write_at(&file, Buffer::from_vec(bytes.clone()), 4096).await;
        assert_eq!(count.expect("the disk has room"), bytes.len());
        reactor.sync(&file).await.expect("the file is open");
        let mut buffer = Buffer::aligned(400_000, 4096);
        buffer.set_limit(1000);
        let (count, buffer) = reactor.read_at(&file, buffer, 4196).await;
        assert_eq!(count.expect("the file is open"), 1000);
        assert_eq!(buffer.filled(), &bytes[100..1100]);
        let (count, buffer) = reactor.read_at(&file, Buffer::with_capacity(10), 1 << 30).await;
        assert_eq!((count.expect("the end is no error"), buffer.len()), (0, 0));
    });
}

fn one_read_fills_several_buffers_one_behind_the_other(stage: &Stage) {
    let reactor = stage.reactor();
    let file = stage.file(FILE_BYTES);
    let bytes: Vec<u8> = (0..5 * 4096_u32).map(|index| (index % 251) as u8).collect();
    let buffers = || [1, 2, 1].map(|pages| Buffer::aligned(pages * 4096, 4096)).into();
    stage.block_on(async {
        let (written, _) =
            reactor.write_at(&file, Buffer::from_vec(bytes.clone()), FILE_BYTES - 5 * 4096).await;
        assert_eq!(written.expect("the disk has room"), bytes.len());
        let from = FILE_BYTES - 5 * 4096;
        let (count, read) = reactor.read_into(&file, buffers(), from).await;
        assert_eq!(count.expect("the file is open"), 4 * 4096);
        let filled: Vec<&[u8]> = read.iter().map(Buffer::filled).collect();
        assert_eq!(filled, [&bytes[..4096], &bytes[4096..3 * 4096], &bytes[3 * 4096..4 * 4096]]);
        // At the file's end the rest stays empty.
        let (count, read) = reactor.read_into(&file, buffers(), from + 3 * 4096).await;
        assert_eq!(count.expect("the file is open"), 2 * 4096);
        let filled: Vec<&[u8]> = read.iter().map(Buffer::filled).collect();
        assert_eq!(filled, [&bytes[3 * 4096..4 * 4096], &bytes[4 * 4096..], &[]]);
    });
}

fn a_read_ends_at_the_end_of_the_file(stage: &Stage) {
    let reactor = stage.reactor();
    let file = stage.file(FILE_BYTES);
    stage.block_on(async {
        let buffer = Buffer::with_capacity(1000);
        let (count, buffer) = reactor.read_at(&file, buffer, FILE_BYTES - 300).await;
        assert_eq!((count.expect("the file is open"), buffer.filled()), (300, &[0; 300][..]));
    });
}

fn a_dropped_read_keeps_its_file_and_buffer(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        for _ in 0..100 {
            let file = stage.file(FILE_BYTES);
            let read = reactor.read_at(&file, Buffer::with_capacity(1 << 20), 0);
            let _ = reactor.timeout(Duration::ZERO, read).await;
        }
    });
    stage.until(&reactor, || reactor.operation_count() == 0);
}

fn a_reactor_that_closes_ends_its_disk_operations(stage: &Stage) {
    let reactor = stage.reactor();
    let file = stage.file(FILE_BYTES);
    for place in 0..100 {
        let (operator, file) = (reactor.clone(), file.clone());
        reactor.spawn(async move {
            let buffer = Buffer::from_vec(vec![1; 5000]);
            let (written, _) = operator.write_at(&file, buffer, 5000 * place).await;
            written.expect("the disk has room");
            operator.sync(&file).await.expect("the file is open");
        });
    }
    stage.block_on(async { reactor.sleep(Duration::from_micros(50)).await });
    reactor.close();
    assert_eq!((reactor.task_count(), reactor.operation_count()), (0, 0));
}

fn a_file_of_another_body_is_refused(stage: &Stage) {
    let reactor = stage.reactor();
    let file = other_kind(stage);
    stage.block_on(async {
        let (read, buffer) = reactor.read_at(&file, Buffer::with_capacity(10), 0).await;
        assert_eq!(read.expect_err("not of this body").kind(), ErrorKind::InvalidInput);
        let (written, _) = reactor.write_at(&file, buffer, 0).await;
        assert_eq!(written.expect_err("not of this body").kind(), ErrorKind::InvalidInput);
        let synced = reactor.sync(&file).await;
        assert_eq!(synced.expect_err("not of this body").kind(), ErrorKind::InvalidInput);
    });
}

fn other_kind(stage: &Stage) -> File {
    if stage.is_simulated() {
        File::from(tempfile::tempfile().expect("a temporary file can be made"))
    } else {
        SimulatedWorld::new(1).create_file(FILE_BYTES)
    }
}

on_bodies!([io_uring, epoll, simulated] {
    disk::what_is_written_is_read_back,
    disk::one_read_fills_several_buffers_one_behind_the_other,
    disk::a_read_ends_at_the_end_of_the_file,
    disk::a_dropped_read_keeps_its_file_and_buffer,
    disk::a_reactor_that_closes_ends_its_disk_operations,
    disk::a_file_of_another_body_is_refused,
});
