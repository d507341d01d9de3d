//! Data that is to be at hand because somebody said so: an order of the moment, or a rule of the
//! configuration, which holds for every state of its tables. A job is one such reading, with an estimate
//! before and its progress while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nilas_base::{ByteRange, Clock, HashSet, UnixMillis};
use nilas_iceberg::manifest::{File, Format};
use nilas_iceberg::state::TableState;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::plan;
use super::reader::{Extent, Piece, ReadTrouble, Reader};
use super::settings::WarmRule;
use super::shelf::{FAILURES_SHOWN_MAX, Shelf, TableId};
use super::warm::read_footer;

/// Bytes of one read of data.
const PIECE_BYTES: u64 = 8 << 20;
/// Files that a job has begun and not ended.
const FILES_BEGUN_MAX: usize = 32;
/// Jobs that are remembered; the oldest that has ended leaves first.
const JOBS_MAX: usize = 256;
/// How often what is pinned is looked after.
const PIN_INTERVAL: Duration = Duration::from_secs(60);

/// What to have at hand of a table.
#[derive(Clone, Debug)]
pub struct WarmOrder {
    /// The table.
    pub table: TableId,
    /// Of which snapshot; `None` for the current one.
    pub snapshot_id: Option<i64>,
    /// Which partitions and columns.
    pub rule: WarmRule,
}

/// Why an order is not carried out: what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Nothing is known of the table.
    #[error("nothing of {0} has been read: {1}")]
    Unread(String, String),
    /// No such column.
    #[error("{table} has no column {column:?}; it has {known}")]
    NoColumn {
        /// The table.
        table: String,
        /// What was asked for.
        column: String,
        /// The columns there are, with commas.
        known: String,
    },
    /// No such snapshot.
    #[error("{0} has no snapshot {1}; leave it out for the current one")]
    NoSnapshot(String, i64),
    /// No file lies in such a partition.
    #[error(
        "no file of {0} lies in a partition that one of the patterns fits; they are of the form name=value/name=value"
    )]
    NoPartition(String),
    /// Too much at once.
    #[error("{JOBS_MAX} jobs are under way; wait until one has ended")]
    Busy,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number, for whoever asks.
    pub number: u64,
    /// The table.
    pub table: TableId,
    /// When it began.
    pub began_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
    /// Files in all.
    pub files: u64,
    /// Bytes in all: exact for whole files, else by the share of the columns.
    pub estimated_bytes: u64,
    /// Files that were read.
    pub files_done: u64,
    /// Bytes that are at hand.
    pub bytes_done: u64,
    /// Of these, bytes that the origin was asked for.
    pub origin_bytes: u64,
    /// Files that there is no room for.
    pub left_out: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Why, of the first.
    pub failures: Vec<String>,
}

/// All jobs; clones are the same.
#[derive(Clone)]
pub struct Jobs(Arc<Inner>);

struct Inner {
    shelf: Shelf,
    reader: Arc<Reader>,
    clock: Clock,
    runtime: Handle,
    rules: Vec<WarmRule>,
    /// Data that the cache can keep.
    data_bytes: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: u64,
    jobs: BTreeMap<u64, Job>,
    /// By table and rule: what looks after it.
    rules: BTreeMap<(TableId, usize), Follower>,
}

/// A task that follows a rule, and the job that it is at.
struct Follower {
    task: AbortHandle,
    job: Arc<AtomicU64>,
}

/// What a job has to read.
struct Work {
    files: Vec<WorkFile>,
    ids: Arc<HashSet<i32>>,
    left_out: u64,
    estimated_bytes: u64,
}

struct WorkFile {
    location: Box<str>,
    bytes: u64,
    has_footer: bool,
    has_columns: bool,
}

