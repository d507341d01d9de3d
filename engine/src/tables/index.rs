//! From the states on the shelf to what the shards know: an index of all files, built beside the one that
//! is in use, and the files that no snapshot lists any more. A file that some state lists stays vouched
//! for until a state that says everything does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nilas_base::{HashMap, HashSet};
use nilas_iceberg::change::{Change, is_another_table};
use nilas_iceberg::manifest::{Content, File, FilePath, Format};
use nilas_iceberg::mapper::{
    FileFormat, FileKind, FooterCache, ListedFile, Mapper, MapperBuilder, PathHash, TableNumber,
};
use nilas_iceberg::state::TableState;
use nilas_shards::processor_time;

use super::places::Places;
use super::read::blocking;
use super::shelf::{Generation, Shelf, TableId};
use crate::authority::{Announcement, AuthorityPort, Retired, TableRoots};
use crate::catalog::Catalogs;
use crate::freshness::Vouchers;

/// How long news are gathered before an index is built of them, and how many times as long as the last one kept a
/// processor: a large index that changes again and again takes a fifth of one. What the building waited for a processor
/// does not count: a busy node would then hear of commits the later the busier it is.
const GATHER: Duration = Duration::from_millis(20);
const REST_FACTOR: u32 = 4;
/// What it is taken for where the kernel does not tell.
const SPENT_UNKNOWN: Duration = Duration::from_millis(100);
/// States of a table that the index has beside each other: one that says everything, and later ones that
/// do not. Of more, the oldest of those is no longer compared with.
const STATES_MAX: usize = 8;

/// What the index has of one table.
#[derive(Default)]
struct Shown {
    generation: Generation,
    /// The last that said everything first, if there was one; all others are in part.
    states: Vec<Arc<TableState>>,
}

/// A table whose state is not what the index has.
struct News {
    id: TableId,
    generation: Generation,
    state: Option<Arc<TableState>>,
    shown: Vec<Arc<TableState>>,
}

/// An index with the news in it, what the one before had and this one has not, and how long it kept a processor.
struct Built {
    mapper: Mapper,
    news: Vec<News>,
    left: Left,
    spent: Duration,
}

/// Builds indexes, and tells the shards.
pub(super) struct Indexer {
    pub(super) shelf: Shelf,
    pub(super) places: Places,
    pub(super) catalogs: Catalogs,
    pub(super) authority: AuthorityPort,
    pub(super) footers: Arc<Mutex<FooterCache>>,
    pub(super) latest: Latest,
}

/// The index that the shards have; clones are the same.
#[derive(Clone)]
pub struct Latest(Arc<Mutex<Arc<Mapper>>>);

impl Latest {
    /// An empty one.
    pub fn new(hash: &Arc<PathHash>, footers: &mut FooterCache) -> Latest {
        let mapper = MapperBuilder::new(Arc::clone(hash)).build(footers);
        Latest(Arc::new(Mutex::new(Arc::new(mapper))))
    }

    /// The index of the moment.
    pub fn get(&self) -> Arc<Mapper> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, mapper: Arc<Mapper>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = mapper;
    }
}

impl Indexer {
    /// Builds an index whenever there are news, until the node stops.
    pub(super) async fn run(self) {
        let mut shown: BTreeMap<TableId, Shown> = BTreeMap::new();
        let mut was_whole = false;
        let mut rest = Duration::ZERO;
        let mut told = Vouchers::default();
        loop {
            self.shelf.changed().await;
            tokio::time::sleep(rest.max(GATHER)).await;
            let news = self.news(&shown);
            let Built { mapper, news, left, spent } = self.build(news).await;
            rest = spent * REST_FACTOR;
            note(&mut shown, &news);
            let (roots, is_whole) = self.reach(&news);
            let roots = Arc::new(roots);
            let must_sweep = is_whole && !was_whole;
            was_whole |= is_whole;
            let mapper = Arc::new(mapper);
            self.latest.set(Arc::clone(&mapper));
            let vouchers = Vouchers { files: Some(mapper), roots, is_whole };
            let before = std::mem::replace(&mut told, vouchers.clone());
            let Left { gone, replaced } = left;
            let announcement = Announcement { vouchers, gone, replaced, must_sweep };
            if !self.authority.announce(announcement).await {
                return;
            }
            // No shard holds it any more, so that none spends its time on freeing it.
            drop(before);
            for News { id, generation, .. } in news {
                self.shelf.with(&id, |table| table.indexed = generation);
            }
            self.shelf.tell_indexed();
        }
    }

