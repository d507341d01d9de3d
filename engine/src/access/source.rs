//! Where credentials come from: the configuration, and a file of their own that is followed while
//! the node runs. A file that cannot be used leaves the last good roster in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nilas_net::sigv4::Credentials;

use super::{AccessDoor, Grant, Limits, Roster};
use crate::config::{AuthConfig, ClientCredential, Config, exposure, read_credentials_file};
use crate::origin::Signer;

/// How often the file is looked at: what was withdrawn in it is believed for so long.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a roster is made from.
#[derive(Clone, Debug)]
pub struct CredentialSource {
    configured: Vec<ClientCredential>,
    /// What stood in the file when the configuration was read.
    of_file: Vec<ClientCredential>,
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
            of_file: config.credentials[own..].to_vec(),
            auth: config.auth.clone(),
            own_key: config.origin.settings.own_key(),
        }
    }

    /// The first roster.
    pub fn roster(&self) -> Roster {
        self.roster_after(&Roster::default(), &self.of_file)
    }

    /// The roster with these credentials of the file. What of a limit was used under the roster
    /// `before` it stays used, where the limit is the same.
    fn roster_after(&self, before: &Roster, of_file: &[ClientCredential]) -> Roster {
        let all = self.configured.iter().chain(of_file);
        let grants = all.map(|one| self.grant(before, one)).collect();
        Roster::new(grants, self.auth.anonymous, self.auth.sigv2)
    }

    fn grant(&self, before: &Roster, credential: &ClientCredential) -> Grant {
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
            limits: limits_after(before, credential),
        }
    }
}

fn limits_after(before: &Roster, credential: &ClientCredential) -> Arc<Limits> {
    let known = before.find(&credential.access_key).map(|found| before.grant(found.index));
    match known {
        Some(grant) if grant.limits.numbers() == credential.limits => Arc::clone(&grant.limits),
        _ => Arc::new(Limits::new(credential.limits)),
    }
}

/// Replaces the roster whenever the file has changed, for as long as the node runs.
pub async fn follow(door: AccessDoor, source: CredentialSource, path: PathBuf) {
    // The first look finds what has changed while the node was starting.
    let (mut seen, mut in_force) = (None, source.of_file.clone());
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = facts(&path);
        if now == seen {
            continue;
        }
        seen = now;
        match read_credentials_file(&path) {
            Ok(credentials) if credentials == in_force => {}
            Ok(credentials) => {
                if let Some(warning) = exposure(&path) {
                    tracing::warn!("auth.credentials_file: {warning}");
                }
                door.replace(source.roster_after(&door.roster(), &credentials));
                tracing::info!(count = credentials.len(), "the credentials file has changed");
                in_force = credentials;
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

#[cfg(test)]
mod tests {
    use nilas_base::Monotonic;

    use super::*;
    use crate::access::Unproven;
    use crate::config::LimitNumbers;

    fn limited(access_key: &str, requests_per_second_max: u64) -> ClientCredential {
        let limits = LimitNumbers {
            requests_per_second_max: Some(requests_per_second_max),
            ..LimitNumbers::default()
        };
        ClientCredential { limits, ..ClientCredential::new(access_key, "secret") }
    }

    fn source(of_file: Vec<ClientCredential>) -> CredentialSource {
        let (anonymous, sigv2) = (Unproven::Deny, Unproven::Deny);
        let auth = AuthConfig { credentials_file: None, anonymous, sigv2 };
        CredentialSource { configured: Vec::new(), of_file, auth, own_key: None }
    }

    #[test]
    fn a_change_of_the_file_gives_nobody_back_what_they_have_used() {
        let source = source(vec![limited("same", 1), limited("widened", 1)]);
        let enter = |roster: &Roster, access_key: &str| {
            let index = roster.find(access_key).expect("it is there").index;
            roster.grant(index).limits.enter(Monotonic(1)).is_ok()
        };
        let first = source.roster();
        for access_key in ["same", "widened"] {
            while enter(&first, access_key) {}
        }
        let now = [limited("new", 1), limited("same", 1), limited("widened", 2)];
        let second = source.roster_after(&first, &now);
        assert!(!enter(&second, "same"), "its limit is the same");
        assert!(enter(&second, "widened") && enter(&second, "new"));
    }

    #[tokio::test]
    async fn what_changed_while_the_node_was_starting_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials.toml");
        let text = "[[credentials]]\naccess_key = \"late\"\nsecret_key = \"secret\"\n";
        std::fs::write(&path, text).expect("the folder can be written");
        let source = source(vec![limited("withdrawn", 1)]);
        let door = AccessDoor::new(source.roster());
        let following = tokio::spawn(follow(door.clone(), source, path));
        let found = tokio::time::timeout(4 * LOOK_INTERVAL, async {
            while door.roster().find("late").is_none() {
                tokio::time::sleep(LOOK_INTERVAL / 50).await;
            }
        });
        found.await.expect("the file is followed");
        assert!(door.roster().find("withdrawn").is_none());
        following.abort();
    }
}
