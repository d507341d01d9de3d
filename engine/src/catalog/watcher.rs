//! The story of one catalog: list its tables, ask for each again and again, tell what is new. Questions run
//! beside each other, up to a bound; everything is decided here, one end of a question at a time.

use std::sync::Arc;
use std::time::Duration;

use nilas_base::{Clock, HashMap, Monotonic, Rng};
use nilas_iceberg::catalog::{
    CatalogError, Listed, Listing, ListingLimits, LoadedTable, Routes, ServerConfig,
    StorageCredentials, TableAnswer, TableName, credentials_answer,
};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use xxhash_rust::xxh3::xxh3_64;

use super::client::Client;
use super::event::{CatalogEvent, TableSeen};
use super::hint::HintQueue;
use super::schedule::{Ended, Intervals, Schedule, Task};
use super::settings::CatalogSettings;
use super::status::{CatalogCount, CatalogStatus, TableStatus};
use super::trouble::Trouble;

/// Namespaces that are looked into.
const NAMESPACES_MAX: usize = 10_000;
/// How long lent credentials are taken for good that do not say when they end: the shortest that AWS lends any for.
const CREDENTIALS_LIFE_ASSUMED: Duration = Duration::from_secs(15 * 60);
/// How long before their end credentials are renewed; of a short life, a third.
const RENEWAL_BEFORE_END: Duration = Duration::from_secs(5 * 60);
/// The shortest time between two renewals where polls are no closer, whatever a catalog says of their end.
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// How often a listing waits for a catalog that is busy, and for how long if it does not say.
const BUSY_WAITS_MAX: u32 = 8;
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// How long a watcher sleeps that has nothing planned, and at least before it looks again.
const SLEEP_MAX: Duration = Duration::from_secs(60);
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// What came of a task.
enum Found {
    Listed { routes: Routes, listed: Listed },
    Table(TableAnswer),
    Credentials(StorageCredentials),
}

impl Found {
    /// A listing in part is to be done again sooner.
    fn ended(&self) -> Ended {
        match self {
            Found::Listed { listed, .. } if !listed.unsure.is_empty() => Ended::Refused,
            _ => Ended::Well,
        }
    }
}

type Outcome = Result<Found, Trouble>;

/// What is known of a table.
#[derive(Default)]
struct Known {
    etag: Option<String>,
    /// What tells its metadata from other metadata; `None` before it was seen.
    state: Option<State>,
    credentials: StorageCredentials,
}

#[derive(PartialEq, Eq)]
enum State {
    At(String),
    /// Of metadata that lies nowhere yet.
    Hash(u64),
}

/// What a watcher is made from.
pub(super) struct WatcherParts {
    pub(super) settings: Arc<CatalogSettings>,
    pub(super) client: Client,
    pub(super) status: Arc<CatalogStatus>,
    pub(super) hints: HintQueue,
    pub(super) events: mpsc::Sender<CatalogEvent>,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
}

/// Watches one catalog.
pub(super) struct Watcher {
    name: Arc<str>,
    settings: Arc<CatalogSettings>,
    client: Arc<Client>,
    status: Arc<CatalogStatus>,
    hints: HintQueue,
    events: mpsc::Sender<CatalogEvent>,
    clock: Clock,
    schedule: Schedule,
    routes: Option<Arc<Routes>>,
    known: HashMap<TableName, Known>,
    running: JoinSet<Outcome>,
    tasks: HashMap<Id, Task>,
}

/// Nobody takes events any more.
struct NobodyListens;

impl Watcher {
    pub(super) fn new(parts: WatcherParts) -> Watcher {
        let WatcherParts { settings, client, status, hints, events, clock, rng } = parts;
        let intervals = Intervals {
            poll: settings.poll_interval,
            listing: settings.listing_interval,
            in_flight_max: settings.requests_in_flight_max,
        };
        Watcher {
            name: settings.name.as_str().into(),
            schedule: Schedule::new(intervals, rng, clock.now()),
            settings,
            client: Arc::new(client),
            status,
            hints,
            events,
            clock,
            routes: None,
            known: HashMap::default(),
            running: JoinSet::new(),
            tasks: HashMap::default(),
        }
    }

