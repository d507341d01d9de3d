//! The tables suite: what a watched catalog costs those who read what is warm. A node before each kind of catalog in
//! turns with one that watches none, the same load on all; ratios of the p99 in the same round. The catalogs are
//! `stub`'s, what their tables are made of is `lake`'s.

mod commits;
mod lake;
mod row;
mod stub;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::{Clock, Rng};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::load::{Burst, BurstPlan, fetch_each, run_burst};
use crate::object::{Object, make_objects};
use crate::processor::pin_to;
use crate::request::{Target, make_targets};
use crate::server::{NodeOrigin, NodePlan, Server, object_folder, start_node};
use crate::statistic::{median, paired_ratio};
use crate::suite::{Layout, lay_out_on_this_machine};

pub use row::{TablesRow, missed_aims, tables_table};

use commits::{Commits, Hints};
use lake::{Lake, LakePlan};
use stub::{Mood, Stub};

/// The suite's name.
pub const SUITE: &str = "tables";

/// How long the node may take to know what its catalog says.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks at it.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a catalog that says nothing is waited for.
const DOUBT: Duration = Duration::from_secs(1);
/// Tables of a flooding catalog.
const FLOODING_TABLES: usize = 20;

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct TablesOptions {
    /// Bursts of each catalog.
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// The measured part of a burst.
    #[arg(long, default_value_t = 3000)]
    pub burst_ms: u64,
    /// The same beside commits to the large table, of which some must become known in it.
    #[arg(long, default_value_t = 15_000)]
    pub commit_burst_ms: u64,
    /// Connections, each with one request under way.
    #[arg(long, default_value_t = 4)]
    pub connections: usize,
    /// Bytes of each object.
    #[arg(long, default_value_t = 65_536)]
    pub size_bytes: usize,
    /// Tables that never change, each polled once a second.
    #[arg(long, default_value_t = 1000)]
    pub tables: usize,
    /// Manifests of the large table.
    #[arg(long, default_value_t = 1000)]
    pub manifests: u64,
    /// Files of each.
    #[arg(long, default_value_t = 1000)]
    pub files_a_manifest: u64,
    /// Catalogs to measure, by their place in the table; all by default.
    #[arg(long, value_delimiter = ',')]
    pub conditions: Vec<usize>,
    /// nilas-server's ring: auto, io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// The nilas-server to measure; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
}

/// The run's facts, and its rows in the order of the catalogs.
#[derive(Clone, Debug)]
pub struct TablesOutcome {
    /// Facts of the run.
    pub facts: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<TablesRow>,
}

/// Which catalog a node watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    None,
    NoneAgain,
    Down,
    Of(Mood),
}

const CONDITIONS: [(Condition, &str); 8] = [
    (Condition::None, "none"),
    (Condition::NoneAgain, "none again"),
    (Condition::Of(Mood::Unchanged), "unchanged"),
    (Condition::Down, "down"),
    (Condition::Of(Mood::Slow), "slow"),
    (Condition::Of(Mood::Wrong), "wrong"),
    (Condition::Of(Mood::Flooding), "flooding"),
    (Condition::Of(Mood::Committing), "commits to a large table"),
];

/// What one burst saw.
struct Seen {
    burst: Burst,
    catalog_requests: u64,
    table_requests: u64,
    polls: f64,
    known_after: Vec<Duration>,
}

/// Where the suite runs.
struct Ground<'a> {
    options: &'a TablesOptions,
    layout: Layout,
    objects: Vec<Object>,
    folder: TempDir,
    lake: Arc<Lake>,
}

/// A node and what it watches.
struct Watching {
    node: Server,
    stub: Option<Stub>,
}

