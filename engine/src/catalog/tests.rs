//! Watchers before a scripted catalog: what they tell, what they ask, and what they make of bad answers.

mod lending;
mod proofs;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nilas_base::{Clock, Rng};
use nilas_iceberg::catalog::TableName;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::stub::{Asked, Reply, Stub, lake};
use super::*;
use crate::config::Glob;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(3600);

fn settings(stub: &Stub) -> CatalogSettings {
    CatalogSettings {
        name: "lake".to_owned(),
        url: stub.url(),
        warehouse: None,
        prefix: None,
        include: Vec::new(),
        exclude: Vec::new(),
        poll_interval: POLL,
        listing_interval: NEVER,
        tables_max: 1000,
        requests_in_flight_max: 4,
        request_timeout: Duration::from_secs(5),
        answer_bytes_max: 1 << 20,
        vended_credentials: false,
        proof: ProofSource::None,
        ca_bundle: None,
        hint_secret: None,
    }
}

/// A watcher, and what it tells.
struct Watch {
    catalogs: Catalogs,
    events: mpsc::Receiver<CatalogEvent>,
}

fn watch(settings: CatalogSettings) -> Watch {
    let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let with = (&Clock::system(), Rng::from_seed(5));
    let catalogs = Catalogs::start_telling(&[settings], &Handle::current(), with, sender);
    Watch { catalogs: catalogs.expect("these settings can be used"), events }
}

impl Watch {
    async fn next(&mut self) -> CatalogEvent {
        let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        next.expect("an event comes").expect("the watcher goes on")
    }

    /// The next table that is seen; troubles on the way are passed over.
    async fn seen(&mut self) -> TableSeen {
        loop {
            match self.next().await {
                CatalogEvent::TableSeen(seen) => return *seen,
                CatalogEvent::CatalogTrouble { .. } => {}
                other => panic!("a table was to be seen, not {other:?}"),
            }
        }
    }

    /// The names of so many tables that are seen, in order.
    async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.seen().await.table.to_string());
        }
        names.sort_unstable();
        names
    }

    async fn trouble(&mut self) -> (Option<TableName>, String) {
        loop {
            if let CatalogEvent::CatalogTrouble { table, cause, .. } = self.next().await {
                return (table, cause);
            }
        }
    }

    fn count(&self, what: CatalogCount) -> u64 {
        self.catalogs.snapshots()[0].count(what)
    }

    /// Waits until something holds. Events must have been taken.
    async fn until(&mut self, what: &str, holds: impl Fn(&Watch) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(self) {
                tokio::time::sleep(POLL / 4).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{what}"));
    }
}

fn table(name: &str) -> TableName {
    TableName::from_dotted(name).expect("a full name")
}

/// The answers of `lake`, but where the script has its own.
async fn lake_but(
    tables: &'static [(&str, &str)],
    script: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
) -> Stub {
    Stub::start(move |asked| script(asked).unwrap_or_else(|| lake(tables, asked))).await
}

const TWO: &[(&str, &str)] = &[("a.one", "s3://lake/one/1"), ("a.b.two", "s3://lake/two/1")];

#[tokio::test]
async fn every_table_is_seen_and_an_unchanged_one_costs_a_304() {
    let stub = lake_but(TWO, |_| None).await;
    let mut watch = watch(settings(&stub));
    assert_eq!(watch.names(2).await, ["a.b.two", "a.one"]);
    watch.until("unchanged answers", |it| it.count(CatalogCount::PollsUnchanged) >= 6).await;
    assert_eq!(watch.count(CatalogCount::TablesSeen), 2);
    assert_eq!(watch.count(CatalogCount::Failures), 0);
    assert_eq!(stub.count("/v1/config"), 1, "one listing");
    let snapshot = watch.catalogs.snapshots().remove(0);
    assert!(snapshot.last_success.is_some() && snapshot.last_error.is_none());
    assert_eq!((snapshot.tables.len(), snapshot.namespaces), (2, 2));
    assert!(watch.events.try_recv().is_err(), "nothing new is nothing told");
    let load = stub.asked().into_iter().find(|it| it.path.ends_with("/one")).expect("loaded");
    assert_eq!(load.query, "snapshots=all");
    assert_eq!(load.header("x-iceberg-access-delegation"), None);
}

