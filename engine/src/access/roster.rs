//! The credentials of the moment, found by access key, and what is done with requests that prove
//! nothing. A roster is replaced whole, never changed.

use std::sync::Arc;

use nilas_base::{HashMap, Monotonic};
use nilas_net::sigv4::{Credential, Credentials};
use nilas_net::{Code, S3Error};

use super::{Account, Limits, Scope};
use crate::origin::Signer;

/// What is done with a request that is not signed as this node asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unproven {
    /// It is refused.
    #[default]
    Deny,
    /// The origin decides.
    Relay,
}

/// One client's credential.
pub struct Grant {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// As whom the origin is asked for who holds it.
    pub signer: Signer,
    /// Whether the origin knows the same key with the same secret.
    pub is_known_to_origin: bool,
    /// What it may do.
    pub scope: Scope,
    /// How much of it.
    pub limits: Arc<Limits>,
}

impl Grant {
    /// Lets a request in that was found to be its holder's, unless one of its limits is reached.
    pub fn enter(&self, now: Monotonic) -> Result<Option<Account>, S3Error> {
        self.limits.enter(now).map_err(|_| S3Error::because(Code::SlowDown, LIMITED))
    }

    /// The same, but that the client's own proof goes along: what it may do is still held here.
    pub fn as_sent(&self) -> Arc<Grant> {
        Arc::new(Grant {
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.clone(),
            signer: Signer::AsSent,
            is_known_to_origin: self.is_known_to_origin,
            scope: self.scope.clone(),
            limits: Arc::clone(&self.limits),
        })
    }

    /// For a request that proves nothing here: the origin decides what it may do.
    pub fn left_to_origin(signer: Signer) -> Arc<Grant> {
        Arc::new(Grant {
            access_key: String::new(),
            secret_key: String::new(),
            signer,
            is_known_to_origin: false,
            scope: Scope::default(),
            limits: Arc::default(),
        })
    }
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Grant({} as {:?}, secret hidden)", self.access_key, self.signer)
    }
}

const LIMITED: &str = "Please reduce your request rate: a limit of this access key is reached.";

/// All credentials.
#[derive(Debug, Default)]
pub struct Roster {
    grants: Vec<Arc<Grant>>,
    by_access_key: HashMap<String, usize>,
    /// What is done with requests without a signature.
    pub anonymous: Unproven,
    /// What is done with those that bear one of version 2.
    pub sigv2: Unproven,
    has_one_identity: bool,
}

impl Roster {
    /// A roster of these; of two with one access key, the first counts.
    pub fn new(grants: Vec<Grant>, anonymous: Unproven, sigv2: Unproven) -> Roster {
        let mut by_access_key = HashMap::default();
        for (index, grant) in grants.iter().enumerate() {
            by_access_key.entry(grant.access_key.clone()).or_insert(index);
        }
        let has_one_identity = anonymous == Unproven::Deny
            && grants.windows(2).all(|pair| {
                pair[0].signer.identity().is_some()
                    && pair[0].signer.identity() == pair[1].signer.identity()
            });
        let grants = grants.into_iter().map(Arc::new).collect();
        Roster { grants, by_access_key, anonymous, sigv2, has_one_identity }
    }

    /// The credential at this place.
    pub fn grant(&self, index: usize) -> &Arc<Grant> {
        &self.grants[index]
    }

    /// Whether everybody is the same identity at the origin, so that what it showed to one it would
    /// show to all.
    pub fn has_one_identity(&self) -> bool {
        self.has_one_identity
    }
}

impl Credentials for Roster {
    fn find(&self, access_key: &str) -> Option<Credential<'_>> {
        let index = *self.by_access_key.get(access_key)?;
        Some(Credential { index, secret: &self.grants[index].secret_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::SigningKey;

    fn grant(access_key: &str, signer: Signer) -> Grant {
        Grant {
            access_key: access_key.into(),
            secret_key: format!("{access_key}-secret"),
            signer,
            is_known_to_origin: false,
            scope: Scope::default(),
            limits: Arc::default(),
        }
    }

    fn key(access_key: &str) -> Signer {
        let access_key = access_key.to_owned();
        let secret_key = "s".to_owned();
        Signer::Key(Arc::new(SigningKey { access_key, secret_key, session_token: None }))
    }

    #[test]
    fn a_credential_is_found_by_its_access_key() {
        let grants = vec![grant("a", Signer::Node), grant("b", key("x"))];
        let roster = Roster::new(grants, Unproven::Deny, Unproven::Deny);
        let found = roster.find("b").expect("it is there");
        assert_eq!((found.index, found.secret), (1, "b-secret"));
        assert_eq!(roster.grant(1).signer, key("x"));
        assert!(roster.find("c").is_none());
    }

    #[test]
    fn one_identity_is_one_only_if_nobody_can_be_another() {
        let of = |signers: &[Signer], anonymous| {
            let grants = signers.iter().map(|signer| grant("a", signer.clone())).collect();
            Roster::new(grants, anonymous, Unproven::Deny).has_one_identity()
        };
        assert!(of(&[Signer::Node, Signer::Node], Unproven::Deny));
        assert!(of(&[key("x"), key("x")], Unproven::Deny));
        assert!(!of(&[Signer::Node, key("x")], Unproven::Deny));
        assert!(!of(&[key("x"), key("y")], Unproven::Deny));
        assert!(!of(&[Signer::Node], Unproven::Relay));
    }
}
