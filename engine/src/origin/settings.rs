//! Which origin, and how it is reached; what configuration is turned into. Secrets are in it, so
//! its `Debug` says which source is used, never what is in it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Which origin.
#[derive(Clone, Debug)]
pub enum OriginSettings {
    /// Something that speaks S3.
    S3(S3Settings),
    /// A directory of this machine.
    LocalDirectory(LocalDirectorySettings),
}

impl OriginSettings {
    /// The host and port that name it in its own answers; `None` of a directory.
    pub fn authority(&self) -> Option<String> {
        match self {
            OriginSettings::S3(s3) => {
                super::s3_relay::Endpoint::parse(&s3.endpoint).ok().map(|it| it.host_header())
            }
            OriginSettings::LocalDirectory(_) => None,
        }
    }

    /// The access key and the secret of the node itself, where they are given outright.
    pub fn own_key(&self) -> Option<(String, String)> {
        match self {
            OriginSettings::S3(S3Settings {
                credentials: CredentialSource::Keys { access_key, secret_key, .. },
                ..
            }) => Some((access_key.clone(), secret_key.clone())),
            _ => None,
        }
    }
}

/// An S3 origin.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// `http://host:port` or `https://host`; no path, query or user.
    pub endpoint: String,
    /// The region that signatures name.
    pub region: String,
    /// Where the bucket's name goes.
    pub addressing: Addressing,
    /// What requests are signed with.
    pub credentials: CredentialSource,
    /// A PEM file of certificates to trust instead of the usual public ones.
    pub ca_bundle: Option<PathBuf>,
    /// How long a write may wait for its answer, from the last byte that was sent.
    pub write_timeout: Duration,
}

/// Where the bucket's name goes in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// `https://endpoint/bucket/key`.
    #[default]
    Path,
    /// `https://bucket.endpoint/key`.
    VirtualHost,
}

/// Where an origin's credentials come from.
#[derive(Clone)]
pub enum CredentialSource {
    /// Given outright.
    Keys {
        /// The access key.
        access_key: String,
        /// The secret key.
        secret_key: String,
        /// The token of temporary ones.
        session_token: Option<String>,
    },
    /// Looked for, in this order: environment, profile file, web identity, container and instance
    /// metadata.
    Default {
        /// The profile, where it is not the default one or `AWS_PROFILE`'s.
        profile: Option<String>,
    },
    /// None: requests go unsigned.
    Anonymous,
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialSource::Keys { access_key, .. } => {
                write!(formatter, "Keys {{ access_key: {access_key:?}, secret_key: hidden }}")
            }
            CredentialSource::Default { profile } => {
                write!(formatter, "Default {{ profile: {profile:?} }}")
            }
            CredentialSource::Anonymous => write!(formatter, "Anonymous"),
        }
    }
}

/// A directory whose sub-directories are buckets.
#[derive(Clone, Debug)]
pub struct LocalDirectorySettings {
    /// The directory; it must exist and be writable.
    pub path: PathBuf,
    /// A simulated wait before each answer; zero for none.
    pub first_byte_latency: Duration,
}