#[tokio::test]
async fn new_metadata_is_told_and_a_new_etag_alone_is_not() {
    let version = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&version);
    let stub = lake_but(TWO, move |asked| {
        let version = shared.load(Ordering::SeqCst);
        let location = if version < 50 { "s3://lake/1" } else { "s3://lake/%2F#2" };
        asked.path.ends_with("/one").then(|| {
            shared.fetch_add(1, Ordering::SeqCst);
            let metadata = json!({"metadata-location": location, "metadata": {"v": 1.50}});
            Reply::json(metadata).with("etag", &format!("W/\"{version}\""))
        })
    });
    let stub = stub.await;
    let mut watch = watch(CatalogSettings { include: vec![Glob::new("a.one")], ..settings(&stub) });
    let first = watch.seen().await;
    assert_eq!(first.metadata_location.as_deref(), Some("s3://lake/1"));
    let second = watch.seen().await;
    assert_eq!(second.metadata_location.as_deref(), Some("s3://lake/%2F#2"));
    assert_eq!(&second.metadata[..], br#"{"v":1.5}"#);
    assert!(version.load(Ordering::SeqCst) >= 50, "many answers, and one of them new");
}

#[tokio::test]
async fn a_table_that_goes_is_told_and_what_was_never_a_table_is_not() {
    let is_there = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&is_there);
    let stub = lake_but(TWO, move |asked| {
        // A view among the tables.
        let is_missing = asked.path.ends_with("/two") || !shared.load(Ordering::SeqCst);
        let is_load = asked.path.ends_with("/two") || asked.path.ends_with("/one");
        (is_load && is_missing).then(|| Reply::error(404, "no such table"))
    });
    let stub = stub.await;
    let mut watch = watch(settings(&stub));
    assert_eq!(watch.seen().await.table, table("a.one"));
    is_there.store(false, Ordering::SeqCst);
    match watch.next().await {
        CatalogEvent::TableGone { table: gone, .. } => assert_eq!(gone, table("a.one")),
        other => panic!("it is gone: {other:?}"),
    }
    assert_eq!(watch.count(CatalogCount::Failures), 0);
    assert_eq!(watch.catalogs.snapshots()[0].tables.len(), 0);
}

#[tokio::test]
async fn names_of_any_characters_are_asked_for_as_they_are() {
    let stub = Stub::start(|asked| match asked.path.as_str() {
        "/x/v1/config" => {
            Reply::json(json!({"overrides": {"prefix": "p/1", "namespace-separator": "%2E"}}))
        }
        "/x/v1/p/1/namespaces" if asked.query.contains("parent") => {
            Reply::json(json!({"namespaces": []}))
        }
        "/x/v1/p/1/namespaces" => Reply::json(json!({"namespaces": [["größe", "a b"]]})),
        "/x/v1/p/1/namespaces/gr%C3%B6%C3%9Fe%2Ea%20b/tables" => Reply::json(
            json!({"identifiers": [{"namespace": ["größe", "a b"], "name": "50%/#1?&ü"}]}),
        ),
        "/x/v1/p/1/namespaces/gr%C3%B6%C3%9Fe%2Ea%20b/tables/50%25%2F%231%3F%26%C3%BC" => {
            Reply::json(json!({"metadata-location": "s3a://l/#%2F", "metadata": {}}))
        }
        _ => Reply::error(404, "nobody asks for this"),
    });
    let stub = stub.await;
    let url = format!("{}/x", stub.url());
    let mut watch = watch(CatalogSettings { url, ..settings(&stub) });
    let seen = watch.seen().await;
    assert_eq!(seen.table.name, "50%/#1?&ü");
    assert_eq!(seen.metadata_location.as_deref(), Some("s3a://l/#%2F"));
    let warehouse = stub.asked().remove(0);
    assert_eq!((warehouse.path.as_str(), warehouse.query.as_str()), ("/x/v1/config", ""));
}

