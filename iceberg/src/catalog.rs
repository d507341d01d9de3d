//! The Iceberg REST catalog's protocol without I/O: what to ask goes out as a [`Question`], what came
//! back goes in as an [`Answer`], and facts come out. The spec is Iceberg's `rest-catalog-open-api.yaml`.
//! Nothing here connects, signs, waits or knows the time; locations are kept as they were written.

mod answer;
mod credential;
mod error;
mod listing;
mod name;
mod page;
mod percent;
mod route;
mod server;
mod table;
mod token;

pub use answer::Answer;
pub use credential::{StorageCredential, StorageCredentials, credentials_answer};
pub use error::CatalogError;
pub use listing::{Listed, Listing, ListingLimits};
pub use name::{Namespace, TableName};
pub use page::PAGES_MAX;
pub use route::{Question, Routes};
pub use server::ServerConfig;
pub use table::{LoadedTable, TableAnswer};
pub use token::{Token, token_answer, token_form};

/// Properties as catalogs send them.
pub type Properties = std::collections::BTreeMap<String, String>;
