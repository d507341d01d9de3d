//! A real file, a reactor on it, and a journal in it; and what a test does to the file between openings.

use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nilas_base::Clock;

use crate::disk::{AreaPlace, DeviceId};
use crate::file::File;
use crate::journal::{self, Damage, Journal, JournalConfig};
use crate::reactor::Reactor;
use crate::ring::{RingBody, RingOptions, open_ring};

pub(super) const DEVICE: DeviceId = DeviceId([7; 16]);
pub(super) const OWNER: [u8; 16] = [9; 16];
pub(super) const PAGE: u64 = 4096;
/// Pages of a segment: shorter than any that is laid out, so that a log soon goes round.
pub(super) const SEGMENT_PAGES: u64 = 16;
pub(super) const SEGMENTS: u64 = 4;
/// Where the area begins.
pub(super) const OFFSET: u64 = 3 * PAGE;

/// An area of so many segments.
pub(super) fn place(segments: u64) -> AreaPlace {
    let segment_bytes = SEGMENT_PAGES * PAGE;
    AreaPlace {
        device: DEVICE,
        number: 2,
        offset: OFFSET,
        length: segments * segment_bytes,
        segment_bytes: segment_bytes as u32,
    }
}

/// A file, for as long as a test.
pub(super) struct Bench {
    body: RingBody,
    place: AreaPlace,
    path: tempfile::TempPath,
}

/// A journal that is open.
pub(super) struct Opened {
    pub(super) reactor: Reactor,
    pub(super) journal: Journal,
}

impl Bench {
    pub(super) fn new(body: RingBody) -> Bench {
        Bench::of_segments(body, SEGMENTS)
    }

    pub(super) fn of_segments(body: RingBody, segments: u64) -> Bench {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let place = place(segments);
        file.as_file().set_len(place.offset + place.length).expect("the disk has room");
        Bench { body, place, path: file.into_temp_path() }
    }

    /// Opens the journal.
    pub(super) fn open(&self) -> (Opened, Replay) {
        self.open_as(OWNER)
    }

    pub(super) fn open_as(&self, owner: [u8; 16]) -> (Opened, Replay) {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true);
        let direct = options.clone().custom_flags(libc::O_DIRECT).open(&self.path);
        let file = direct.or_else(|_| options.open(&self.path));
        self.open_file(file.expect("the file is there"), owner)
    }

    pub(super) fn open_file(&self, file: std::fs::File, owner: [u8; 16]) -> (Opened, Replay) {
        let ring = open_ring(self.body, RingOptions::default());
        let reactor = Reactor::new(ring.expect("this machine allows the body"), Clock::system());
        assert_eq!(reactor.ring_body(), self.body, "no body falls back to another");
        let (file, place) = (File::from(file), self.place);
        let config = JournalConfig { reactor: reactor.clone(), file, place, owner };
        let (journal, replay) = reactor.block_on(open(config));
        (Opened { reactor, journal }, replay)
    }

    /// What the journal holds: opened, and closed without writing an entry.
    pub(super) fn replay(&self) -> Replay {
        let (opened, replay) = self.open();
        opened.kill();
        replay
    }

    /// The whole area.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.place.length as usize];
        self.std_file().read_exact_at(&mut bytes, self.place.offset).expect("it is that long");
        bytes
    }

    /// Puts bytes at a page of the area.
    pub(super) fn put(&self, page: u64, bytes: &[u8]) {
        let offset = self.place.offset + page * PAGE;
        self.std_file().write_all_at(bytes, offset).expect("the file is there");
    }

    /// Cuts the file off behind so many pages of the area.
    pub(super) fn cut(&self, pages: u64) {
        let length = self.place.offset + pages * PAGE;
        self.std_file().set_len(length).expect("the file is there");
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn std_file(&self) -> std::fs::File {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(&self.path).expect("the file is there")
    }
}

impl Opened {
    /// Ends the shard at once, as if the process died.
    pub(super) fn kill(self) {
        let Opened { reactor, journal } = self;
        drop(journal);
        reactor.close();
    }

    /// Ends it as a node stops.
    pub(super) fn stop(self) {
        self.reactor.block_on(self.journal.flush());
        self.kill();
    }

    /// Appends entries durably, each by itself.
    pub(super) fn append_durably(&self, entries: &[&[u8]]) {
        self.reactor.block_on(async {
            for entry in entries {
                self.journal.append_durably(&[entry]).await.expect("the file is writable");
            }
        });
    }
}

/// What a journal held, with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    Whole(Vec<Box<[u8]>>),
    Fresh,
    Another,
    Damaged(Damage),
}

/// Opens a journal, and keeps what it shows of itself. Where that is to be believed, it shows the same a second time.
pub(super) async fn open(config: JournalConfig) -> (Journal, Replay) {
    let mut entries: Vec<Box<[u8]>> = Vec::new();
    let (journal, replay) = Journal::open(config, |entry| entries.push(entry.into())).await;
    let replay = match replay {
        journal::Replay::Fresh => Replay::Fresh,
        journal::Replay::Another => Replay::Another,
        journal::Replay::Damaged(damage) => Replay::Damaged(damage),
        journal::Replay::Whole(span) => {
            assert_eq!(span.entries(), entries.len() as u64);
            let mut again: Vec<Box<[u8]>> = Vec::new();
            let mut reread = journal.reread(span);
            while reread.batch(|entry| again.push(entry.into())).await {}
            assert!(entries.starts_with(&again), "what cannot be read any more ends it");
            Replay::Whole(entries)
        }
    };
    (journal, replay)
}

/// A replay of these entries.
pub(super) fn whole(entries: &[&[u8]]) -> Replay {
    Replay::Whole(entries.iter().map(|entry| Box::from(*entry)).collect())
}
