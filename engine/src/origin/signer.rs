//! As whom an origin is asked. Each client's credential names one; what an origin shows to one
//! identity says nothing of what it shows to another. Never printed: `Debug` hides every secret.

use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// A key to sign with.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey {{ access_key: {:?}, secret_key: hidden }}", self.access_key)
    }
}

/// As whom the origin is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signer {
    /// As the node itself, with the credentials of its configuration.
    #[default]
    Node,
    /// With a key of its own.
    Key(Arc<SigningKey>),
    /// As nobody: the request goes unsigned.
    Nobody,
    /// As whoever signed the request: the client's proof goes along as it came.
    AsSent,
}

/// One identity at the origin, as far as two must be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityId(u64);

impl Signer {
    /// Whose it is; `None` where only the origin can tell.
    pub fn identity(&self) -> Option<IdentityId> {
        match self {
            Signer::Node => Some(IdentityId(0)),
            Signer::Nobody => Some(IdentityId(1)),
            // The lowest two are taken. A secret is not part of it: a rotated one is the same person's.
            Signer::Key(key) => Some(IdentityId(xxh3_64(key.access_key.as_bytes()).max(2))),
            Signer::AsSent => None,
        }
    }

    /// Whether the client's own proof is kept in what is sent.
    pub fn keeps_proof(&self) -> bool {
        matches!(self, Signer::AsSent)
    }
}
