//! One disk and one reactor that works on it.

use nilas_shards::{Buffer, DiskCondition, DiskEvents, File, Reactor, SimulatedWorld};
use std::io;
use std::time::Duration;

pub(crate) const DISK_BYTES: u64 = 64 << 10;

pub(crate) struct Scene {
    pub(crate) world: SimulatedWorld,
    pub(crate) reactor: Reactor,
    pub(crate) file: File,
}

impl Scene {
    pub(crate) fn new(seed: u64) -> Scene {
        let world = SimulatedWorld::new(seed);
        let (reactor, file) = (world.reactor(), world.create_file(DISK_BYTES));
        Scene { world, reactor, file }
    }

    /// One whose disk is in this condition from the beginning.
    pub(crate) fn under(condition: DiskCondition) -> Scene {
        let scene = Scene::new(7);
        scene.world.set_disk(&scene.file, condition);
        scene
    }

    pub(crate) fn read(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let buffer = Buffer::aligned(bytes, 4096);
        let (result, buffer) =
            self.world.block_on(self.reactor.read_at(&self.file, buffer, offset));
        result.map(|count| {
            assert_eq!(count, buffer.len());
            buffer.filled().to_vec()
        })
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = Buffer::aligned(bytes.len(), 4096);
        buffer.extend_from_slice(bytes);
        self.world.block_on(self.reactor.write_at(&self.file, buffer, offset)).0
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.world.block_on(self.reactor.sync(&self.file))
    }

    /// Begins a write that nobody waits for, and leaves it in flight.
    pub(crate) fn begin_write(&self, offset: u64, bytes: Vec<u8>) {
        let (reactor, file) = (self.reactor.clone(), self.file.clone());
        self.reactor.spawn(async move {
            let _ = reactor.write_at(&file, Buffer::from_vec(bytes), offset).await;
        });
        self.world.run_for(Duration::ZERO);
        assert!(self.reactor.operation_count() > 0, "it has begun and not ended");
    }

    pub(crate) fn crash(&self) {
        self.world.crash_disk(&self.file);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.world.disk_bytes(&self.file)
    }

    pub(crate) fn events(&self) -> DiskEvents {
        self.world.disk_events(&self.file)
    }
}
