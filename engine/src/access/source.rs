//! Where credentials come from: the configuration, and a file of their own that is followed while
//! the node runs. A file that cannot be used leaves the last good roster in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{AccessDoor, Grant, Limits, Roster};
use crate::config::{AuthConfig, ClientCredential, Config, exposure, read_credentials_file};
use crate::origin::Signer;

/// How often the file is looked at: what was withdrawn in it is believed for so long.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a roster is made from.
#[derive(Clone, Debug)]
pub struct CredentialSource {
    configured: Vec<ClientCredential>,
    auth: AuthConfig,
    /// The key of the node itself at the origin, where it is given outright.
    own_key: Option<(String, String)>,
}

impl CredentialSource {
    /// What a configuration says; its credentials may include those of the file.
    pub fn new(config: &Config) -> CredentialSource {
        let from_file = config.credentials_of_file;
        let own = config.credentials.len() - from_file;
        CredentialSource {
            configured: config.credentials[..own].to_vec(),
            auth: config.auth.clone(),
            own_key: config.origin.settings.own_key(),
        }
    }

    /// The roster with these credentials of the file.
    pub fn roster(&self, of_file: &[ClientCredential]) -> Roster {
        let grants = self.configured.iter().chain(of_file).map(|one| self.grant(one)).collect();
        Roster::new(grants, self.auth.anonymous, self.auth.sigv2)
    }

    fn grant(&self, credential: &ClientCredential) -> Grant {
        let own = self.own_key.as_ref().map(|(access, secret)| (access.as_str(), secret.as_str()));
        let there = credential.origin_key.as_ref();
        let there = there.map(|key| (key.access_key.as_str(), key.secret_key.as_str())).or(own);
        let here = (credential.access_key.as_str(), credential.secret_key.expose());
        let is_known_to_origin = there == Some(here);
        let signer = match &credential.origin_key {
            Some(key) if own.is_none_or(|(access_key, _)| access_key != key.access_key) => {
                Signer::Key(Arc::clone(key))
            }
            _ => Signer::Node,
        };
        let (access_key, secret_key) = (credential.access_key.clone(), &credential.secret_key);
        Grant {
            access_key,
            secret_key: secret_key.expose().to_owned(),
            signer,
            is_known_to_origin,
            scope: credential.scope.clone(),
            limits: Arc::new(Limits::new(credential.limits)),
        }
    }
}

/// Replaces the roster whenever the file has changed, for as long as the node runs.
pub async fn follow(door: AccessDoor, source: CredentialSource, path: PathBuf) {
    let mut seen = facts(&path);
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = facts(&path);
        if now == seen {
            continue;
        }
        seen = now;
        if let Some(warning) = exposure(&path) {
            tracing::warn!("auth.credentials_file: {warning}");
        }
        match read_credentials_file(&path) {
            Ok(credentials) => {
                door.replace(source.roster(&credentials));
                tracing::info!(count = credentials.len(), "the credentials file has changed");
            }
            Err(errors) => tracing::warn!(
                "the credentials file cannot be used, and what was read before stays in force: \
                 {errors}"
            ),
        }
    }
}

/// What tells that a file has changed: a new one in its place, too.
fn facts(path: &Path) -> Option<(u64, u64, SystemTime)> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.ino(), facts.len(), facts.modified().ok()?))
}