    /// Tables whose states are others than the index has, and tables that are no more.
    fn news(&self, shown: &BTreeMap<TableId, Shown>) -> Vec<News> {
        let tables = self.shelf.tables();
        let of = |id: &TableId| shown.get(id).map_or_else(Vec::new, |shown| shown.states.clone());
        let came = tables.iter().filter(|(id, table)| {
            table.generation != shown.get(id).map_or(0, |shown| shown.generation)
        });
        let mut news: Vec<News> = came
            .map(|(id, table)| {
                let (generation, state) = (table.generation, table.state.clone());
                News { id: id.clone(), generation, state, shown: of(id) }
            })
            .collect();
        let went = shown.keys().filter(|id| !tables.contains_key(id));
        news.extend(went.map(|id| {
            let (generation, state) = (Generation::MAX, None);
            News { id: id.clone(), generation, state, shown: of(id) }
        }));
        news
    }

    async fn build(&self, news: Vec<News>) -> Built {
        let (old, places) = (self.latest.get(), self.places.clone());
        let footers = Arc::clone(&self.footers);
        blocking(move || {
            let before = processor_time();
            let mut footers = footers.lock().unwrap_or_else(PoisonError::into_inner);
            footers.note_uses(&old);
            let (mapper, left) = match news.is_empty() {
                true => (old.with_footers(&mut footers), Left::default()),
                false => build(&old, &news, &places, &mut footers),
            };
            let times = before.and_then(|before| Ok((before, processor_time()?)));
            let spent = times.map_or(SPENT_UNKNOWN, |(before, after)| after - before);
            Built { mapper, news, left, spent }
        })
        .await
    }

    /// What the index speaks for, once these news are told: the folders of the tables of which everything is known, and
    /// whether these are all tables of all catalogs.
    fn reach(&self, news: &[News]) -> (TableRoots, bool) {
        let told: HashMap<&TableId, Generation> =
            news.iter().map(|news| (&news.id, news.generation)).collect();
        let catalogs = self.catalogs.snapshots();
        let tables = self.shelf.tables();
        let whole = tables.iter().filter_map(|(id, table)| {
            let indexed = told.get(id).copied().unwrap_or(table.indexed);
            let state = table.state.as_ref().filter(|state| state.is_complete())?;
            (indexed == table.generation).then_some((id, state))
        });
        let whole: HashMap<&TableId, &Arc<TableState>> = whole.collect();
        let folder = |state: &&Arc<TableState>| self.places.folder(&state.metadata().location);
        let roots = TableRoots::new(whole.values().filter_map(folder));
        let is_whole = catalogs.iter().all(|catalog| {
            let names = catalog.tables.keys().cloned();
            let mut ids = names.map(|name| TableId { catalog: Arc::clone(&catalog.name), name });
            catalog.listed_at.is_some()
                && catalog.listing_troubles.is_empty()
                && ids.all(|id| whole.contains_key(&id))
        });
        (roots, is_whole)
    }
}

/// Remembers what the index has from now on.
fn note(shown: &mut BTreeMap<TableId, Shown>, news: &[News]) {
    for News { id, generation, state, .. } in news {
        if *generation == Generation::MAX {
            shown.remove(id);
            continue;
        }
        let shown = shown.entry(id.clone()).or_default();
        shown.generation = *generation;
        let Some(state) = state else { continue };
        if state.is_complete() || is_replaced(&shown.states, state) {
            shown.states.clear();
        } else if shown.states.len() >= STATES_MAX {
            shown.states.remove(1);
        }
        shown.states.push(Arc::clone(state));
    }
}

