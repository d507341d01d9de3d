//! Whether a form meets its policy. S3 holds each condition against the form's fields, and wants each
//! field covered by a condition, but for a few that carry the proof or are to be ignored.

use nilas_base::UnixMillis;

use super::{Condition, FormHead, LengthRange, Policy, PolicyError};

/// Fields that no condition needs to cover.
const UNCOVERED: [&str; 3] = ["file", "policy", "x-amz-signature"];
/// What fields are called that nobody looks at.
pub(super) const IGNORED_PREFIX: &str = "x-ignore-";

impl Policy {
    /// How long the file of a form may be that is posted to this bucket now; or why it is not to be
    /// posted at all.
    pub fn admits(
        &self,
        form: &FormHead,
        bucket: &str,
        now: UnixMillis,
    ) -> Result<LengthRange, PolicyError> {
        if now >= self.expiration {
            return Err(PolicyError::Expired);
        }
        if let Some(told) = form.field("bucket").filter(|told| *told != bucket) {
            let (field, value) = ("bucket".to_owned(), told.to_owned());
            return Err(PolicyError::Failed(Condition::Equals { field, value }));
        }
        let key = form.key();
        let value_of = |field: &str| match field {
            "key" => key.as_deref(),
            "bucket" => Some(bucket),
            other => form.field(other),
        };
        let mut range = LengthRange::ANY;
        for condition in &self.conditions {
            if let Condition::Length(one) = condition {
                range.bytes_min = range.bytes_min.max(one.bytes_min);
                range.bytes_max = range.bytes_max.min(one.bytes_max);
            } else if !condition.holds(value_of) {
                return Err(PolicyError::Failed(condition.clone()));
            }
        }
        self.covers_all(form)?;
        Ok(range)
    }

    /// The bucket is a field of every form: its address names it.
    fn covers_all(&self, form: &FormHead) -> Result<(), PolicyError> {
        let names = form.fields.iter().map(|(name, _)| name.as_str());
        for name in names.chain(["bucket"]) {
            let name = name.to_ascii_lowercase();
            let is_free = UNCOVERED.contains(&name.as_str()) || name.starts_with(IGNORED_PREFIX);
            if !is_free && !self.conditions.iter().any(|one| one.field() == Some(&name)) {
                return Err(PolicyError::Uncovered(name));
            }
        }
        Ok(())
    }
}

impl Condition {
    fn field(&self) -> Option<&str> {
        match self {
            Condition::Equals { field, .. } | Condition::StartsWith { field, .. } => Some(field),
            Condition::Length(_) => None,
        }
    }

    /// Whether it holds; of a field that is not there, none does.
    fn holds<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Condition::Equals { field, value } => value_of(field) == Some(value),
            Condition::StartsWith { field, prefix } if field == "content-type" => {
                // Several types are a list, each of which must begin so.
                let begins = |value: &str| value.trim_start().starts_with(prefix);
                value_of(field)
                    .is_some_and(|list| list.starts_with(prefix) && list.split(',').all(begins))
            }
            Condition::StartsWith { field, prefix } => {
                value_of(field).is_some_and(|value| value.starts_with(prefix))
            }
            Condition::Length(_) => true,
        }
    }
}
