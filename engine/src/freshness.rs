//! How long a mapping may be believed (spec/cache.md §4): watched catalogs vouch for the files of their
//! tables; Iceberg's names and the operator's globs show what else never changes; the rest has a time to
//! live. Whether a `data/` folder belongs to a table is learnt once, from a request for its metadata or
//! by a listing, and kept.

use std::sync::Arc;
use std::time::Duration;

use nilas_base::{HashMap, Monotonic};
use nilas_iceberg::mapper::Mapper;

use crate::authority::TableRoots;
use crate::config::Glob;
use crate::identity::NameRef;
use crate::mapping::Freshness;
use crate::naming::{NameClass, name_class, table_root_of_metadata, table_roots};
use crate::purge::PurgeScope;

/// Table roots remembered, tables and others together. Above it nothing more is remembered: a root
/// then costs its readers a revalidation, as any mutable object does.
pub const TABLE_ROOTS_MAX: usize = 100_000;

/// The operator's rules.
#[derive(Clone, Debug)]
pub struct FreshnessRules {
    /// How long a mutable object's mapping is believed; zero for not at all.
    pub mutable_ttl: Duration,
    /// How long after that it is still served while the origin gives no answer.
    pub stale_if_error: Duration,
    /// Patterns on `bucket/key` of what never changes.
    pub immutable_globs: Vec<Glob>,
    /// Whether catalogs are watched, which may vouch for more.
    pub watches_catalogs: bool,
}

/// What is known of an object's mutability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    /// It never changes, but by a write that passes through the node.
    Immutable,
    /// It may change at any time.
    Mutable,
    /// A data file, if the root above it is a table's; nobody has asked yet.
    Undecided,
}

/// What says of an object that it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voucher {
    /// Its name, or a pattern of the operator's: it says so as long as the rules do.
    Rule,
    /// The table whose data file it is: seen once, it has said so for good.
    Table,
    /// A watched catalog, one of whose tables lists it: it says so as long as a snapshot has it.
    Catalog,
}

/// What the watched catalogs say.
#[derive(Clone, Default)]
pub struct Vouchers {
    /// Every file of every table that was read, by its path.
    pub files: Option<Arc<Mapper>>,
    /// The folders of the tables of which everything is known: what lies there and is not listed is nobody's.
    pub roots: Arc<TableRoots>,
    /// Whether that is all of them: what is missing is then no table's.
    pub is_whole: bool,
}

impl std::fmt::Debug for Vouchers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = self.files.as_ref().map(|files| files.file_count());
        out.debug_struct("Vouchers")
            .field("files", &files)
            .field("is_whole", &self.is_whole)
            .finish()
    }
}

/// The rules, and the roots of tables that were seen.
#[derive(Debug)]
pub struct FreshnessJudge {
    rules: FreshnessRules,
    vouchers: Vouchers,
    roots: HashMap<Box<str>, HashMap<Box<str>, bool>>,
    known: usize,
}

impl FreshnessJudge {
    /// A judge that has seen no table yet.
    pub fn new(rules: FreshnessRules) -> FreshnessJudge {
        let vouchers = Vouchers::default();
        FreshnessJudge { rules, vouchers, roots: HashMap::default(), known: 0 }
    }

    /// Takes what the catalogs say now in the place of what they said.
    pub fn take_vouchers(&mut self, vouchers: Vouchers) {
        self.vouchers = vouchers;
    }

    /// Whether a watched catalog vouches for an object.
    pub fn is_vouched(&self, name: NameRef<'_>) -> bool {
        let files = self.vouchers.files.as_ref();
        files.is_some_and(|it| it.file(name.bucket.as_bytes(), name.key.as_bytes()).is_some())
    }

    /// What is known of an object's mutability now.
    pub fn mutability(&self, name: NameRef<'_>) -> Mutability {
        if self.matches_a_glob(name) || self.is_vouched(name) {
            return Mutability::Immutable;
        }
        // There the catalog has the last word, not the name.
        if self.vouchers.roots.contains(name) {
            return Mutability::Mutable;
        }
        match name_class(name.key) {
            NameClass::Metadata => Mutability::Immutable,
            NameClass::Plain => Mutability::Mutable,
            NameClass::DataFile => self.data_file_mutability(name),
        }
    }

    /// Whether rules alone show that an object never changes, whatever catalogs say.
    pub fn is_immutable_by_rule(&self, name: NameRef<'_>) -> bool {
        self.mutability(name) == Mutability::Immutable && !self.is_vouched(name)
    }