/// Builds an index; `footers` keeps those whose files it has.
fn build(
    old: &Mapper,
    news: &[News],
    places: &Places,
    footers: &mut FooterCache,
) -> (Mapper, Left) {
    let mut builder = MapperBuilder::from_old(old);
    let (mut gone, mut replaced) = (Vec::new(), Vec::new());
    for News { id, generation, state, shown } in news {
        let table = builder.table(&id.to_string());
        match (state, &shown[..]) {
            (None, states) if *generation == Generation::MAX => {
                builder.drop_table(table);
                states.iter().for_each(|state| all_paths(state, &mut gone));
            }
            // What is not known any more may be true still.
            (None, _) => {}
            (Some(state), states) if is_replaced(states, state) => {
                builder.drop_table(table);
                states.iter().for_each(|state| all_paths(state, &mut replaced));
                list_all(&mut builder, table, places, state);
            }
            (Some(state), [before]) if state.is_complete() && before.is_complete() => {
                change(&mut builder, table, places, (before, state), &mut gone);
            }
            (Some(state), states) => {
                if state.is_complete() {
                    builder.drop_table(table);
                    states.iter().for_each(|state| all_paths(state, &mut gone));
                }
                list_all(&mut builder, table, places, state);
            }
        }
    }
    let mapper = builder.build(footers);
    let object = |path: &str| {
        let (bucket, key) = places.object(path)?;
        Some((Box::from(bucket), Box::from(key)))
    };
    let is_listed = |(bucket, key): &(Box<str>, Box<str>)| {
        mapper.file(bucket.as_bytes(), key.as_bytes()).is_some()
    };
    let gone =
        gone.iter().filter_map(|path| object(path)).filter(|name| !is_listed(name)).collect();
    let replaced = replaced.iter().filter_map(|path| object(path)).collect();
    (mapper, Left { gone, replaced })
}

/// What an index has not, and the one before had.
#[derive(Default)]
struct Left {
    /// What no table lists any more.
    gone: Retired,
    /// What another table had, whose name a new one has taken: it may list other bytes under the same path.
    replaced: Retired,
}

/// Whether a state is of another table than those that the index has under its name.
fn is_replaced(shown: &[Arc<TableState>], state: &TableState) -> bool {
    shown.iter().any(|shown| is_another_table(shown.metadata(), state.metadata()))
}

/// Lists everything of a table.
fn list_all(builder: &mut MapperBuilder, table: TableNumber, places: &Places, state: &TableState) {
    let mut listing = Listing { builder, table, places };
    state.live_files().for_each(|file| listing.file(file));
    state.objects().into_iter().for_each(|path| listing.object(state, path));
}

/// Brings an index from one whole state of a table to the next.
fn change(
    builder: &mut MapperBuilder,
    table: TableNumber,
    places: &Places,
    (before, after): (&TableState, &TableState),
    gone: &mut Vec<Box<str>>,
) {
    let change = Change::between(before, after);
    // A Puffin file that has lost one of its vectors is listed for the others.
    let vectors = |file: &File<'_>| file.content == Content::DeletionVector;
    let has_lost_vectors = change.removed.iter().any(|it| vectors(&it.file()));
    let still_listed: HashSet<FilePath<'_>> = match has_lost_vectors {
        true => after.live_files().filter(vectors).map(|file| file.path).collect(),
        false => HashSet::default(),
    };
    let removed = change.removed.iter().map(|it| it.file().path);
    let files = removed.filter(|path| !still_listed.contains(path)).map(|it| it.to_string());
    for path in files.chain(change.objects_removed.iter().map(|path| path.to_string())) {
        if let Some((bucket, key)) = places.object(&path) {
            builder.remove(bucket.as_bytes(), key.as_bytes(), table);
        }
        gone.push(path.into());
    }
    let mut listing = Listing { builder, table, places };
    change.added.iter().for_each(|added| listing.file(added.file()));
    change.objects_added.iter().for_each(|path| listing.object(after, path));
}

fn all_paths(state: &TableState, paths: &mut Vec<Box<str>>) {
    paths.extend(state.live_files().map(|file| file.path.to_string().into()));
    paths.extend(state.objects().into_iter().map(|path| Box::from(&**path)));
}