#[tokio::test]
async fn what_is_excluded_or_not_included_is_never_asked_for() {
    let tables: &[(&str, &str)] = &[("sales.a", "1"), ("sales.tmp_b", "2"), ("raw.c", "3")];
    let stub = lake_but(tables, |_| None).await;
    let mut watch = watch(CatalogSettings {
        include: vec![Glob::new("sales.*")],
        exclude: vec![Glob::new("*.tmp_*")],
        ..settings(&stub)
    });
    assert_eq!(watch.seen().await.table, table("sales.a"));
    watch.until("more polls", |it| it.count(CatalogCount::Polls) >= 5).await;
    assert_eq!(stub.count("/v1/namespaces/sales/tables/tmp_b"), 0);
    assert_eq!(stub.count("/v1/namespaces/raw/tables/c"), 0);
}

/// What it is called, the answer, and what is told of it.
type BadAnswer = (&'static str, fn() -> Reply, &'static str);

#[tokio::test]
async fn one_tables_bad_answers_are_told_and_stop_no_other() {
    let cases: &[BadAnswer] = &[
        ("html", || Reply { body: b"<html>".to_vec(), ..Reply::json(json!({})) }, "not JSON"),
        (
            "cut",
            || Reply { cut_after: Some(2), ..Reply::json(json!({"metadata": {}})) },
            "broke off",
        ),
        (
            "huge",
            || Reply { body: vec![b' '; 2 << 20], ..Reply::json(json!({})) },
            "is longer than",
        ),
        ("500", || Reply::error(500, "oh"), "StubException: oh"),
        ("403", || Reply::error(403, "no"), "it refuses (403)"),
        ("302", || Reply { status: 302, ..Reply::json(json!({})) }, "is not followed"),
        ("shape", || Reply::json(json!({"metadata": 5})), "no object"),
        ("slow", || Reply::json(json!({})).later(NEVER), "no whole answer within"),
    ];
    for (name, reply, told) in cases {
        let stub = lake_but(TWO, move |asked| asked.path.ends_with("/one").then(reply)).await;
        let request_timeout = Duration::from_millis(300);
        let mut watch = watch(CatalogSettings { request_timeout, ..settings(&stub) });
        let mut is_two_seen = false;
        let (of, cause) = loop {
            match watch.next().await {
                CatalogEvent::TableSeen(seen) => {
                    assert_eq!(seen.table, table("a.b.two"));
                    is_two_seen = true;
                }
                CatalogEvent::CatalogTrouble { table, cause, .. } => break (table, cause),
                other => panic!("{name}: {other:?}"),
            }
        };
        assert_eq!(of, Some(table("a.one")), "{name}");
        assert!(cause.contains(told), "{name}: {cause}");
        if !is_two_seen {
            assert_eq!(watch.seen().await.table, table("a.b.two"), "{name}");
        }
        let status = &watch.catalogs.snapshots()[0].tables[&table("a.one")];
        assert!(status.last_error.as_ref().is_some_and(|(_, said)| said.contains(told)), "{name}");
    }
}

#[tokio::test]
async fn a_catalog_that_is_no_catalog_or_not_there_is_named() {
    let html = Reply { body: b"<html>".to_vec(), ..Reply::json(json!({})) };
    for (reply, told) in [
        (Reply::error(404, "nothing"), "without /v1"),
        (html.with("content-type", "text/html"), "not JSON"),
        (Reply::error(401, "who?"), "(401)"),
    ] {
        let stub = Stub::start(move |_| reply.clone()).await;
        let (of, cause) = watch(settings(&stub)).trouble().await;
        assert!(of.is_none() && cause.contains(told), "{cause}");
    }
    let stub = Stub::start(|_| Reply::error(500, "never asked")).await;
    let gone = settings(&stub);
    drop(stub);
    tokio::time::sleep(POLL).await;
    let mut watch = watch(gone);
    let (of, cause) = watch.trouble().await;
    assert!(of.is_none() && cause.contains("cannot be reached"), "{cause}");
}