    /// Watches until nobody takes events or gives hints any more.
    pub(super) async fn run(mut self) {
        loop {
            while let Some(task) = self.schedule.next(self.clock.now()) {
                self.begin(task);
            }
            let wake = self.schedule.wake_at().map(|at| at.since(self.clock.now()));
            let sleep = wake.unwrap_or(SLEEP_MAX).max(SLEEP_MIN);
            let handled = tokio::select! {
                Some(ended) = self.running.join_next_with_id() => self.end(ended).await,
                hint = self.hints.next() => match hint {
                    Some(table) => { self.hint(table); Ok(()) }
                    None => Err(NobodyListens),
                },
                () = tokio::time::sleep(sleep) => Ok(()),
            };
            if handled.is_err() {
                return;
            }
        }
    }

    fn begin(&mut self, task: Task) {
        let client = Arc::clone(&self.client);
        let handle = match (&task, &self.routes) {
            (Task::List, _) | (_, None) => {
                let settings = Arc::clone(&self.settings);
                self.running.spawn(async move { list(&client, &settings).await })
            }
            (Task::Load(table), Some(routes)) => {
                self.status.count(CatalogCount::Polls);
                let etag = self.known.get(table).and_then(|known| known.etag.clone());
                let (table, routes) = (table.clone(), Arc::clone(routes));
                self.running.spawn(async move { load(&client, &routes, &table, etag).await })
            }
            (Task::Renew(table), Some(routes)) => {
                let (table, routes) = (table.clone(), Arc::clone(routes));
                self.running.spawn(async move { renew(&client, &routes, &table).await })
            }
        };
        self.tasks.insert(handle.id(), task);
    }

