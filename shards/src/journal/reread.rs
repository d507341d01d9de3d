//! What a journal held, read a second time: its owner looks at all of it before it may believe any, and keeps in memory
//! only what all of it comes to. The chain is held together as at the first time; what has been damaged since ends it.

use super::log::Log;
use super::pages::AreaPages;
use super::stream::PageStream;

/// The batches that were found when a journal was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the first.
    pub(super) first: u64,
    /// Where it begins.
    pub(super) first_page: u32,
    /// Number of the last; one less than `first` where there is none.
    pub(super) last: u64,
    /// Entries in them.
    pub(super) entries: u64,
}

impl Span {
    /// How many entries there are.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}

/// A journal that is being read again.
pub struct Reread<'a> {
    stream: PageStream<'a>,
    owner: [u8; 16],
    log: Log,
    last: u64,
    /// The checksum of the last batch, where it is known.
    previous: Option<u32>,
    sequence: InSequence,
}

impl<'a> Reread<'a> {
    pub(super) fn new(area: &'a AreaPages, owner: [u8; 16], span: Span) -> Reread<'a> {
        let Span { first, first_page, last, .. } = span;
        let log = Log::empty(area.shape, first, first_page, 0);
        let stream = PageStream::new(area, area.shape.lap(first_page));
        let sequence = InSequence::default();
        Reread { stream, owner, log, last, previous: None, sequence }
    }

    /// Shows the entries of the next batch; whether there was one.
    pub async fn batch(&mut self, mut look: impl FnMut(&[u8])) -> bool {
        if self.log.last == self.last {
            return self.sequence.end(&mut look);
        }
        let Ok(batch) = self.stream.batch(self.log.head).await else { return false };
        let header = batch.header;
        let is_next = header.owner == self.owner
            && header.number == self.log.last + 1
            && self.previous.is_none_or(|previous| previous == header.previous);
        if !is_next {
            return false;
        }
        batch.entries().for_each(|entry| self.sequence.pass(entry, &mut look));
        self.previous = Some(batch.checksum);
        self.log.push(batch.pages, batch.checksum);
        true
    }
}

/// Hands entries on in the order in which they were appended; with the planted fault all of them the other way round, at
/// the end.
#[derive(Default)]
pub(super) struct InSequence {
    #[cfg(feature = "mutations")]
    held: Vec<Box<[u8]>>,
}

#[cfg(not(feature = "mutations"))]
impl InSequence {
    pub(super) fn pass(&mut self, entry: &[u8], look: &mut impl FnMut(&[u8])) {
        look(entry);
    }

    /// Says whether there was anything left.
    pub(super) fn end(&mut self, _: &mut impl FnMut(&[u8])) -> bool {
        false
    }
}

#[cfg(feature = "mutations")]
impl InSequence {
    pub(super) fn pass(&mut self, entry: &[u8], look: &mut impl FnMut(&[u8])) {
        if crate::mutation::journal_has(crate::mutation::JournalMutation::SequenceIgnored) {
            self.held.push(entry.into());
        } else {
            look(entry);
        }
    }

    /// Says whether there was anything left.
    pub(super) fn end(&mut self, look: &mut impl FnMut(&[u8])) -> bool {
        let held = std::mem::take(&mut self.held);
        held.iter().rev().for_each(|entry| look(entry));
        !held.is_empty()
    }
}
