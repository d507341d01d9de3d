//! The families of the watched catalogs' tables on the Prometheus page. Tables are counted by catalog, not
//! told one by one: `/admin/tables` does that.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exposition::Exposition;
use crate::tables::{Shelved, Tables};

/// What is counted of one catalog's tables.
#[derive(Default)]
struct Counts {
    read: u64,
    warm: u64,
    unreadable: u64,
    faults: u64,
    warmed_bytes: u64,
    left_out: u64,
    failed: u64,
    memory_bytes: u64,
}

impl Counts {
    fn add(&mut self, table: &Shelved) {
        self.read += u64::from(table.state.is_some() && table.indexed == table.generation);
        let is_current = table.warmth.generation == table.generation;
        self.warm += u64::from(is_current && table.is_wholly_warm());
        self.unreadable += u64::from(table.trouble.is_some());
        self.faults += table.state.as_ref().map_or(0, |state| state.faults().count());
        self.warmed_bytes += table.warmth.done_bytes;
        self.left_out += table.warmth.left_out;
        self.failed += table.warmth.failed;
        self.memory_bytes += table.memory_bytes;
    }
}

/// A family: its name, what it says, and how it is read off.
type Family = (&'static str, &'static str, fn(&Counts) -> u64);

const FAMILIES: &[Family] = &[
    ("nilas_tables_read", "Tables whose files the shards know.", |it| it.read),
    ("nilas_tables_warm", "Tables whose planning metadata is at hand.", |it| it.warm),
    (
        "nilas_tables_unreadable",
        "Tables of which something may be had later, or nothing is known.",
        |it| it.unreadable,
    ),
    ("nilas_table_faults", "Pieces of tables that are not what they should be.", |it| it.faults),
    ("nilas_table_warmed_bytes", "Planning metadata at hand, in bytes.", |it| it.warmed_bytes),
    ("nilas_table_parts_left_out", "Parts of it that there is no room for.", |it| it.left_out),
    ("nilas_table_parts_failed", "Parts of it that cannot be had.", |it| it.failed),
    ("nilas_table_memory_bytes", "Memory for what manifests say, in bytes.", |it| it.memory_bytes),
];

/// The families, in order; nothing where no table is known.
pub fn tables_text(tables: &Tables) -> String {
    let mut counts: BTreeMap<Arc<str>, Counts> = BTreeMap::new();
    for (id, table) in tables.shelf().tables().iter() {
        counts.entry(Arc::clone(&id.catalog)).or_default().add(table);
    }
    let mut page = Exposition::default();
    if counts.is_empty() {
        return page.into_text();
    }
    for (name, help, read) in FAMILIES {
        let mut family = page.gauge(name, help);
        for (catalog, counts) in &counts {
            family.sample(&[("catalog", catalog)], read(counts));
        }
    }
    let index = tables.index();
    let (footers, footer_bytes) = tables.footers();
    for (name, help, value) in [
        ("nilas_table_index_files", "Files that tables vouch for.", index.file_count()),
        ("nilas_table_index_bytes", "Memory of their index, in bytes.", index.memory_bytes()),
        ("nilas_table_footers", "Parsed footers.", footers),
        ("nilas_table_footer_bytes", "Memory of these, in bytes.", footer_bytes),
    ] {
        page.gauge(name, help).sample(&[], value);
    }
    page.into_text()
}