impl Jobs {
    pub(super) fn new(
        shelf: Shelf,
        reader: Arc<Reader>,
        (clock, runtime): (Clock, Handle),
        (rules, data_bytes): (Vec<WarmRule>, u64),
    ) -> Jobs {
        let known = Mutex::default();
        Jobs(Arc::new(Inner { shelf, reader, clock, runtime, rules, data_bytes, known }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job, as it is now.
    pub fn get(&self, number: u64) -> Option<Job> {
        self.known().jobs.get(&number).cloned()
    }

    /// All that are remembered, the oldest first.
    pub fn all(&self) -> Vec<Job> {
        self.known().jobs.values().cloned().collect()
    }

    /// Begins what an order says; gives the job, whose estimate stands.
    pub fn begin(&self, order: &WarmOrder) -> Result<Job, OrderError> {
        let work = self.work(order, self.0.data_bytes)?;
        let job = self.enter(order, &work)?;
        let (jobs, number) = (self.clone(), job.number);
        self.0.runtime.spawn(async move { jobs.run(number, work).await });
        Ok(job)
    }

    /// Begins anew what rules say of a table that has changed.
    pub(super) fn begin_rules(&self, table: &TableId) {
        let text = table.to_string();
        for (index, rule) in self.0.rules.iter().enumerate() {
            if !rule.tables.iter().any(|glob| glob.matches(&text)) {
                continue;
            }
            let order = WarmOrder { table: table.clone(), snapshot_id: None, rule: rule.clone() };
            let (jobs, job) = (self.clone(), Arc::<AtomicU64>::default());
            let of_task = Arc::clone(&job);
            let task = self.0.runtime.spawn(async move { jobs.follow_rule(order, &of_task).await });
            let follower = Follower { task: task.abort_handle(), job };
            let mut known = self.known();
            if let Some(before) = known.rules.insert((table.clone(), index), follower) {
                before.task.abort();
                known.jobs.remove(&before.job.load(Ordering::Relaxed));
            }
        }
    }

    /// Reads what a rule says, once or again and again; `job` is the number of the latest reading.
    async fn follow_rule(self, order: WarmOrder, job: &AtomicU64) {
        loop {
            let taken = self.taken_bytes(job.load(Ordering::Relaxed));
            let room_bytes = self.0.data_bytes.saturating_sub(taken);
            let work = match self.work(&order, room_bytes) {
                Ok(work) => work,
                // There may be some later.
                Err(OrderError::Unread(..) | OrderError::NoPartition(_)) => return,
                Err(error) => {
                    let table = &order.table;
                    tracing::warn!(%table, %error, "a [[warm]] rule cannot be followed");
                    return;
                }
            };
            self.known().jobs.remove(&job.load(Ordering::Relaxed));
            let Ok(entered) = self.enter(&order, &work) else {
                tokio::time::sleep(PIN_INTERVAL).await;
                continue;
            };
            job.store(entered.number, Ordering::Relaxed);
            self.run(entered.number, work).await;
            if !order.rule.pins {
                return;
            }
            tokio::time::sleep(PIN_INTERVAL).await;
        }
    }

    /// What the rules' jobs take of the cache, but for one.
    fn taken_bytes(&self, but_for: u64) -> u64 {
        let known = self.known();
        let numbers = known.rules.values().map(|follower| follower.job.load(Ordering::Relaxed));
        let jobs = numbers.filter(|number| *number != but_for).filter_map(|it| known.jobs.get(&it));
        jobs.map(|job| job.estimated_bytes).sum()
    }

    fn work(&self, order: &WarmOrder, room_bytes: u64) -> Result<Work, OrderError> {
        let text = order.table.to_string();
        let unread = |cause: &str| OrderError::Unread(text.clone(), cause.to_owned());
        let state = self.0.shelf.with(&order.table, |table| {
            let cause = table.trouble.clone();
            table.state.clone().ok_or_else(|| cause.unwrap_or_else(|| "try again soon".to_owned()))
        });
        let state = state.ok_or_else(|| unread("no catalog has it"))?.map_err(|it| unread(&it))?;
        let metadata = state.metadata();
        if let Some(id) = order.snapshot_id
            && metadata.snapshot(id).is_none()
        {
            return Err(OrderError::NoSnapshot(text.clone(), id));
        }
        let ids = plan::field_ids(metadata, &order.rule.columns).map_err(|column| {
            let names = metadata.fields.iter().filter(|field| field.current);
            let known = names.map(|field| &*field.path).collect::<Vec<_>>().join(", ");
            OrderError::NoColumn { table: text.clone(), column, known }
        })?;
        let work = self.listed(&state, order, (ids, room_bytes));
        if work.files.is_empty() && work.left_out == 0 && !order.rule.partitions.is_empty() {
            return Err(OrderError::NoPartition(text));
        }
        Ok(work)
    }

    /// The files of an order, as many as there is room for.
    fn listed(
        &self,
        state: &TableState,
        order: &WarmOrder,
        (ids, room_bytes): (HashSet<i32>, u64),
    ) -> Work {
        let share = plan::share_of_columns(state.metadata(), &ids);
        let mut work =
            Work { files: Vec::new(), ids: Arc::default(), left_out: 0, estimated_bytes: 0 };
        for file in plan::files(state, order.snapshot_id, &order.rule) {
            let has_columns = !ids.is_empty() && plan::has_columns(&file);
            let share = if has_columns { share } else { 1.0 };
            let bytes = (file.size as f64 * share) as u64;
            if work.estimated_bytes.saturating_add(bytes) > room_bytes {
                work.left_out += 1;
                continue;
            }
            work.estimated_bytes += bytes;
            work.files.push(work_file(&file, has_columns));
        }
        work.ids = Arc::new(ids);
        work
    }

    fn enter(&self, order: &WarmOrder, work: &Work) -> Result<Job, OrderError> {
        let mut known = self.known();
        if known.jobs.len() >= JOBS_MAX {
            let ended = known.jobs.values().find(|job| job.ended_at.is_some());
            let ended = ended.map(|job| job.number).ok_or(OrderError::Busy)?;
            known.jobs.remove(&ended);
        }
        known.last += 1;
        let job = Job {
            number: known.last,
            table: order.table.clone(),
            began_at: self.0.clock.wall(),
            ended_at: None,
            files: work.files.len() as u64,
            estimated_bytes: work.estimated_bytes,
            files_done: 0,
            bytes_done: 0,
            origin_bytes: 0,
            left_out: work.left_out,
            failed: 0,
            failures: Vec::new(),
        };
        known.jobs.insert(job.number, job.clone());
        Ok(job)
    }

    async fn run(&self, number: u64, work: Work) {
        let mut reads = JoinSet::new();
        let mut files = work.files.into_iter();
        loop {
            while reads.len() < FILES_BEGUN_MAX
                && let Some(file) = files.next()
            {
                let (reader, ids) = (Arc::clone(&self.0.reader), Arc::clone(&work.ids));
                reads.spawn(async move { read_file(&reader, file, &ids).await });
            }
            let Some(ended) = reads.join_next().await else { break };
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return,
            };
            if let Some(job) = self.known().jobs.get_mut(&number) {
                note(job, ended);
            }
        }
        let now = self.0.clock.wall();
        if let Some(job) = self.known().jobs.get_mut(&number) {
            job.ended_at = Some(now);
        }
    }
}

fn work_file(file: &File<'_>, has_columns: bool) -> WorkFile {
    let has_footer = matches!(file.format, Format::Parquet) && file.size > 0;
    WorkFile { location: file.path.to_string().into(), bytes: file.size, has_footer, has_columns }
}

/// Bytes that are at hand, and bytes that the origin was asked for.
type Ended = Result<(u64, u64), (Box<str>, ReadTrouble)>;

fn note(job: &mut Job, ended: Ended) {
    match ended {
        Ok((bytes, origin_bytes)) => {
            job.files_done += 1;
            job.bytes_done += bytes;
            job.origin_bytes += origin_bytes;
        }
        Err((location, trouble)) => {
            job.failed += 1;
            if job.failures.len() < FAILURES_SHOWN_MAX {
                job.failures.push(format!("{location}: {}", trouble.cause()));
            }
        }
    }
}

async fn read_file(reader: &Reader, file: WorkFile, ids: &HashSet<i32>) -> Ended {
    let WorkFile { location, bytes, has_footer, has_columns } = file;
    let failed = |trouble| (location.clone(), trouble);
    let (mut done, mut origin) = (0, 0);
    let mut ranges = vec![ByteRange::new(0, bytes)];
    if has_footer {
        let (footer, asked) = read_footer(reader, &location, bytes).await.map_err(failed)?;
        origin += asked;
        if let Some(footer) = footer.filter(|_| has_columns) {
            ranges = plan::column_ranges(&footer, ids);
        }
    }
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = (start + PIECE_BYTES).min(range.end);
            let extent = Extent::Range(ByteRange::new(start, end));
            let piece = Piece { extent, tail_start: None, gives_bytes: false };
            let read = reader.read(&location, piece).await.map_err(failed)?;
            done += read.read_bytes;
            origin += read.origin_bytes();
            start = end;
        }
    }
    Ok((done, origin))
}