#[tokio::test]
async fn a_catalog_that_asks_to_be_left_alone_is() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&is_busy);
    let stub = lake_but(TWO, move |_| {
        let is_busy = shared.swap(false, Ordering::SeqCst);
        is_busy.then(|| Reply::error(429, "slowly").with("retry-after", "1"))
    });
    let stub = stub.await;
    let clock = Clock::system();
    let began = clock.now();
    let mut watch = watch(settings(&stub));
    let (of, cause) = watch.trouble().await;
    assert!(of.is_none() && cause.contains("left alone (429)"), "{cause}");
    watch.names(2).await;
    assert!(clock.now().since(began) >= Duration::from_secs(1));
    // Tables in flight are not asked for in the pause either.
    is_busy.store(true, Ordering::SeqCst);
    watch.trouble().await;
    let asked = stub.asked().len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let more = stub.asked().len() - asked;
    assert!(more <= 4, "{more} questions, and only what was under way may be among them");
}

#[tokio::test]
async fn a_page_token_that_comes_again_is_named_and_keeps_nobody() {
    let stub = lake_but(TWO, |asked| {
        asked.path.ends_with("/a/tables").then(|| {
            let identifiers = json!([{"namespace": ["a"], "name": "one"}]);
            Reply::json(json!({"identifiers": identifiers, "next-page-token": "again"}))
        })
    });
    let stub = stub.await;
    let mut watch = watch(settings(&stub));
    let (of, cause) = watch.trouble().await;
    assert!(of.is_none() && cause.contains("same page token twice"), "{cause}");
    assert_eq!(watch.names(2).await, ["a.b.two", "a.one"]);
    assert_eq!(watch.catalogs.snapshots()[0].listing_troubles.len(), 1);
}

#[tokio::test]
async fn a_hint_has_a_table_asked_for_at_once_a_new_one_too() {
    let tables = Arc::new(Mutex::new(vec![("a.one", "s3://lake/1")]));
    let shared = Arc::clone(&tables);
    let script = move |asked: &Asked| lake(&shared.lock().expect("no test panics in it"), asked);
    let stub = Stub::start(script).await;
    let exclude = vec![Glob::new("*.secret")];
    let mut watch = watch(CatalogSettings { poll_interval: NEVER, exclude, ..settings(&stub) });
    assert_eq!(watch.seen().await.metadata_location.as_deref(), Some("s3://lake/1"));
    *tables.lock().expect("no test panics in it") = vec![("a.one", "s3://lake/2"), ("a.new", "3")];
    assert_eq!(watch.catalogs.hint("lake", table("a.one")), Some(HintEnd::Taken));
    assert_eq!(watch.seen().await.metadata_location.as_deref(), Some("s3://lake/2"));
    assert_eq!(watch.catalogs.hint("lake", table("a.new")), Some(HintEnd::Taken));
    assert_eq!(watch.seen().await.table, table("a.new"));
    assert_eq!(watch.catalogs.hint("lake", table("a.secret")), Some(HintEnd::Unwatched));
    assert_eq!(watch.catalogs.hint("other", table("a.one")), None);
    // One that is not there is asked for once, and leaves nothing behind.
    assert_eq!(watch.catalogs.hint("lake", table("a.absent")), Some(HintEnd::Taken));
    watch.until("it is asked for", |_| stub.count("/v1/namespaces/a/tables/absent") == 1).await;
    watch.until("it is dropped", |it| it.catalogs.snapshots()[0].tables.len() == 2).await;
}

#[tokio::test]
async fn more_tables_than_may_be_are_left_out_which_is_told() {
    let tables: &[(&str, &str)] = &[("a.1", "1"), ("a.2", "2"), ("a.3", "3")];
    let stub = lake_but(tables, |_| None).await;
    let mut watch = watch(CatalogSettings { tables_max: 2, ..settings(&stub) });
    let (_, cause) = watch.trouble().await;
    assert!(cause.contains("more than 2 tables"), "{cause}");
    watch.names(2).await;
    assert_eq!(watch.catalogs.snapshots()[0].tables.len(), 2);
}

#[tokio::test]
async fn watching_ends_when_nobody_holds_the_catalogs() {
    let stub = lake_but(TWO, |_| None).await;
    let Watch { catalogs, mut events } = watch(settings(&stub));
    drop(catalogs);
    let ended = tokio::time::timeout(PATIENCE, async { while events.recv().await.is_some() {} });
    ended.await.expect("the watcher lets go of its events");
}
