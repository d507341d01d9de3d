//! How requests prove who asks, as a scripted catalog sees it.

use super::*;
use crate::catalog::sigv4;
use crate::catalog::transport::Call;
use crate::config::Secret;
use crate::origin::{CredentialSource, Endpoint, SigningKey};

fn oauth2(stub: &Stub) -> CatalogSettings {
    CatalogSettings {
        proof: ProofSource::OAuth2(OAuth2Settings {
            client_id: "client".to_owned(),
            client_secret: Secret::new("se cret"),
            scope: "catalog".to_owned(),
            server_url: None,
        }),
        ..settings(stub)
    }
}

/// What a guarded catalog has done.
#[derive(Default)]
struct Guard {
    /// When each of its tokens was given; `t0` is the first.
    given: Vec<nilas_base::Monotonic>,
    /// Tokens before this one are forgotten.
    forgotten: usize,
    refused: usize,
}

/// A catalog that gives tokens, and takes them until they end as `expires_in` says or are forgotten.
async fn guarded(expires_in: Option<f64>) -> (Stub, Arc<Mutex<Guard>>) {
    let (guard, clock) = (Arc::new(Mutex::new(Guard::default())), Clock::system());
    let shared = Arc::clone(&guard);
    let stub = lake_but(TWO, move |asked| {
        let mut guard = shared.lock().expect("no test panics in it");
        if asked.path == "/v1/oauth/tokens" {
            let secret = "client_id=client&client_secret=se%20cret&scope=catalog";
            assert_eq!(asked.body, format!("grant_type=client_credentials&{secret}"));
            assert_eq!(asked.method, "POST");
            let token = format!("t{}", guard.given.len());
            guard.given.push(clock.now());
            return Some(Reply::json(json!({"access_token": token, "expires_in": expires_in})));
        }
        let number: Option<usize> = asked.bearer().strip_prefix('t').and_then(|it| it.parse().ok());
        let life = Duration::from_secs_f64(expires_in.unwrap_or(1e6));
        let is_good = |number: usize| {
            let given = guard.given.get(number).filter(|_| number >= guard.forgotten);
            given.is_some_and(|at| clock.now().since(*at) < life)
        };
        let is_refused = !number.is_some_and(is_good);
        guard.refused += usize::from(is_refused);
        is_refused.then(|| Reply::error(401, "not the token"))
    });
    (stub.await, guard)
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_again_after_a_401_in_the_middle() {
    for expires_in in [None, Some(3600.0)] {
        let (stub, guard) = guarded(expires_in).await;
        let guard = || guard.lock().expect("no test panics in it");
        let mut watch = watch(oauth2(&stub));
        watch.names(2).await;
        watch.until("polls", |it| it.count(CatalogCount::PollsUnchanged) >= 4).await;
        assert_eq!(guard().given.len(), 1);
        assert_eq!(guard().refused, 0);
        guard().forgotten = 1;
        let before = watch.count(CatalogCount::PollsUnchanged);
        watch.until("polls", |it| it.count(CatalogCount::PollsUnchanged) >= before + 4).await;
        assert_eq!(guard().given.len(), 2, "one for all who were refused");
        assert!(guard().refused >= 1);
        assert_eq!(watch.count(CatalogCount::Failures), 0, "each was asked again");
    }
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_before_it_does() {
    let (stub, guard) = guarded(Some(2.0)).await;
    let guard = || guard.lock().expect("no test panics in it");
    let mut watch = watch(oauth2(&stub));
    watch.names(2).await;
    watch.until("renewals", |_| guard().given.len() >= 4).await;
    assert_eq!(guard().refused, 0);
    assert_eq!(watch.count(CatalogCount::TokenRequests), guard().given.len() as u64);
}

#[tokio::test]
async fn a_server_that_gives_no_token_is_named_without_the_secret() {
    let stub = lake_but(TWO, |asked| {
        let refusal = json!({"error": "invalid_client", "error_description": "who?"});
        (asked.path == "/v1/oauth/tokens").then(|| Reply { status: 401, ..Reply::json(refusal) })
    });
    let stub = stub.await;
    let (of, cause) = watch(oauth2(&stub)).trouble().await;
    assert!(of.is_none() && cause.contains("/v1/oauth/tokens gives no token"), "{cause}");
    assert!(cause.contains("invalid_client: who?") && !cause.contains("cret"), "{cause}");
    assert_eq!(stub.count("/v1/config"), 0, "nothing is asked without a proof");
}

/// A catalog that takes one token, which a test changes.
async fn with_token(token: &Arc<Mutex<String>>) -> Stub {
    let shared = Arc::clone(token);
    let stub = lake_but(TWO, move |asked| {
        let token = shared.lock().expect("no test panics in it");
        (asked.bearer() != *token).then(|| Reply::error(401, "not the token"))
    });
    stub.await
}

#[tokio::test]
async fn a_rotated_token_file_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let write = |text: &str| {
        // As secrets are rotated: a new file in the old one's place.
        let new = folder.path().join("new");
        std::fs::write(&new, text).expect("the folder can be written");
        std::fs::rename(&new, &path).expect("the folder can be written");
    };
    write("first\n");
    let token = Arc::new(Mutex::new("first".to_owned()));
    let stub = with_token(&token).await;
    let proof = ProofSource::TokenFile(path.clone());
    let mut watch = watch(CatalogSettings { proof, ..settings(&stub) });
    watch.names(2).await;
    // Changed in the file first: what is sent changes without a refusal.
    write("second\n");
    watch.until("it is read", |_| stub.asked().iter().any(|it| it.bearer() == "second")).await;
    *token.lock().expect("no test panics in it") = "second".to_owned();
    let before = watch.count(CatalogCount::PollsUnchanged);
    let enough = move |it: &Watch| it.count(CatalogCount::PollsUnchanged) >= before + 3;
    // Some were refused in between; whoever takes events sees them.
    let waited = tokio::time::timeout(PATIENCE, async {
        while !enough(&watch) {
            let _ = tokio::time::timeout(POLL, watch.events.recv()).await;
        }
    });
    waited.await.expect("it is taken again");
}

#[test]
fn a_file_that_changes_under_its_facts_is_read_again_when_it_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "one").expect("the folder can be written");
    let modified = std::fs::metadata(&path).and_then(|it| it.modified()).expect("it is there");
    let file = crate::catalog::proof::TokenFile::new(path.clone());
    let token = |is_refused| file.token(is_refused).expect("it is there").expose().to_owned();
    assert_eq!(token(false), "one");
    let handle = std::fs::OpenOptions::new().write(true).open(&path).expect("it is ours");
    std::io::Write::write_all(&mut &handle, b"two").expect("it is ours");
    handle.set_modified(modified).expect("it is ours");
    assert_eq!(token(false), "one", "nothing shows that it has changed");
    assert_eq!(token(true), "two");
    std::fs::remove_file(&path).expect("it is ours");
    assert_eq!(token(false), "two", "while it is being replaced, the last one is good");
}

