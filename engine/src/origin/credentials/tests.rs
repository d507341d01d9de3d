//! Where credentials are found, when they are renewed, and that they are never shown.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use nilas_base::UnixMillis;
use reqsign_core::{HttpSend, StaticEnv};

use super::*;

const NOW: UnixMillis = UnixMillis(1_767_225_600_000); // 2026-01-01T00:00:00Z

/// Instance metadata whose keys live for an hour, or which is out of order.
#[derive(Clone, Debug)]
struct Metadata {
    clock: Clock,
    given: Arc<AtomicU64>,
    is_down: Arc<std::sync::atomic::AtomicBool>,
}

impl HttpSend for Metadata {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(reqsign_core::Error::unexpected("out of order"));
        }
        let text = match request.uri().path() {
            "/latest/api/token" => "token".to_owned(),
            "/latest/meta-data/iam/security-credentials/" => "role".to_owned(),
            _ => {
                let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
                let expiry = UnixMillis(self.clock.wall().0 + 3_600_000);
                let expiry =
                    String::from_utf8_lossy(&nilas_net::date::iso_date(expiry)).into_owned();
                format!(
                    r#"{{"Code":"Success","AccessKeyId":"key-{number}","SecretAccessKey":"hush",
                        "Token":"session","Expiration":"{expiry}"}}"#
                )
            }
        };
        Ok(http::Response::new(Bytes::from(text)))
    }
}

struct Scene {
    clock: Clock,
    metadata: Metadata,
    search: Search,
}

/// A search with these environment variables; metadata stand in for a cloud's.
fn scene(variables: &[(&str, &str)]) -> Scene {
    let clock = Clock::simulated(NOW);
    let metadata =
        Metadata { clock: clock.clone(), given: Arc::default(), is_down: Arc::default() };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let envs = variables.iter().map(owned).collect();
    let context = Context::new()
        .with_file_read(SmallFile)
        .with_http_send(metadata.clone())
        .with_env(StaticEnv { home_dir: None, envs });
    let search = Search::new(context, None, clock.clone());
    Scene { clock, metadata, search }
}

impl Scene {
    fn pass(&self, time: Duration) {
        self.clock.advance_to(self.clock.now().after(time));
    }

    async fn access_key(&self) -> Result<String, String> {
        self.search.key().await.map(|key| key.access_key.clone())
    }
}

#[tokio::test]
async fn the_environment_comes_first() {
    let scene = scene(&[("AWS_ACCESS_KEY_ID", "mine"), ("AWS_SECRET_ACCESS_KEY", "hush")]);
    assert_eq!(scene.access_key().await.as_deref(), Ok("mine"));
    assert_eq!(scene.metadata.given.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_profile_file_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("credentials");
    let text = "[default]\naws_access_key_id = filed\naws_secret_access_key = hush\n";
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8");
    let scene = scene(&[("AWS_SHARED_CREDENTIALS_FILE", path)]);
    assert_eq!(scene.access_key().await.as_deref(), Ok("filed"));
}

#[tokio::test]
async fn instance_metadata_are_asked_once_and_again_before_the_expiry() {
    let scene = scene(&[]);
    for _ in 0..3 {
        assert_eq!(scene.access_key().await.as_deref(), Ok("key-1"));
    }
    scene.pass(Duration::from_secs(3600) - RENEWAL_BEFORE_EXPIRY - Duration::from_secs(1));
    assert_eq!(scene.access_key().await.as_deref(), Ok("key-1"));
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.access_key().await.as_deref(), Ok("key-2"));
}

#[tokio::test]
async fn a_failed_renewal_leaves_the_old_keys_while_they_last() {
    let scene = scene(&[]);
    assert_eq!(scene.access_key().await.as_deref(), Ok("key-1"));
    scene.metadata.is_down.store(true, Ordering::SeqCst);
    scene.pass(Duration::from_secs(3500));
    assert_eq!(scene.access_key().await.as_deref(), Ok("key-1"));
    scene.pass(Duration::from_secs(101));
    let error = scene.access_key().await.expect_err("they have expired");
    assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    scene.metadata.is_down.store(false, Ordering::SeqCst);
    assert!(scene.access_key().await.is_err(), "a failure is kept for a moment");
    scene.pass(FAILURE_KEPT);
    assert_eq!(scene.access_key().await.as_deref(), Ok("key-2"));
}

#[tokio::test]
async fn no_secret_is_shown() {
    let scene = scene(&[]);
    let key = scene.search.key().await.expect("keys are given");
    let shown = format!("{key:?}{:?}", scene.search);
    assert!(!shown.contains("hush") && !shown.contains("session"), "{shown}");
    let source = CredentialSource::Keys {
        access_key: "mine".to_owned(),
        secret_key: "hush".to_owned(),
        session_token: Some("session".to_owned()),
    };
    let connector = Connector::new(None).expect("the usual certificates");
    let credentials = Credentials::new(&source, connector, scene.clock.clone());
    let shown = format!("{source:?}{credentials:?}");
    assert!(!shown.contains("hush") && !shown.contains("session"), "{shown}");
}
