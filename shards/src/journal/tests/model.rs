//! The history of a journal as its users have seen it, and what a replay may be by it: all that was told to be durable,
//! nothing that was once missing, in order, without a hole.

use std::cell::RefCell;
use std::rc::Rc;

use nilas_base::{HashSet, Rng};

use super::bench::Replay;
use crate::journal::Journal;

/// An entry; its number is its place among all.
#[derive(Clone, Debug)]
struct Record {
    length: usize,
    /// When somebody began to append it.
    begin: u64,
    /// When it was surely appended.
    end: Option<u64>,
    is_durable: bool,
    /// Whether it was missing in a replay: then it must stay so.
    is_gone: bool,
}

/// Checkpoints of the present opening: when each began, and when all its entries were appended.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    begin: u64,
    complete: Option<u64>,
}

#[derive(Default)]
struct Book {
    now: u64,
    records: Vec<Record>,
    /// Nothing counts that is older: a checkpoint that began then has ended.
    floor: u64,
    pending: Vec<Checkpoint>,
}

/// What happened so far; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct History(Rc<RefCell<Book>>);

impl History {
    /// Appends an entry of about so many bytes, without durability.
    pub(super) fn append(&self, journal: &Journal, length: usize) {
        let number = self.begin(length);
        let is_appended = journal.append(&entry(number, length));
        self.end(number, |record| record.is_gone = !is_appended);
    }

    /// Appends entries of about so many bytes durably; whether that went well.
    pub(super) async fn append_durably(&self, journal: &Journal, lengths: &[usize]) -> bool {
        let numbers: Vec<usize> = lengths.iter().map(|length| self.begin(*length)).collect();
        let bytes = numbers.iter().zip(lengths).map(|(number, length)| entry(*number, *length));
        let bytes: Vec<Vec<u8>> = bytes.collect();
        let entries: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let is_durable = journal.append_durably(&entries).await.is_ok();
        if is_durable {
            let note = |number: &usize| self.end(*number, |record| record.is_durable = true);
            numbers.iter().for_each(note);
        }
        is_durable
    }

    /// Makes a checkpoint of `live` entries, and drops it before its end where that is wanted; whether the journal
    /// went on.
    pub(super) async fn checkpoint(&self, journal: &Journal, live: usize, finish: bool) -> bool {
        let begin = self.tick();
        let checkpoint = journal.begin_checkpoint();
        self.0.borrow_mut().pending.push(Checkpoint { begin, complete: None });
        for _ in 0..live {
            if journal.room(500).await.is_err() {
                return false;
            }
            self.append(journal, 500);
        }
        if !finish {
            return true;
        }
        let complete = Some(self.tick());
        let mine = |it: &&mut Checkpoint| it.begin == begin;
        if let Some(it) = self.0.borrow_mut().pending.iter_mut().find(mine) {
            it.complete = complete;
        }
        let has_finished = checkpoint.finish().await.is_ok();
        if has_finished {
            let mut book = self.0.borrow_mut();
            book.floor = begin;
            book.pending.retain(|it| it.begin > begin);
        }
        has_finished
    }

    /// Flushes the journal: what was appended before is durable then.
    pub(super) async fn flush(&self, journal: &Journal) {
        let has_ended = |it: &(usize, &Record)| it.1.end.is_some() && !it.1.is_gone;
        let ended: Vec<usize> = {
            let book = self.0.borrow();
            book.records.iter().enumerate().filter(has_ended).map(|it| it.0).collect()
        };
        journal.flush().await;
        if !journal.has_failed() {
            let mut book = self.0.borrow_mut();
            ended.into_iter().for_each(|number| book.records[number].is_durable = true);
        }
    }

    /// Takes what an opening has found. Where it is whole, it must be what this history allows.
    pub(super) fn take(&self, replay: &Replay) -> Result<(), String> {
        let found = match replay {
            Replay::Whole(entries) => {
                let found: Result<Vec<usize>, String> =
                    entries.iter().map(|entry| self.number(entry)).collect();
                let found = found?;
                self.judge(&found)?;
                found
            }
            Replay::Fresh | Replay::Another | Replay::Damaged(_) => Vec::new(),
        };
        let now = self.tick();
        let mut book = self.0.borrow_mut();
        let found: HashSet<usize> = found.into_iter().collect();
        for (number, record) in book.records.iter_mut().enumerate() {
            record.is_gone |= !found.contains(&number);
            record.is_durable = true;
            record.end = record.end.or(Some(now));
        }
        book.pending.clear();
        book.floor = 0;
        Ok(())
    }