    async fn end(&mut self, ended: Result<(Id, Outcome), JoinError>) -> Result<(), NobodyListens> {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            // A panic is a bug, and has been told; the next time may be better.
            Err(error) => {
                let cause = "the question ended in a panic".to_owned();
                (error.id(), Err(Trouble::Broken { cause }))
            }
        };
        let task = self.tasks.remove(&id).expect("each that runs is known");
        let now = self.clock.now();
        match outcome {
            Ok(found) => {
                self.schedule.done(&task, found.ended(), now);
                self.found(task, found).await
            }
            Err(trouble) => self.failed(task, trouble, now).await,
        }
    }

    async fn found(&mut self, task: Task, found: Found) -> Result<(), NobodyListens> {
        match (task, found) {
            (_, Found::Listed { routes, listed }) => self.listed(routes, listed).await,
            (Task::Load(table) | Task::Renew(table), found) => {
                self.status.succeeded(Some(&table), self.clock.wall());
                match found {
                    Found::Table(TableAnswer::Loaded(loaded)) => self.loaded(table, *loaded).await,
                    Found::Credentials(credentials) => self.lent(table, credentials).await,
                    Found::Table(TableAnswer::Unchanged) => {
                        self.status.count(CatalogCount::PollsUnchanged);
                        Ok(())
                    }
                    Found::Listed { .. } => unreachable!("matched before"),
                }
            }
            (Task::List, _) => unreachable!("a listing finds a list"),
        }
    }

    async fn listed(&mut self, routes: Routes, listed: Listed) -> Result<(), NobodyListens> {
        self.status.count(CatalogCount::Listings);
        self.status.succeeded(None, self.clock.wall());
        let gone: Vec<TableName> =
            self.known.keys().filter(|name| listed.is_gone(name)).cloned().collect();
        for table in gone {
            self.drop_table(table).await?;
        }
        let now = self.clock.now();
        for table in listed.tables {
            self.adopt(table, now);
        }
        for cause in &listed.troubles {
            self.tell_trouble(None, cause.clone()).await?;
        }
        let mut shown = self.status.shown();
        shown.listed_at = Some(self.clock.wall());
        (shown.namespaces, shown.views) = (listed.namespaces, listed.views);
        shown.listing_troubles = listed.troubles;
        self.routes = Some(Arc::new(routes));
        Ok(())
    }

    /// Watches a table from now on, unless it is watched or one too many.
    fn adopt(&mut self, table: TableName, now: Monotonic) -> bool {
        let task = Task::Load(table.clone());
        if self.schedule.has(&task) {
            return true;
        }
        if self.known.len() >= self.settings.tables_max && !self.known.contains_key(&table) {
            return false;
        }
        self.status.shown().tables.insert(table.clone(), TableStatus::default());
        self.known.insert(table, Known::default());
        self.schedule.set(task, now);
        true
    }

    fn hint(&mut self, table: TableName) {
        let now = self.clock.now();
        if self.routes.is_none() {
            self.schedule.hasten(Task::List, now);
        } else if self.settings.wants(&table) && self.adopt(table.clone(), now) {
            self.schedule.hasten(Task::Load(table), now);
        }
    }

    async fn loaded(&mut self, table: TableName, loaded: LoadedTable) -> Result<(), NobodyListens> {
        let Some(known) = self.known.get_mut(&table) else { return Ok(()) };
        let LoadedTable { etag, metadata_location, metadata, credentials, .. } = loaded;
        // Some lend to everybody, and the operator has not said that it is to be used.
        let credentials = match self.settings.vended_credentials {
            true => credentials,
            false => StorageCredentials::default(),
        };
        let state = match &metadata_location {
            Some(location) => State::At(location.clone()),
            None => State::Hash(xxh3_64(&metadata)),
        };
        known.etag.clone_from(&etag);
        if known.state.as_ref() == Some(&state) {
            return self.lent(table, credentials).await;
        }
        known.state = Some(state);
        known.credentials = credentials.clone();
        self.status.count(CatalogCount::TablesSeen);
        self.plan_renewal(&table, &credentials);
        let catalog = Arc::clone(&self.name);
        let seen = TableSeen { catalog, table, etag, metadata_location, metadata, credentials };
        self.tell(CatalogEvent::TableSeen(Box::new(seen))).await
    }

    /// Takes new credentials for a table whose metadata is the same.
    async fn lent(
        &mut self,
        table: TableName,
        credentials: StorageCredentials,
    ) -> Result<(), NobodyListens> {
        let Some(known) = self.known.get_mut(&table) else { return Ok(()) };
        let is_new = known.credentials != credentials;
        known.credentials.clone_from(&credentials);
        self.plan_renewal(&table, &credentials);
        if !is_new {
            return Ok(());
        }
        self.status.count(CatalogCount::CredentialsRenewed);
        let catalog = Arc::clone(&self.name);
        self.tell(CatalogEvent::CredentialsRenewed { catalog, table, credentials }).await
    }

    /// Plans for new credentials ahead of the end of these.
    fn plan_renewal(&mut self, table: &TableName, credentials: &StorageCredentials) {
        let task = Task::Renew(table.clone());
        if credentials.is_empty() {
            return self.schedule.forget(&task);
        }
        let now = self.clock.wall();
        let known = credentials.expires_at();
        let known = known.map(|end| Duration::from_millis(end.0.saturating_sub(now.0)));
        let assumed = credentials.has_unknown_end().then_some(CREDENTIALS_LIFE_ASSUMED);
        let life = known.into_iter().chain(assumed).min().unwrap_or(CREDENTIALS_LIFE_ASSUMED);
        let wait = life - RENEWAL_BEFORE_END.min(life / 3);
        let wait = wait.max(RENEWAL_INTERVAL_MIN.min(self.settings.poll_interval));
        self.schedule.set(task, self.clock.now().after(wait));
    }

    async fn failed(
        &mut self,
        task: Task,
        trouble: Trouble,
        now: Monotonic,
    ) -> Result<(), NobodyListens> {
        let table = match &task {
            Task::Load(table) | Task::Renew(table) => Some(table.clone()),
            Task::List => None,
        };
        if let (true, Some(table)) = (trouble.is_missing(), &table) {
            // It was dropped since it was listed, or is no table: the next listing tells.
            self.schedule.done(&task, Ended::Well, now);
            return self.drop_table(table.clone()).await;
        }
        let ended = if trouble.is_of_catalog() {
            Ended::ForAll(trouble.retry_after())
        } else if trouble.may_pass() {
            Ended::Badly
        } else {
            Ended::Refused
        };
        self.schedule.done(&task, ended, now);
        self.tell_trouble(table, trouble.to_string()).await
    }

    async fn drop_table(&mut self, table: TableName) -> Result<(), NobodyListens> {
        self.schedule.forget(&Task::Load(table.clone()));
        self.schedule.forget(&Task::Renew(table.clone()));
        self.status.shown().tables.remove(&table);
        let was_seen = self.known.remove(&table).is_some_and(|known| known.state.is_some());
        if !was_seen {
            return Ok(());
        }
        self.status.count(CatalogCount::TablesGone);
        self.tell(CatalogEvent::TableGone { catalog: Arc::clone(&self.name), table }).await
    }

    async fn tell_trouble(
        &self,
        table: Option<TableName>,
        cause: String,
    ) -> Result<(), NobodyListens> {
        let is_first = self.status.failed(table.as_ref(), &cause, self.clock.wall());
        let (catalog, of) = (&*self.name, table.as_ref().map(ToString::to_string));
        if is_first {
            tracing::warn!(catalog, table = of, "{cause}; what was known of it stays in use");
        } else {
            tracing::debug!(catalog, table = of, "{cause}");
        }
        let catalog = Arc::clone(&self.name);
        self.tell(CatalogEvent::CatalogTrouble { catalog, table, cause }).await
    }

    /// Waits while whoever acts on events is behind: that costs freshness, and loses nothing.
    async fn tell(&self, event: CatalogEvent) -> Result<(), NobodyListens> {
        self.events.send(event).await.map_err(|_| NobodyListens)
    }
}