#[tokio::test]
async fn a_fixed_token_that_is_refused_is_told_and_not_tried_for_ever() {
    let token = Arc::new(Mutex::new("other".to_owned()));
    let stub = with_token(&token).await;
    let proof = ProofSource::Token(Secret::new("geheim"));
    let mut watch = watch(CatalogSettings { proof, ..settings(&stub) });
    let (of, cause) = watch.trouble().await;
    assert!(of.is_none() && cause.contains("(401)") && !cause.contains("geheim"), "{cause}");
    let told = format!("{:?}", watch.catalogs.snapshots());
    assert!(!told.contains("geheim"));
}

fn key() -> SigningKey {
    SigningKey {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: Some("session/token==".to_owned()),
    }
}

/// Whether a signature is what the same request signed anew has.
fn is_signed(asked: &Asked, address: &str, scope: (&str, &str)) -> bool {
    let Some(proof) = asked.header("authorization") else { return false };
    let Some(time) = asked.header("x-amz-date") else { return false };
    let time = nilas_net::date::parse_amz_date(time.as_bytes()).expect("a date");
    let names = proof.split_once("SignedHeaders=").and_then(|(_, rest)| rest.split_once(','));
    let names: Vec<&str> = names.map_or(Vec::new(), |(names, _)| names.split(';').collect());
    let mark = if asked.query.is_empty() { "" } else { "?" };
    let mut call = Call {
        method: asked.method.parse().expect("a method"),
        endpoint: Endpoint::parse(&format!("http://{address}")).expect("an endpoint"),
        target: format!("{}{mark}{}", asked.path, asked.query),
        headers: Default::default(),
        body: asked.body.clone().into(),
    };
    for (name, value) in asked.headers.iter().filter(|(name, _)| names.contains(&name.as_str())) {
        if name != "host" {
            let name: http::HeaderName = name.parse().expect("a name");
            call.headers.insert(name, value.parse().expect("a value"));
        }
    }
    sigv4::sign(&mut call, &key(), scope, nilas_base::UnixMillis(time.0 * 1000)).expect("legal");
    call.headers["authorization"] == *proof
}

#[tokio::test]
async fn every_request_is_signed_as_it_is_sent() {
    let address = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&address);
    let tables: &[(&str, &str)] = &[("a b.größe", "s3://lake/1")];
    let stub = Stub::start(move |asked| {
        let address = shared.lock().expect("no test panics in it");
        if !is_signed(asked, &address, ("eu-central-1", "glue")) {
            return Reply::error(403, "the signature is another");
        }
        match asked.path.as_str() {
            "/v1/namespaces/a%20b/tables/gr%C3%B6%C3%9Fe" => {
                Reply::json(json!({"metadata-location": "l", "metadata": {}})).with("etag", "\"1\"")
            }
            "/v1/namespaces/a%20b/tables" => lake(
                tables,
                &Asked { path: "/v1/namespaces/a b/tables".to_owned(), ..asked.clone() },
            ),
            _ => lake(tables, asked),
        }
    });
    let stub = stub.await;
    *address.lock().expect("no test panics in it") = stub.address.to_string();
    let SigningKey { access_key, secret_key, session_token } = key();
    let mut watch = watch(CatalogSettings {
        proof: ProofSource::SigV4(SigV4Settings {
            region: "eu-central-1".to_owned(),
            service: "glue".to_owned(),
            credentials: CredentialSource::Keys { access_key, secret_key, session_token },
        }),
        ..settings(&stub)
    });
    assert_eq!(watch.seen().await.table.name, "größe");
    watch.until("polls", |it| it.count(CatalogCount::Polls) >= 3).await;
    assert_eq!(watch.count(CatalogCount::Failures), 0);
}