    fn judge(&self, found: &[usize]) -> Result<(), String> {
        let book = self.0.borrow();
        let mut latest_begin = 0;
        let mut seen = HashSet::default();
        for number in found {
            let record = &book.records[*number];
            if record.is_gone {
                return Err(format!("entry {number} was gone and is back"));
            }
            if !seen.insert(*number) {
                return Err(format!("entry {number} is there twice"));
            }
            if record.end.is_some_and(|end| end < latest_begin) {
                return Err(format!("entry {number} is out of order"));
            }
            latest_begin = latest_begin.max(record.begin);
        }
        let floor = Checkpoint { begin: book.floor, complete: None };
        let ended = book.pending.iter().filter(|it| it.complete.is_some());
        let mut verdicts = std::iter::once(&floor).chain(ended).map(|from| {
            let misses = |what: &str, number| Err(format!("{what} {number}, from {from:?}"));
            for (number, record) in book.records.iter().enumerate().filter(|it| !it.1.is_gone) {
                let is_found = seen.contains(&number);
                let counts = record.begin >= from.begin;
                let is_before = |time: u64| record.end.is_some_and(|end| end <= time);
                if is_found && is_before(from.begin.saturating_sub(1)) {
                    return misses("there is the outdated", number);
                }
                if is_found || !counts {
                    continue;
                }
                if record.is_durable {
                    return misses("there is not the durable", number);
                }
                if from.complete.is_some_and(is_before) {
                    return misses("there is not the checkpoint's", number);
                }
                if latest_begin > 0 && is_before(latest_begin - 1) {
                    return misses("there is a hole at", number);
                }
            }
            Ok(())
        });
        let first = verdicts.next().expect("the floor is one");
        if verdicts.any(|verdict| verdict.is_ok()) { Ok(()) } else { first }
    }

    fn number(&self, bytes: &[u8]) -> Result<usize, String> {
        let book = self.0.borrow();
        let number = bytes.first_chunk().map(|number| u32::from_le_bytes(*number) as usize);
        let is_right = |number: &usize| {
            let record = book.records.get(*number);
            record.is_some_and(|record| entry(*number, record.length) == bytes)
        };
        number.filter(is_right).ok_or_else(|| "an entry that nobody appended".to_owned())
    }

    fn begin(&self, length: usize) -> usize {
        let begin = self.tick();
        let mut book = self.0.borrow_mut();
        let (end, is_durable, is_gone) = (None, false, false);
        book.records.push(Record { length, begin, end, is_durable, is_gone });
        book.records.len() - 1
    }

    fn end(&self, number: usize, change: impl FnOnce(&mut Record)) {
        let now = self.tick();
        let record = &mut self.0.borrow_mut().records[number];
        record.end = Some(now);
        change(record);
    }

    fn tick(&self) -> u64 {
        let mut book = self.0.borrow_mut();
        book.now += 1;
        book.now
    }
}

/// An entry's bytes: its number, and something by which one byte too many or of another is seen.
fn entry(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = (number as u32).to_le_bytes().to_vec();
    bytes.resize(4 + length, (number * 7 + length) as u8);
    bytes
}

/// A few that append, and one that makes checkpoints, until the reactor closes.
pub(super) fn spawn_users(journal: &Journal, history: &History, rng: &mut Rng) {
    let reactor = journal.0.area.reactor.clone();
    for _ in 0..1 + rng.below(4) {
        let (journal, history) = (journal.clone(), history.clone());
        let mut rng = Rng::from_seed(rng.next_u64());
        let clock = reactor.clone();
        reactor.spawn(async move {
            while append_something(&journal, &history, &mut rng).await {
                clock.sleep(std::time::Duration::from_micros(rng.below(3000))).await;
            }
        });
    }
    let (journal, history) = (journal.clone(), history.clone());
    let mut rng = Rng::from_seed(rng.next_u64());
    let clock = reactor.clone();
    reactor.spawn(async move {
        loop {
            clock.sleep(std::time::Duration::from_micros(rng.below(5000))).await;
            let is_due = journal.wants_checkpoint() || rng.chance(1, 20);
            let live = rng.below(60) as usize;
            if is_due && !history.checkpoint(&journal, live, rng.chance(9, 10)).await {
                return;
            }
        }
    });
}

async fn append_something(journal: &Journal, history: &History, rng: &mut Rng) -> bool {
    let length = |rng: &mut Rng| match rng.below(20) {
        0 => rng.below(crate::disk::ENTRY_BYTES_MAX as u64 - 3) as usize,
        1..6 => rng.below(3000) as usize,
        _ => rng.below(200) as usize,
    };
    if rng.chance(1, 3) {
        let lengths: Vec<usize> = (0..1 + rng.below(3)).map(|_| length(rng)).collect();
        history.append_durably(journal, &lengths).await
    } else {
        history.append(journal, length(rng));
        !journal.has_failed()
    }
}