/// Lists everything. A catalog that is busy in the middle is waited for, so that a long listing does not begin anew
/// for ever.
async fn list(client: &Client, settings: &Arc<CatalogSettings>) -> Outcome {
    let config = client.ask(&Routes::config(settings.warehouse.as_deref())).await?;
    let config = ServerConfig::read(&config).map_err(|error| match error {
        CatalogError::Missing { said } => CatalogError::Unusable {
            cause: format!("there is no /v1/config ({said}); is its url without /v1 right?"),
        },
        error => error,
    })?;
    let routes = Routes::of(&config, settings.prefix.as_deref());
    let limits = ListingLimits { tables_max: settings.tables_max, namespaces_max: NAMESPACES_MAX };
    let wants = Arc::clone(settings);
    let mut listing = Listing::new(routes.clone(), limits, Box::new(move |name| wants.wants(name)));
    let mut waits = 0;
    while let Some(question) = listing.question() {
        let asked = client.ask(&question).await;
        let asked = asked.and_then(|answer| match answer.error().map(Trouble::from) {
            Some(trouble) if trouble.is_of_catalog() => Err(trouble),
            _ => Ok(answer),
        });
        match asked {
            Ok(answer) => listing.take(&answer),
            Err(Trouble::Answered(CatalogError::Busy { retry_after, .. }))
                if waits < BUSY_WAITS_MAX =>
            {
                waits += 1;
                tokio::time::sleep(retry_after.unwrap_or(BUSY_WAIT)).await;
            }
            Err(trouble) if trouble.is_of_catalog() => return Err(trouble),
            Err(trouble) => listing.fail(&trouble.to_string()),
        }
    }
    Ok(Found::Listed { routes, listed: listing.finish() })
}

async fn load(
    client: &Client,
    routes: &Routes,
    table: &TableName,
    etag: Option<String>,
) -> Outcome {
    let answer = client.ask(&routes.table(table, etag.as_deref())).await?;
    Ok(Found::Table(TableAnswer::read(&answer, etag.is_some())?))
}

/// New credentials: from where they are given alone, else with the whole table, unchanged or not.
async fn renew(client: &Client, routes: &Routes, table: &TableName) -> Outcome {
    if let Some(question) = routes.credentials(table) {
        match credentials_answer(&client.ask(&question).await?) {
            Ok(credentials) if !credentials.is_empty() => {
                return Ok(Found::Credentials(credentials));
            }
            // It says that it has this, and has it not.
            Ok(_) | Err(CatalogError::Missing { .. } | CatalogError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    load(client, routes, table, None).await
}
