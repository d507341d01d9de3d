//! A footer as the index keeps it: 4 bytes for each range of a file below 4 GiB, 8 above, and a fifteenth for
//! finding them, in one piece of memory that is searched in place. Layout, in words of 32 bits:
//!
//! head (4), first range of each run, first label of each run, starts. A range ends where the next begins; what
//! is nobody's is a range too. Before the starts stands every sixteenth of them, before those every sixteenth
//! of these, down to sixteen: each step of a search reads one cache line.

use std::sync::Arc;

use nilas_base::ByteRange;

use super::columns::ColumnSet;
use crate::footer::{Footer, Part, Span};

/// Words before the runs: ranges, runs, words of a start, columns.
const HEAD_WORDS: usize = 4;
/// Starts that one step of a search looks at: 16 words are a cache line.
const FAN: usize = 16;
/// Steps of a search: a footer has fewer than 16⁷ ranges.
const STEPS_MAX: usize = 7;
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
        let span = view.find(range.start);
        let run = view.run_firsts.partition_point(|first| *first as usize <= span) - 1;
        Overlaps { view, span, run, range, columns: &self.columns }
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
        let [spans, runs, width] = [head[0], head[1], head[2]].map(|it| it as usize);
        let (run_firsts, words) = words.split_at(runs);
        let (run_labels, tree) = words.split_at(runs);
        let starts = &tree[tree.len() - spans * width..];
        View { tree, starts, width, run_firsts, run_labels, column_count: head[3] }
    }
}

impl Draft {
    fn pack(self, column_count: u32) -> Arc<[u32]> {
        let Draft { starts, runs, .. } = self;
        let wide = starts.last().is_some_and(|last| *last > u64::from(u32::MAX));
        let width = 1 + usize::from(wide);
        let mut words = vec![starts.len() as u32, runs.len() as u32, width as u32, column_count];
        words.extend(runs.iter().map(|(first, _)| *first));
        words.extend(runs.iter().map(|(_, label)| *label));
        let (sizes, steps) = level_sizes(starts.len());
        for step in (0..steps).rev() {
            let level = starts.iter().step_by(FAN.pow(step as u32));
            debug_assert_eq!(level.len(), sizes[step], "what a search reckons with");
            for start in level {
                words.push(*start as u32);
                words.extend(wide.then_some((start >> 32) as u32));
            }
        }
        words.into()
    }
}

/// How many starts each level has, the widest first, and how many levels there are.
fn level_sizes(spans: usize) -> ([usize; STEPS_MAX], usize) {
    let mut sizes = [0; STEPS_MAX];
    sizes[0] = spans;
    let mut steps = 1;
    while sizes[steps - 1] > FAN {
        sizes[steps] = sizes[steps - 1].div_ceil(FAN);
        steps += 1;
    }
    (sizes, steps)
}

/// The words, cut into their parts.
#[derive(Clone, Copy)]
struct View<'a> {
    /// All levels; `starts` is the last.
    tree: &'a [u32],
    starts: &'a [u32],
    width: usize,
    run_firsts: &'a [u32],
    run_labels: &'a [u32],
    column_count: u32,
}

impl View<'_> {
    fn spans(&self) -> usize {
        self.starts.len() / self.width
    }

    fn start(&self, span: usize) -> u64 {
        start_at(self.starts, span, self.width)
    }

    /// The last range that begins at or before `at`; the first begins at 0.
    fn find(&self, at: u64) -> usize {
        let (sizes, steps) = level_sizes(self.spans());
        let mut tree = self.tree;
        let mut found = 0;
        for size in sizes[..steps].iter().rev() {
            let (level, below) = tree.split_at(size * self.width);
            let node = found * FAN..(found * FAN + FAN).min(*size);
            let before = node.clone().filter(|it| start_at(level, *it, self.width) <= at).count();
            found = node.start + before - 1;
            tree = below;
        }
        found
    }
}

fn start_at(level: &[u32], at: usize, width: usize) -> u64 {
    match width {
        1 => u64::from(level[at]),
        _ => u64::from(level[2 * at]) | u64::from(level[2 * at + 1]) << 32,
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
        while self.span + 1 < self.view.spans() {
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
