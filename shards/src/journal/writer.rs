//! The one task that writes a journal. Batches go out one after the other; where somebody wants them durable they are
//! synced, then the ledger that names them is written and synced, and only then is it told. All is read back, ledgers
//! after their sync: were a batch and the ledger that names it to go elsewhere, the one before would be believed. What
//! fails once has failed for good: then a void ledger is written, so that what is outdated from now on is not believed
//! at the next start.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::Core;
use crate::disk::{BatchHeader, Generation, Ledger, PAGE_BYTES};

/// How long entries wait for others to share their page with, where nobody wants them durable.
const LINGER: Duration = Duration::from_millis(100);
/// Pause before a void ledger that could not be written is tried again.
const VOID_RETRY: Duration = Duration::from_secs(5);
/// Void ledgers that are written at once until one of them is there.
const VOID_LEDGERS_MAX: usize = 8;
/// Ledgers that are written where no older one may stay: one to each of their places.
const LEDGERS_TO_REPLACE_ALL: usize = 2;

/// Writes for one opening of a journal.
pub(super) struct Writer {
    core: Rc<Core>,
    generation: Generation,
    /// The next ledger's.
    sequence: u64,
}

/// Why the writer stops.
pub(super) enum Stop {
    /// The area cannot be written, for this reason.
    Unwritable(io::Error),
    /// No batch fits beside those that count.
    Full,
}

impl From<io::Error> for Stop {
    fn from(cause: io::Error) -> Stop {
        Stop::Unwritable(cause)
    }
}

impl Writer {
    pub(super) fn new(core: Rc<Core>, generation: Generation, sequence: u64) -> Writer {
        Writer { core, generation, sequence }
    }

    /// Begins a generation: what was found becomes durable, and from here on only this opening continues it. Ledgers
    /// go to all their places, so that none is left that could not be read. After damage they are void: it is not
    /// known that anybody was told of it before something was made durable.
    pub(super) async fn begin(&mut self, is_damaged: bool) -> Result<(), Stop> {
        // After the death of the process alone, what was read may not be durable yet.
        self.sync().await?;
        for _ in 0..LEDGERS_TO_REPLACE_ALL {
            let ledger = self.next_ledger(is_damaged);
            self.write_ledger(&ledger).await?;
        }
        Ok(())
    }

    /// Writes until it cannot.
    pub(super) async fn run(mut self) {
        loop {
            self.wait_for_work().await;
            if let Err(stop) = self.round().await {
                return self.give_up(stop).await;
            }
        }
    }

    /// Has nothing believed any more that the area holds, as soon as that can be written.
    pub(super) async fn give_up(mut self, stop: Stop) {
        let mut is_void = self.write_void().await;
        let note = |is_void| {
            let mut state = self.core.state.borrow_mut();
            state.usage.is_void = is_void;
            match &stop {
                Stop::Full => state.usage.is_full = true,
                Stop::Unwritable(cause) => state.usage.error = cause.raw_os_error(),
            }
            state.fail();
        };
        note(is_void);
        self.core.settled.raise();
        while !is_void {
            self.core.area.reactor.sleep(VOID_RETRY).await;
            is_void = self.write_void().await;
        }
        self.core.state.borrow_mut().usage.is_void = true;
    }

    async fn wait_for_work(&self) {
        let Core { area, state, work, .. } = &*self.core;
        work.until(|| state.borrow().has_work().then_some(())).await;
        let urgent = work.until(|| state.borrow().is_urgent().then_some(()));
        // Either way it is time.
        let _ = area.reactor.timeout(LINGER, urgent).await;
    }

    /// Writes what waits now, and makes it durable if somebody wants that.
    async fn round(&mut self) -> Result<(), Stop> {
        let last = self.core.state.borrow().queue.last();
        while self.write_next(last).await? {}
        if self.core.state.borrow().wants_commit() {
            self.commit().await?;
        }
        Ok(())
    }

