//! The columns of a schema as files have them: field ids and paths, once for all files that agree.

use crate::footer::Column;

/// No field id; Iceberg's are never negative.
const NONE: i32 = -1;

/// Columns by their index.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct ColumnSet {
    field_ids: Box<[i32]>,
    path_ends: Box<[u32]>,
    paths: Box<str>,
}

impl ColumnSet {
    pub(super) fn new(columns: &[Column]) -> ColumnSet {
        let mut paths = String::with_capacity(columns.iter().map(|column| column.path.len()).sum());
        let ends = columns.iter().map(|column| {
            paths.push_str(&column.path);
            // `footer` bounds the text of all paths to less than that.
            paths.len() as u32
        });
        let path_ends = ends.collect();
        ColumnSet {
            field_ids: columns.iter().map(|column| column.field_id.unwrap_or(NONE)).collect(),
            path_ends,
            paths: paths.into_boxed_str(),
        }
    }

    pub(super) fn field_id(&self, column: u32) -> Option<i32> {
        Some(self.field_ids[column as usize]).filter(|id| *id != NONE)
    }

    pub(super) fn path(&self, column: u32) -> &str {
        let at = column as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.path_ends[before]);
        &self.paths[start as usize..self.path_ends[at] as usize]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        super::SHARED_BYTES
            + size_of::<ColumnSet>()
            + size_of_val::<[i32]>(&self.field_ids)
            + size_of_val::<[u32]>(&self.path_ends)
            + self.paths.len()
    }
}
