//! The relay, end to end over sockets: against a stand-in that verifies every signature, keeps its
//! objects in a local directory, and breaks on request.

mod fault;
mod relay;
mod secure;
mod stand_in;

use std::sync::Arc;
use std::time::Duration;

use nilas_base::Clock;

use self::stand_in::StandIn;
use super::{Patience, S3Relay};
use crate::origin::{Addressing, CredentialSource, Origin, S3Settings};

const IMPATIENCE: Duration = Duration::from_millis(1000);

fn keys(secret_key: &str) -> CredentialSource {
    CredentialSource::Keys {
        access_key: "origin-key".to_owned(),
        secret_key: secret_key.to_owned(),
        session_token: None,
    }
}

fn settings(stand_in: &StandIn, credentials: CredentialSource) -> S3Settings {
    S3Settings {
        endpoint: format!("http://{}", stand_in.address),
        region: "eu-north-1".to_owned(),
        addressing: Addressing::Path,
        credentials,
        ca_bundle: None,
        write_timeout: std::time::Duration::from_secs(300),
    }
}

fn relay_with(settings: &S3Settings) -> Arc<dyn Origin> {
    impatient(settings)
}

fn impatient(settings: &S3Settings) -> Arc<S3Relay> {
    let patience = Patience {
        read_first_byte: IMPATIENCE,
        write_first_byte: IMPATIENCE,
        body_idle: IMPATIENCE,
    };
    let relay = S3Relay::new(settings, Clock::system()).expect("well-formed settings");
    Arc::new(relay.with_patience(patience))
}

/// Waits until an answer's connection is idle again; it is given back beside the answer.
async fn rest(relay: &S3Relay) {
    while relay.pool.idle_connections() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A stand-in with the bucket `lake`, and the relay to it.
async fn connected() -> (StandIn, Arc<dyn Origin>) {
    let stand_in = StandIn::start().await;
    let relay = relay_with(&settings(&stand_in, keys("origin-secret")));
    (stand_in, relay)
}