    fn data_file_mutability(&self, name: NameRef<'_>) -> Mutability {
        let known = self.roots.get(name.bucket);
        let mut undecided = false;
        for root in table_roots(name.key) {
            match known.and_then(|roots| roots.get(root)) {
                Some(true) => return Mutability::Immutable,
                Some(false) => {}
                None => undecided = true,
            }
        }
        if undecided && self.known < TABLE_ROOTS_MAX {
            Mutability::Undecided
        } else {
            Mutability::Mutable
        }
    }

    /// What vouches for an object that is immutable.
    pub fn voucher(&self, name: NameRef<'_>) -> Voucher {
        match name_class(name.key) {
            _ if self.matches_a_glob(name) => Voucher::Rule,
            NameClass::Metadata => Voucher::Rule,
            _ if self.is_vouched(name) => Voucher::Catalog,
            NameClass::DataFile => Voucher::Table,
            NameClass::Plain => Voucher::Rule,
        }
    }

    /// Whether an object is still immutable that something vouched for before the node was started.
    /// A table that was seen then need not be seen anew, nor a catalog's word be heard again that is still
    /// watched and has not said everything yet.
    pub fn still_believes(&self, name: NameRef<'_>, voucher: Voucher) -> bool {
        let may_vouch = self.rules.watches_catalogs && !self.vouchers.is_whole;
        match (self.mutability(name), voucher) {
            (Mutability::Immutable, _) | (Mutability::Undecided, Voucher::Table) => true,
            (_, Voucher::Catalog) => may_vouch,
            (Mutability::Undecided | Mutability::Mutable, _) => false,
        }
    }

    fn matches_a_glob(&self, name: NameRef<'_>) -> bool {
        let globs = &self.rules.immutable_globs;
        !globs.is_empty() && {
            let path = format!("{}/{}", name.bucket, name.key);
            globs.iter().any(|glob| glob.matches(&path))
        }
    }

    /// The freshness of a mapping learnt or confirmed at `now`.
    pub fn freshness(&self, name: NameRef<'_>, now: Monotonic) -> Freshness {
        match self.mutability(name) {
            Mutability::Immutable => Freshness::Immutable,
            _ => Freshness::Until(now.after(self.rules.mutable_ttl)),
        }
    }

    /// The roots above a key that nobody has asked about yet.
    pub fn undecided_roots(&self, name: NameRef<'_>) -> Vec<String> {
        let known = self.roots.get(name.bucket);
        table_roots(name.key)
            .filter(|root| known.is_none_or(|roots| !roots.contains_key(*root)))
            .map(str::to_owned)
            .collect()
    }

    /// Whether a root is known to be a table's.
    pub fn knows_table(&self, bucket: &str, root: &str) -> bool {
        self.roots.get(bucket).and_then(|roots| roots.get(root)) == Some(&true)
    }

    /// Whether it has been settled if a root is a table's.
    pub fn knows_root(&self, bucket: &str, root: &str) -> bool {
        self.roots.get(bucket).is_some_and(|roots| roots.contains_key(root))
    }

    /// Remembers whether a root is a table's; says whether that is news.
    pub fn note_root(&mut self, bucket: &str, root: &str, is_table: bool) -> bool {
        let roots = self.roots.entry_ref(bucket).or_default();
        if let Some(known) = roots.get_mut(root) {
            // A table may appear where there was none; what was one keeps its files unchanged.
            let news = is_table && !*known;
            *known |= is_table;
            return news;
        }
        if self.known >= TABLE_ROOTS_MAX {
            return false;
        }
        self.known += 1;
        roots.insert(root.into(), is_table);
        true
    }

    /// Forgets what was learnt of roots that a purge concerns.
    pub fn forget_roots(&mut self, bucket: &str, purged: &PurgeScope) {
        let Some(roots) = self.roots.get_mut(bucket) else { return };
        let before = roots.len();
        roots.retain(|root, _| !concerns_root(purged, root));
        self.known -= before - roots.len();
        if roots.is_empty() {
            self.roots.remove(bucket);
        }
    }

    /// Whether readers may share one answer of the origin. Where a mutable object is not believed
    /// for any time, each of its readers is to be told what is so after it asked.
    pub fn may_share(&self, name: NameRef<'_>) -> bool {
        !self.rules.mutable_ttl.is_zero() || self.mutability(name) == Mutability::Immutable
    }
}