    /// Writes the next batch, up to the one with the number `last`; whether there was one.
    async fn write_next(&self, last: u64) -> Result<bool, Stop> {
        let (number, page, pages, bytes, checksum) = {
            let mut state = self.core.state.borrow_mut();
            if state.log.last >= last {
                return Ok(false);
            }
            let Some((number, entries)) = state.queue.pop() else { return Ok(false) };
            let header = self.header(number, state.log.head, state.log.last_checksum);
            let (bytes, checksum) = header.encode(&entries);
            let pages = (bytes.len() / PAGE_BYTES) as u32;
            if !state.log.has_room(pages) {
                return Err(Stop::Full);
            }
            (number, header.page, pages, bytes, checksum)
        };
        // There is room again for who waits.
        self.core.settled.raise();
        self.core.area.write(page, &bytes).await?;
        self.core.area.prove(page, &bytes).await?;
        self.core.state.borrow_mut().note_written(number, pages, checksum);
        Ok(true)
    }

    fn header(&self, number: u64, page: u32, previous: u32) -> BatchHeader {
        let place = self.core.area.place;
        BatchHeader {
            device: place.device,
            area: place.number,
            owner: self.core.owner,
            page,
            number,
            generation: self.generation,
            previous,
        }
    }

    async fn commit(&mut self) -> Result<(), Stop> {
        #[cfg(feature = "mutations")]
        let is_synced_first =
            !crate::mutation::journal_has(crate::mutation::JournalMutation::LedgerBeforeSync);
        #[cfg(not(feature = "mutations"))]
        let is_synced_first = true;
        if is_synced_first {
            self.sync().await?;
        }
        // Of all that was written, which is durable now.
        let ledger = self.next_ledger(false);
        self.write_ledger(&ledger).await?;
        let first = (ledger.first, ledger.first_page);
        self.core.state.borrow_mut().note_durable(first, ledger.durable);
        self.core.settled.raise();
        Ok(())
    }

    /// Makes a ledger durable in all its places.
    async fn write_ledger(&self, ledger: &Ledger) -> Result<(), Stop> {
        let Core { area, .. } = &*self.core;
        for page in area.shape.ledger_pages(ledger.sequence) {
            area.write(page, &ledger.encode(page)).await?;
        }
        self.sync().await?;
        for page in area.shape.ledger_pages(ledger.sequence) {
            area.prove(page, &ledger.encode(page)).await?;
        }
        Ok(())
    }

    /// Writes void ledgers over all places of ledgers. One that is durable is enough, for it is the latest.
    async fn write_void(&mut self) -> bool {
        let mut is_durable = false;
        for count in 0..VOID_LEDGERS_MAX {
            if is_durable && count >= LEDGERS_TO_REPLACE_ALL {
                break;
            }
            let ledger = self.next_ledger(true);
            let pages = self.core.area.shape.ledger_pages(ledger.sequence);
            for page in pages {
                // Where it fails, the other one may not.
                let _ = self.core.area.write(page, &ledger.encode(page)).await;
            }
            let is_synced = self.sync().await.is_ok();
            for page in pages {
                let is_there = self.core.area.prove(page, &ledger.encode(page)).await.is_ok();
                is_durable |= is_synced && is_there;
            }
        }
        is_durable
    }

    fn next_ledger(&mut self, is_void: bool) -> Ledger {
        let state = self.core.state.borrow();
        let place = self.core.area.place;
        let (first, first_page) = state.next_first();
        self.sequence += 1;
        Ledger {
            device: place.device,
            area: place.number,
            owner: self.core.owner,
            generation: self.generation,
            sequence: self.sequence - 1,
            first,
            first_page,
            durable: state.log.last,
            durable_checksum: state.log.last_checksum,
            is_void,
        }
    }

    async fn sync(&self) -> Result<(), Stop> {
        self.core.area.sync().await?;
        self.core.state.borrow_mut().usage.syncs += 1;
        Ok(())
    }
}