struct Listing<'a> {
    builder: &'a mut MapperBuilder,
    table: TableNumber,
    places: &'a Places,
}

impl Listing<'_> {
    fn file(&mut self, file: File<'_>) {
        let path = file.path.to_string();
        let Some((bucket, key)) = self.places.object(&path) else { return };
        let partition = self.builder.partition(self.table, &file.partition.text);
        let (kind, format) = (kind(file.content), format(file.format));
        let listed = ListedFile { partition, kind, format, bytes: file.size, rows: file.records };
        self.builder.add(bucket.as_bytes(), key.as_bytes(), listed);
    }

    fn object(&mut self, state: &TableState, path: &str) {
        let Some((bucket, key)) = self.places.object(path) else { return };
        let partition = self.builder.partition(self.table, "");
        let (kind, format, bytes) = object_kind(state, path);
        let listed = ListedFile { partition, kind, format, bytes, rows: 0 };
        self.builder.add(bucket.as_bytes(), key.as_bytes(), listed);
    }
}

/// What an object of a table's metadata is.
fn object_kind(state: &TableState, path: &str) -> (FileKind, FileFormat, u64) {
    let metadata = state.metadata();
    if let Some(manifest) = state.manifest_file(path) {
        return (FileKind::Manifest, FileFormat::Avro, manifest.length);
    }
    if let Some(file) = metadata.statistics.iter().find(|file| *file.path == *path) {
        return (FileKind::Statistics, FileFormat::Puffin, file.size);
    }
    if let Some(file) = metadata.partition_statistics.iter().find(|file| *file.path == *path) {
        return (FileKind::Statistics, FileFormat::Other, file.size);
    }
    let is_list = metadata.snapshots.iter().any(|it| it.manifest_list.as_deref() == Some(path));
    match is_list {
        true => (FileKind::ManifestList, FileFormat::Avro, 0),
        false => (FileKind::Metadata, FileFormat::Json, 0),
    }
}

fn kind(content: Content) -> FileKind {
    match content {
        Content::Data => FileKind::Data,
        Content::PositionDeletes => FileKind::PositionDeletes,
        Content::EqualityDeletes => FileKind::EqualityDeletes,
        Content::DeletionVector => FileKind::DeletionVector,
        Content::Other => FileKind::Other,
    }
}

fn format(format: Format) -> FileFormat {
    match format {
        Format::Parquet => FileFormat::Parquet,
        Format::Avro => FileFormat::Avro,
        Format::Orc => FileFormat::Orc,
        Format::Puffin => FileFormat::Puffin,
        Format::Other => FileFormat::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use nilas_iceberg::mapper::SECRET_BYTES;

    use super::*;
    use crate::tables::Tables;

    #[tokio::test]
    async fn the_index_before_is_freed_here_once_every_shard_has_let_go_of_it() {
        let (authority, mut shards) = AuthorityPort::pair();
        let tables = Tables::none();
        let hash = Arc::new(PathHash::new(&[0; SECRET_BYTES]));
        let mut footers = FooterCache::new(Arc::clone(&hash), 0);
        let latest = Latest::new(&hash, &mut footers);
        let indexer = Indexer {
            shelf: tables.shelf().clone(),
            places: Places { buckets: Vec::new(), directory: None },
            catalogs: Catalogs::default(),
            authority,
            footers: Arc::new(Mutex::new(footers)),
            latest,
        };
        let shelf = indexer.shelf.clone();
        let indexing = tokio::spawn(indexer.run());
        let mut held: Option<Vouchers> = None;
        let mut before: Weak<Mapper> = Weak::new();
        for number in 0..3 {
            shelf.tell_changed();
            let (announcement, heard) = shards.next().await.expect("it runs");
            // As a shard takes it in the place of the one before.
            let let_go = held.replace(announcement.vouchers).is_some();
            assert_eq!(before.upgrade().is_some(), let_go, "{number}: freed by a shard");
            let files = held.as_ref().and_then(|it| it.files.as_ref()).expect("an index");
            before = Arc::downgrade(files);
            heard.send(()).expect("it waits");
        }
        indexing.abort();
    }
}
