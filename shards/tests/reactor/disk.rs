//! Claims about files: on the bodies that have disks, and the clear refusal of the one that has none.

use crate::stage::Stage;
use nilas_shards::{Buffer, File};
use std::io::ErrorKind;

fn file() -> File {
    File::from(tempfile::tempfile().expect("a temporary file can be made"))
}

fn what_is_written_is_read_back(stage: &Stage) {
    let reactor = stage.reactor();
    let file = file();
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

fn a_dropped_read_keeps_its_file_and_buffer(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        for _ in 0..100 {
            let file = file();
            file.as_std().set_len(1 << 20).expect("the disk has room");
            let read = reactor.read_at(&file, Buffer::with_capacity(1 << 20), 0);
            let _ = reactor.timeout(std::time::Duration::ZERO, read).await;
        }
    });
    stage.until(&reactor, || reactor.operation_count() == 0);
}

on_bodies!([io_uring, epoll] {
    disk::what_is_written_is_read_back,
    disk::a_dropped_read_keeps_its_file_and_buffer,
});

#[test]
fn the_simulated_body_refuses_disks() {
    let stage = Stage::simulated();
    let reactor = stage.reactor();
    stage.block_on(async {
        let (read, buffer) = reactor.read_at(&file(), Buffer::with_capacity(10), 0).await;
        assert_eq!(read.expect_err("there is no disk").kind(), ErrorKind::Unsupported);
        let (written, _) = reactor.write_at(&file(), buffer, 0).await;
        assert_eq!(written.expect_err("there is no disk").kind(), ErrorKind::Unsupported);
        let synced = reactor.sync(&file()).await;
        assert_eq!(synced.expect_err("there is no disk").kind(), ErrorKind::Unsupported);
    });
    stage.end();
}