/// Runs the suite; one line a burst goes to `progress`.
///
/// # Errors
/// Where a catalog's commits do not become known while they are measured, or an answer was not what was asked for.
pub fn measure(options: &TablesOptions, progress: &mut dyn Write) -> Result<TablesOutcome> {
    let ground = Ground::find(options)?;
    pin_to(&[ground.layout.load_core])?;
    let mut chosen: Vec<usize> = match options.conditions.is_empty() {
        true => (0..CONDITIONS.len()).collect(),
        // All are held against the first.
        false => std::iter::once(0).chain(options.conditions.iter().copied()).collect(),
    };
    chosen.dedup();
    chosen.retain(|place| *place < CONDITIONS.len());
    let mut seen: Vec<Vec<Seen>> = chosen.iter().map(|_| Vec::new()).collect();
    let mut version = String::new();
    let mut rng = Rng::from_seed(1);
    for round in 0..options.rounds {
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        rng.shuffle(&mut order);
        for place in order {
            let (condition, name) = CONDITIONS[chosen[place]];
            // A progress line that cannot be written is no reason to lose the run.
            let _ = writeln!(progress, "round {round}: {name}");
            let watching = Watching::start(&ground, condition)?;
            version.clone_from(&watching.node.version);
            seen[place].push(watching.burst(&ground, condition)?);
        }
    }
    let none: Vec<f64> = seen[0].iter().map(p99_us).collect();
    let rows = chosen.iter().zip(&seen).map(|(place, seen)| {
        let condition = CONDITIONS[*place].1.to_owned();
        TablesRow { condition, version: version.clone(), ..row(seen, &none) }
    });
    let rows = rows.collect();
    let facts = [
        ("server_core", format!("{:?}", ground.layout.server_cores)),
        ("load_core", ground.layout.load_core.to_string()),
        ("connections", options.connections.to_string()),
        ("size_bytes", options.size_bytes.to_string()),
        ("burst_ms", options.burst_ms.to_string()),
        ("commit_burst_ms", options.commit_burst_ms.to_string()),
        ("tables", options.tables.to_string()),
        ("files", ground.lake.files.to_string()),
        ("files_a_commit", ground.lake.files_a_commit.to_string()),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Ok(TablesOutcome { facts, rows })
}

fn p99_us(seen: &Seen) -> f64 {
    seen.burst.latencies.quantile_us(0.99)
}

/// A row whose condition and version are still empty.
fn row(seen: &[Seen], none: &[f64]) -> TablesRow {
    let of = |what: &dyn Fn(&Seen) -> f64| -> Vec<f64> { seen.iter().map(what).collect() };
    let middle = |what: &dyn Fn(&Seen) -> f64| median(&of(what)).unwrap_or_default();
    let p99 = of(&p99_us);
    let ratios: Vec<f64> = p99.iter().zip(none).map(|(ours, none)| ours / none).collect();
    let known: Vec<f64> = seen
        .iter()
        .flat_map(|seen| &seen.known_after)
        .map(|after| after.as_secs_f64() * 1e3)
        .collect();
    TablesRow {
        suite: SUITE.to_owned(),
        version: String::new(),
        condition: String::new(),
        rounds: seen.len(),
        requests: seen.iter().map(|seen| seen.burst.requests).sum(),
        p50_us: middle(&|seen| seen.burst.latencies.quantile_us(0.5)),
        p99_us: median(&p99).unwrap_or_default(),
        p99_ratio: paired_ratio(&p99, none).unwrap_or_default(),
        p99_ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        p99_ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        server_us: middle(&|seen| seen.burst.server_us_per_request()),
        catalog_requests_per_second: middle(&|seen| {
            seen.catalog_requests as f64 / seen.burst.elapsed.as_secs_f64()
        }),
        requests_a_poll: middle(&|seen| match seen.polls {
            0.0 => 0.0,
            polls => seen.table_requests as f64 / polls,
        }),
        commits: known.len() as u64,
        known_after_ms: median(&known).unwrap_or_default(),
    }
}

impl<'a> Ground<'a> {
    fn find(options: &'a TablesOptions) -> Result<Ground<'a>> {
        let layout = lay_out_on_this_machine(1)?;
        let objects = make_objects(options.size_bytes, 16);
        let folder = object_folder(&objects)?;
        let (manifests, files_a_manifest) = (options.manifests, options.files_a_manifest);
        let lake = Lake::make(folder.path(), LakePlan { manifests, files_a_manifest })?;
        Ok(Ground { options, layout, objects, folder, lake: Arc::new(lake) })
    }
}

impl Watching {
    /// A node that knows what its catalog says, as far as it says anything, and has all objects warm.
    fn start(ground: &Ground<'_>, condition: Condition) -> Result<Watching> {
        let tables = match condition {
            Condition::Of(Mood::Flooding) => FLOODING_TABLES,
            Condition::Of(Mood::Committing) => 1,
            _ => ground.options.tables,
        };
        let stub = match condition {
            Condition::Of(mood) => Some(Stub::start(mood, tables, &ground.lake)?),
            _ => None,
        };
        let url = stub.as_ref().map(|stub| stub.address);
        let node = start_node(&NodePlan {
            binary: ground.options.server_binary.clone(),
            origin: NodeOrigin::Folder(ground.folder.path().to_owned()),
            cores: ground.layout.server_cores.clone(),
            shards: 1,
            ring: ground.options.ring.clone(),
            data_bytes: "256MiB".to_owned(),
            flags: Vec::new(),
            config: config(condition, url)?,
        })?;
        let watching = Watching { node, stub };
        watching.settle(ground, condition, tables)?;
        let targets = watching.targets(ground)?;
        fetch_each(watching.node.address, &targets)?;
        fetch_each(watching.node.address, &targets)?;
        Ok(watching)
    }

    fn targets(&self, ground: &Ground<'_>) -> Result<Vec<Target>> {
        let wall = Clock::system().wall();
        make_targets(&self.node.access, self.node.address, &ground.objects, wall)
    }

    fn settle(&self, ground: &Ground<'_>, condition: Condition, tables: usize) -> Result<()> {
        match condition {
            Condition::None | Condition::NoneAgain => Ok(()),
            Condition::Down | Condition::Of(Mood::Slow | Mood::Wrong) => {
                std::thread::park_timeout(DOUBT);
                Ok(())
            }
            Condition::Of(Mood::Unchanged | Mood::Flooding) => {
                self.wait_for("nilas_tables_read", tables as f64)
            }
            Condition::Of(Mood::Committing) => {
                self.wait_for("nilas_table_index_files", ground.lake.files as f64)
            }
        }
    }

    fn wait_for(&self, gauge: &str, least: f64) -> Result<()> {
        let clock = Clock::system();
        let until = clock.now().after(SETTLED_WITHIN);
        // A node that has not read anything yet does not tell of it.
        while self.node.gauge(gauge).unwrap_or_default() < least {
            if clock.now() > until {
                let cause = format!("{gauge} did not reach {least} within {SETTLED_WITHIN:?}");
                return Err(Error::Failed(cause));
            }
            std::thread::park_timeout(LOOK_INTERVAL);
        }
        Ok(())
    }

    fn burst(&self, ground: &Ground<'_>, condition: Condition) -> Result<Seen> {
        let options = ground.options;
        let commits = match (&self.stub, condition) {
            (Some(stub), Condition::Of(Mood::Committing)) => Some((stub, &self.node)),
            _ => None,
        };
        let measured_ms =
            if commits.is_some() { options.commit_burst_ms } else { options.burst_ms };
        let plan = BurstPlan {
            connections: options.connections,
            warm_up: Duration::from_millis(200),
            measured: Duration::from_millis(measured_ms),
            discard: false,
        };
        let targets = self.targets(ground)?;
        let (requests, polls) = (self.catalog_requests(), self.polls(condition)?);
        let time = || self.node.processor_time();
        let (burst, known_after) = std::thread::scope(|scope| -> Result<_> {
            let hints = match (condition, self.node.admin()) {
                (Condition::Of(Mood::Flooding), Some(admin)) => Some(Hints::start(scope, admin)),
                _ => None,
            };
            let commits =
                commits.map(|(stub, node)| Commits::start(scope, stub, node, &ground.lake));
            let burst = run_burst(self.node.address, &targets, &plan, &time);
            drop(hints);
            let known_after = commits.map_or(Ok(Vec::new()), Commits::finish);
            Ok((burst?, known_after?))
        })?;
        if condition == Condition::Of(Mood::Committing) && known_after.is_empty() {
            return Err(Error::Failed(
                "no commit became known in a burst: take a longer one".to_owned(),
            ));
        }
        let now = self.catalog_requests();
        let polls = self.polls(condition)? - polls;
        let (catalog_requests, table_requests) = (now.0 - requests.0, now.1 - requests.1);
        Ok(Seen { burst, catalog_requests, table_requests, polls, known_after })
    }

    fn catalog_requests(&self) -> (u64, u64) {
        self.stub.as_ref().map_or((0, 0), Stub::requests)
    }

    fn polls(&self, condition: Condition) -> Result<f64> {
        match condition {
            Condition::Of(_) => self.node.gauge("nilas_catalog_polls_total"),
            _ => Ok(0.0),
        }
    }
}

/// The section that has a node watch it.
fn config(condition: Condition, stub: Option<SocketAddr>) -> Result<String> {
    let address = match (condition, stub) {
        (Condition::None | Condition::NoneAgain, _) => return Ok(String::new()),
        (_, Some(address)) => address,
        // Nobody listens there.
        (_, None) => crate::server::free_address()?,
    };
    let (poll_interval, warm) = match condition {
        Condition::Of(Mood::Flooding) => ("100ms", true),
        // Its files are not there.
        Condition::Of(Mood::Committing) => ("200ms", false),
        _ => ("1s", true),
    };
    let secret = commits::HINT_SECRET;
    Ok(format!(
        "
[tables]
warm = {warm}

[[catalog]]
name = \"bench\"
url = \"http://{address}\"
poll_interval = \"{poll_interval}\"
listing_interval = \"1h\"
hint_secret = \"{secret}\"
"
    ))
}
