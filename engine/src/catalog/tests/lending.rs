//! Credentials that a catalog lends: asked for, kept by prefix, and renewed before they end.

use super::*;

const ENDPOINT: &str = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";
const ONE: &[(&str, &str)] = &[("a.one", "s3://lake/one/1")];

fn lent(number: usize, life: Option<Duration>) -> serde_json::Value {
    let mut config =
        json!({"s3.access-key-id": format!("k{number}"), "s3.secret-access-key": "geheim"});
    if let Some(life) = life {
        let end = Clock::system().wall().0 + u64::try_from(life.as_millis()).expect("a short life");
        config["s3.session-token-expires-at-ms"] = json!(end.to_string());
    }
    json!([{"prefix": "s3://lake/one", "config": config}])
}

/// A catalog that lends credentials of this life, with an endpoint for them alone or without.
async fn lender(life: Duration, endpoints: serde_json::Value) -> Stub {
    let given = AtomicUsize::new(0);
    let stub = lake_but(ONE, move |asked| {
        if asked.path == "/v1/config" {
            return Some(Reply::json(json!({"endpoints": endpoints})));
        }
        let next = || lent(given.fetch_add(1, Ordering::SeqCst) + 1, Some(life));
        if asked.path.ends_with("/one/credentials") && endpoints[0] == ENDPOINT {
            return Some(Reply::json(json!({"storage-credentials": next()})));
        }
        let delegation = asked.header("x-iceberg-access-delegation");
        let is_new = asked.header("if-none-match").is_none();
        (asked.path.ends_with("/one") && is_new).then(|| {
            assert_eq!(delegation, Some("vended-credentials"));
            let body = json!({"metadata-location": "s3://lake/one/1", "metadata": {},
                              "storage-credentials": next()});
            Reply::json(body).with("etag", "\"s3://lake/one/1\"")
        })
    });
    stub.await
}

fn borrowing(stub: &Stub) -> CatalogSettings {
    CatalogSettings { vended_credentials: true, ..settings(stub) }
}

#[tokio::test]
async fn credentials_are_renewed_before_they_end_by_the_endpoint_and_without_one() {
    let claims_too_much = json!(["GET /v1/x", ENDPOINT]);
    for (endpoints, by_endpoint) in
        [(json!([ENDPOINT]), true), (json!([]), false), (claims_too_much, true)]
    {
        let life = Duration::from_millis(2400);
        let stub = lender(life, endpoints.clone()).await;
        let mut watch = watch(borrowing(&stub));
        let clock = Clock::system();
        let seen = watch.seen().await;
        let key = |lent: &nilas_iceberg::catalog::StorageCredentials| {
            let found = lent.of("s3://lake/one/data/1.parquet").expect("of its prefix");
            found.config["s3.access-key-id"].clone()
        };
        assert_eq!(key(&seen.credentials), "k1");
        assert!(seen.credentials.of("s3://lake/other").is_none());
        let mut ends = seen.credentials.expires_at().expect("it says so").0;
        for number in 2..4 {
            match watch.next().await {
                CatalogEvent::CredentialsRenewed { credentials, table: of, .. } => {
                    assert!(clock.wall().0 < ends, "{endpoints}: too late");
                    ends = credentials.expires_at().expect("it says so").0;
                    assert_eq!((key(&credentials), of), (format!("k{number}"), table("a.one")));
                }
                other => panic!("{endpoints}: {other:?}"),
            }
        }
        let asked = stub.count("/v1/namespaces/a/tables/one/credentials");
        assert_eq!(asked > 0, by_endpoint, "{endpoints}");
        assert!(watch.count(CatalogCount::PollsUnchanged) > 3, "304 is still an answer");
        assert_eq!(watch.count(CatalogCount::TablesSeen), 1);
    }
}

#[tokio::test]
async fn credentials_are_not_asked_for_where_nobody_wants_any() {
    let stub = lake_but(ONE, |_| None).await;
    let mut watch = watch(settings(&stub));
    assert!(watch.seen().await.credentials.is_empty());
    assert!(stub.asked().iter().all(|it| it.header("x-iceberg-access-delegation").is_none()));
}

#[tokio::test]
async fn what_is_lent_unasked_is_nobodys() {
    let stub = lake_but(ONE, |asked| {
        let body = json!({"metadata-location": "l", "metadata": {},
                          "config": lent(1, None)[0]["config"],
                          "storage-credentials": lent(1, None)});
        asked.path.ends_with("/one").then(|| Reply::json(body))
    });
    let stub = stub.await;
    let seen = watch(settings(&stub)).seen().await;
    assert!(seen.credentials.is_empty(), "{:?}", seen.credentials);
}

#[tokio::test]
async fn pages_show_who_lends_and_never_what() {
    let stub = lake_but(ONE, |asked| {
        let body = json!({"metadata-location": "l", "metadata": {},
                          "storage-credentials": lent(1, None)});
        asked.path.ends_with("/one").then(|| Reply::json(body))
    });
    let stub = stub.await;
    let clock = Clock::system();
    let catalogs =
        Catalogs::start(&[borrowing(&stub)], &Handle::current(), &clock, Rng::from_seed(1), |_| ());
    let catalogs = catalogs.expect("these settings can be used");
    let name: Arc<str> = "lake".into();
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(facts) = catalogs.facts(&name, &table("a.one")) {
                return facts;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    let facts = waited.await.expect("it is seen");
    assert_eq!((facts.changes, facts.metadata_bytes), (1, 2));
    assert!(facts.credentials.has_unknown_end());
    assert!(!format!("{facts:?}").contains("geheim"));
}
