//! A footer as the index keeps it: 4 bytes for each range of a file below 4 GiB, 8 above, in one piece of
//! memory that is searched in place. Layout, in words of 32 bits:
//!
//! head (4), starts' low halves, starts' high halves (wide files only), first range of each run, first
//! label of each run. A range ends where the next begins; what is nobody's is a range too.

use std::sync::Arc;

use nilas_base::ByteRange;

use super::columns::ColumnSet;
use crate::footer::{Footer, Part, Span};

/// Words before the starts: ranges, runs, whether starts are wide, columns.
const HEAD_WORDS: usize = 4;
/// The label of what is nobody's.
const NOBODY: u32 = u32::MAX;
/// From one column to the next: the label's last two bits are the part.
const STEP: u32 = Part::ALL.len() as u32;

/// A parsed footer, shared by indexes and the cache that holds it.
#[derive(Clone)]
pub(super) struct PackedFooter {
    words: Arc<[u32]>,
    columns: Arc<ColumnSet>,
}

/// Ranges and the runs of labels they have: within a run each label is one `STEP` above the one before, as
/// writers put columns down one after the other, row group by row group.
#[derive(Default)]
struct Draft {
    starts: Vec<u64>,
    runs: Vec<(u32, u32)>,
    next_label: Option<u32>,
}

impl Draft {
    fn push(&mut self, start: u64, label: u32) {
        if self.next_label != Some(label) || label == NOBODY {
            self.runs.push((self.starts.len() as u32, label));
        }
        self.starts.push(start);
        self.next_label = label.checked_add(STEP);
    }
}

impl PackedFooter {
    /// A footer has at most `CHUNKS_MAX` chunks, so that labels fit.
    pub(super) fn new(footer: &Footer, columns: Arc<ColumnSet>) -> PackedFooter {
        let mut draft = Draft::default();
        let column_count = footer.columns.len() as u32;
        let mut end = 0;
        for Span { row_group, column, part, range } in &footer.spans {
            if draft.starts.is_empty() || range.start > end {
                draft.push(end, NOBODY);
            }
            draft.push(range.start, (row_group * column_count + column) * STEP + *part as u32);
            end = range.end;
        }
        draft.push(end, NOBODY);
        PackedFooter { words: draft.pack(column_count), columns }
    }

    /// Whose the bytes of `range` are.
    pub(super) fn overlaps(&self, range: ByteRange) -> Overlaps<'_> {
        let view = self.view();
        let after = view.partition_point(|start| start <= range.start);
        let span = after.saturating_sub(1);
        let run = view.run_firsts.partition_point(|first| *first as usize <= span);
        Overlaps { view, span, run: run.saturating_sub(1), range, columns: &self.columns }
    }

    pub(super) fn columns(&self) -> &Arc<ColumnSet> {
        &self.columns
    }

    /// Without the columns, which files of one schema share.
    pub(super) fn memory_bytes(&self) -> usize {
        // The allocation is as aligned as the counts before the words.
        let bytes = super::SHARED_BYTES + size_of_val::<[u32]>(&self.words);
        bytes.next_multiple_of(align_of::<usize>())
    }

    fn view(&self) -> View<'_> {
        let (head, words) = self.words.split_at(HEAD_WORDS);
        let (spans, runs) = (head[0] as usize, head[1] as usize);
        let (lows, words) = words.split_at(spans);
        let (highs, words) = words.split_at(if head[2] == 0 { 0 } else { spans });
        let (run_firsts, run_labels) = words.split_at(runs);
        View { lows, highs, run_firsts, run_labels, column_count: head[3] }
    }
}

impl Draft {
    fn pack(self, column_count: u32) -> Arc<[u32]> {
        let Draft { starts, runs, .. } = self;
        let wide = starts.last().is_some_and(|last| *last > u64::from(u32::MAX));
        let head = [starts.len() as u32, runs.len() as u32, u32::from(wide), column_count];
        let lows = starts.iter().map(|start| *start as u32);
        let highs = starts.iter().filter(|_| wide).map(|start| (start >> 32) as u32);
        let firsts = runs.iter().map(|(first, _)| *first);
        let labels = runs.iter().map(|(_, label)| *label);
        let words: Vec<u32> =
            head.into_iter().chain(lows).chain(highs).chain(firsts).chain(labels).collect();
        words.into()
    }
}

/// The words, cut into their parts.
#[derive(Clone, Copy)]
struct View<'a> {
    lows: &'a [u32],
    highs: &'a [u32],
    run_firsts: &'a [u32],
    run_labels: &'a [u32],
    column_count: u32,
}

impl View<'_> {
    fn start(&self, span: usize) -> u64 {
        let high = self.highs.get(span).map_or(0, |high| u64::from(*high) << 32);
        high | u64::from(self.lows[span])
    }

    /// How many ranges begin where `before` still holds.
    fn partition_point(&self, before: impl Fn(u64) -> bool) -> usize {
        if self.highs.is_empty() {
            return self.lows.partition_point(|low| before(u64::from(*low)));
        }
        let (mut from, mut to) = (0, self.lows.len());
        while from < to {
            let middle = from.midpoint(to);
            match before(self.start(middle)) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }
}

/// Bytes of a range that belong to one column of one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Index of the row group.
    pub row_group: u32,
    /// Index of the leaf column in the file; [`Overlaps::path`] names it.
    pub column: u32,
    /// The column's field id, where it has one.
    pub field_id: Option<i32>,
    /// What of it.
    pub part: Part,
    /// How many bytes of the range.
    pub bytes: u64,
}

/// Whose the bytes of a range are, in the file's order.
pub struct Overlaps<'a> {
    view: View<'a>,
    span: usize,
    run: usize,
    range: ByteRange,
    columns: &'a ColumnSet,
}

impl<'a> Overlaps<'a> {
    /// The dotted path of a column; the only name of one that has no field id.
    pub fn path(&self, column: u32) -> &'a str {
        self.columns.path(column)
    }

    /// The label of the range that is looked at, and on to the next one.
    fn advance(&mut self) -> u32 {
        let run_first = self.view.run_firsts[self.run];
        let label = match self.view.run_labels[self.run] {
            NOBODY => NOBODY,
            first => first + (self.span as u32 - run_first) * STEP,
        };
        self.span += 1;
        let next = self.view.run_firsts.get(self.run + 1);
        self.run += usize::from(next.is_some_and(|first| *first as usize == self.span));
        label
    }
}

impl Iterator for Overlaps<'_> {
    type Item = Overlap;

    fn next(&mut self) -> Option<Overlap> {
        // What the last start begins is nobody's, up to the footer.
        while self.span + 1 < self.view.lows.len() {
            let start = self.view.start(self.span).max(self.range.start);
            let end = self.view.start(self.span + 1).min(self.range.end);
            if start >= end {
                return None;
            }
            let label = self.advance();
            if label != NOBODY {
                let chunk = label / STEP;
                let column = chunk % self.view.column_count;
                return Some(Overlap {
                    row_group: chunk / self.view.column_count,
                    column,
                    field_id: self.columns.field_id(column),
                    part: Part::ALL[(label % STEP) as usize],
                    bytes: end - start,
                });
            }
        }
        None
    }
}