/// Whether a root lies under what was purged, or was learnt from what lies there.
fn concerns_root(purged: &PurgeScope, root: &str) -> bool {
    match purged {
        PurgeScope::Bucket => true,
        PurgeScope::Key(key) => {
            table_root_of_metadata(key) == Some(root) || table_roots(key).any(|known| known == root)
        }
        PurgeScope::Prefix(prefix) => {
            root.starts_with(prefix)
                || prefix.strip_prefix(root).is_some_and(|rest| {
                    ["metadata/", "data/"]
                        .iter()
                        .any(|folder| rest.starts_with(folder) || folder.starts_with(rest))
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use nilas_iceberg::mapper::{
        FileFormat, FileKind, FooterCache, ListedFile, MapperBuilder, PathHash, SECRET_BYTES,
    };

    use super::*;

    fn judge(globs: &[&str]) -> FreshnessJudge {
        FreshnessJudge::new(FreshnessRules {
            mutable_ttl: Duration::from_secs(5),
            stale_if_error: Duration::ZERO,
            immutable_globs: globs.iter().map(|glob| Glob::new(glob)).collect(),
            watches_catalogs: true,
        })
    }

    fn name(key: &str) -> NameRef<'_> {
        NameRef { bucket: "lake", key }
    }

    #[test]
    fn a_data_file_is_immutable_once_its_table_was_seen() {
        let mut judge = judge(&[]);
        let file = name("db/t/data/x.parquet");
        assert_eq!(judge.mutability(file), Mutability::Undecided);
        assert_eq!(judge.undecided_roots(file), ["db/t/"]);
        assert!(judge.note_root("lake", "db/t/", true));
        assert!(!judge.note_root("lake", "db/t/", true), "twice is no news");
        assert_eq!(judge.mutability(file), Mutability::Immutable);
        assert_eq!(
            judge.mutability(NameRef { bucket: "other", key: file.key }),
            Mutability::Undecided
        );
    }

    #[test]
    fn a_folder_that_is_no_tables_leaves_its_files_mutable_until_one_appears() {
        let mut judge = judge(&[]);
        let file = name("logs/data/x");
        judge.note_root("lake", "logs/", false);
        assert_eq!(judge.mutability(file), Mutability::Mutable);
        assert!(judge.note_root("lake", "logs/", true), "a table that appears is news");
        assert_eq!(judge.mutability(file), Mutability::Immutable);
        judge.note_root("lake", "logs/", false);
        assert_eq!(judge.mutability(file), Mutability::Immutable, "a table stays one");
    }

    #[test]
    fn a_purge_forgets_the_roots_that_it_concerns() {
        let prefix = |text: &str| PurgeScope::Prefix(text.to_owned());
        let key = |text: &str| PurgeScope::Key(text.to_owned());
        for (purged, is_forgotten) in [
            (PurgeScope::Bucket, true),
            (prefix("db/"), true),
            (prefix("db/t/"), true),
            (prefix("db/t/meta"), true),
            (prefix("db/t/metadata/v1"), true),
            (prefix("db/t/data/p=1/"), true),
            (key("db/t/metadata/v1.metadata.json"), true),
            (key("db/t/data/x.parquet"), true),
            (prefix("db/t2/"), false),
            (prefix("db/t/other/"), false),
            (key("db/t/metadata/snap-1.avro"), false),
        ] {
            let mut judge = judge(&[]);
            judge.note_root("lake", "db/t/", true);
            judge.forget_roots("pond", &purged);
            assert!(judge.knows_table("lake", "db/t/"));
            judge.forget_roots("lake", &purged);
            assert_eq!(!judge.knows_root("lake", "db/t/"), is_forgotten, "{purged:?}");
            assert_eq!(judge.known, usize::from(!is_forgotten));
        }
    }

    #[test]
    fn a_glob_makes_what_it_matches_immutable() {
        let judge = judge(&["lake/archive/**"]);
        assert_eq!(judge.mutability(name("archive/a/b")), Mutability::Immutable);
        assert_eq!(judge.mutability(name("current/a")), Mutability::Mutable);
    }

    #[test]
    fn what_was_vouched_for_is_believed_again_unless_the_rules_or_the_table_say_otherwise() {
        let mut before = judge(&["lake/archive/**"]);
        before.note_root("lake", "db/t/", true);
        let [metadata, file, archived] =
            ["db/t/metadata/a.avro", "db/t/data/a.parquet", "archive/data/a"].map(name);
        let vouchers = [metadata, file, archived].map(|name| before.voucher(name));
        assert_eq!(vouchers, [Voucher::Rule, Voucher::Table, Voucher::Rule]);
        let mut after = judge(&[]);
        assert!(after.still_believes(metadata, Voucher::Rule));
        assert!(after.still_believes(file, Voucher::Table));
        assert!(!after.still_believes(archived, Voucher::Rule), "the pattern has gone");
        after.note_root("lake", "db/t/", false);
        assert!(!after.still_believes(file, Voucher::Table), "it is no table any more");
    }

    fn vouchers(keys: &[&str], is_whole: bool) -> Vouchers {
        let hash = Arc::new(PathHash::new(&[7; SECRET_BYTES]));
        let mut builder = MapperBuilder::new(Arc::clone(&hash));
        let table = builder.table("t");
        let partition = builder.partition(table, "");
        for key in keys {
            let (kind, format) = (FileKind::Data, FileFormat::Parquet);
            let file = ListedFile { partition, kind, format, bytes: 1, rows: 1 };
            builder.add(b"lake", key.as_bytes(), file);
        }
        let files = Some(Arc::new(builder.build(&mut FooterCache::new(hash, 1 << 20))));
        Vouchers { files, roots: Arc::default(), is_whole }
    }

    #[test]
    fn a_catalog_vouches_for_files_of_any_name_as_long_as_it_lists_them() {
        let mut judge = judge(&[]);
        let file = name("odd/x.parquet");
        assert_eq!(judge.mutability(file), Mutability::Mutable);
        judge.take_vouchers(vouchers(&["odd/x.parquet"], true));
        assert_eq!(judge.mutability(file), Mutability::Immutable);
        assert_eq!(judge.voucher(file), Voucher::Catalog);
        let elsewhere = NameRef { bucket: "pond", key: file.key };
        assert_eq!(judge.mutability(elsewhere), Mutability::Mutable);
        judge.take_vouchers(vouchers(&[], true));
        assert_eq!(judge.mutability(file), Mutability::Mutable);
    }

    #[test]
    fn what_a_whole_table_does_not_list_in_its_folder_may_change_whatever_its_name() {
        let mut judge = judge(&["lake/db/t/data/always"]);
        judge.note_root("lake", "db/t/", true);
        let files = ["db/t/data/x.parquet", "db/t/metadata/a.avro", "db/t2/metadata/a.avro"];
        let immutable = |judge: &FreshnessJudge| {
            files.map(|file| judge.mutability(name(file)) == Mutability::Immutable)
        };
        assert_eq!(immutable(&judge), [true; 3]);
        let mut whole = vouchers(&["db/t/metadata/a.avro"], true);
        whole.roots = Arc::new(TableRoots::new([("lake".into(), "db/t/".into())]));
        judge.take_vouchers(whole);
        assert_eq!(immutable(&judge), [false, true, true]);
        assert_eq!(judge.mutability(name("db/t/data/always")), Mutability::Immutable);
    }

    #[test]
    fn a_catalogs_word_outlives_the_node_until_it_has_said_everything_anew() {
        let mut judge = judge(&[]);
        let files = ["odd/x.parquet", "db/t/data/x.parquet"].map(name);
        let believed =
            |judge: &FreshnessJudge| files.map(|file| judge.still_believes(file, Voucher::Catalog));
        assert_eq!(believed(&judge), [true, true], "nothing is heard yet");
        judge.take_vouchers(vouchers(&[], false));
        assert_eq!(believed(&judge), [true, true], "not everything is heard");
        judge.take_vouchers(vouchers(&["odd/x.parquet"], true));
        assert_eq!(believed(&judge), [true, false]);
        judge.take_vouchers(Vouchers::default());
        judge.rules.watches_catalogs = false;
        assert_eq!(believed(&judge), [false, false], "nobody would ever say it again");
    }

    #[test]
    fn what_is_mutable_is_believed_for_its_time_to_live() {
        let judge = judge(&[]);
        let until = judge.freshness(name("a"), Monotonic(7));
        assert_eq!(until, Freshness::Until(Monotonic(5_000_000_007)));
        assert_eq!(judge.freshness(name("metadata/a.avro"), Monotonic(7)), Freshness::Immutable);
    }
}
