//! An answer as it came over whatever carried it, and its way to JSON.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::CatalogError;

/// The parts of an answer that matter here.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its `ETag`.
    pub etag: Option<String>,
    /// Its `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Its `Content-Type`.
    pub content_type: Option<String>,
    /// Its body, whole.
    pub body: Bytes,
}

impl Answer {
    /// The error that it is, if its status says that it is one.
    pub fn error(&self) -> Option<CatalogError> {
        (self.status >= 400).then(|| CatalogError::of(self))
    }

    /// The body of an answer that is a good one.
    pub(super) fn good(&self) -> Result<&Bytes, CatalogError> {
        if self.status == 200 {
            return Ok(&self.body);
        }
        match self.status {
            status @ 300..400 => Err(CatalogError::unusable(format!(
                "it answers {status}, which is not followed; name the place that it leads to"
            ))),
            status @ 0..300 => Err(CatalogError::unusable(format!("it answers {status}"))),
            _ => Err(CatalogError::of(self)),
        }
    }

    /// What the body of a good answer says.
    pub(super) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, CatalogError> {
        serde_json::from_slice(self.good()?).map_err(|error| self.malformed(&error))
    }

    fn malformed(&self, error: &serde_json::Error) -> CatalogError {
        let kind = self.content_type.as_deref().unwrap_or("no form that it names");
        // Only where and why: what stands there may be a secret.
        let text = error.to_string();
        let cause = match error.classify() {
            serde_json::error::Category::Data if text.starts_with("missing field") => text,
            serde_json::error::Category::Data => "JSON of another shape".to_owned(),
            _ => "it is not JSON, or ends too soon".to_owned(),
        };
        CatalogError::unusable(format!(
            "{} bytes in {kind}, wrong in line {} column {}: {cause}",
            self.body.len(),
            error.line(),
            error.column()
        ))
    }
}
