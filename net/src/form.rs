//! A POST form (multipart/form-data, RFC 7578) up to where its file begins: the fields that say
//! what is written, and who signed their policy (AWS, "Authenticating requests in browser-based
//! uploads using POST"); what the policy asks of it; where its file ends; and the form that is sent on
//! in its place. The file's bytes mean nothing here.

mod file;
mod parse;
mod policy;
mod proof;
mod rewrite;
mod verdict;

pub use file::{AFTER_FILE_BYTES_MAX, FileError, FormFile};
pub use parse::{BOUNDARY_BYTES_MAX, FIELDS_MAX, FORM_HEAD_BYTES_MAX, boundary, parse_form};
pub use policy::{CONDITIONS_MAX, Condition, LengthRange, POLICY_BYTES_MAX, Policy, PolicyError};
pub use proof::FormProof;
pub use rewrite::{FormRewrite, POLICY_LIFETIME};

/// The fields of a form, in order, and where its file begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormHead {
    fields: Vec<(String, String)>,
    /// Where its file begins, if it came as far as that.
    file: Option<FileStart>,
}

/// The head of the part that holds a form's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileStart {
    /// The name that the file has at the client.
    name: String,
    /// What its part says it is.
    content_type: Option<String>,
    /// Bytes of the form before it.
    offset: usize,
}

/// What the bytes of a form amount to so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormParsed {
    /// More bytes are needed.
    Partial,
    /// Everything before the file is here, or there is no file.
    Whole(FormHead),
}

/// A form that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The `Content-Type` names no usable boundary.
    #[error("The Content-Type must be multipart/form-data with a boundary.")]
    NoBoundary,
    /// The fields do not follow RFC 7578.
    #[error("The body of your POST request is not well-formed multipart/form-data.")]
    Malformed,
    /// The fields before the file are longer than S3 allows.
    #[error("Your POST request fields preceding the upload file were too large.")]
    TooLarge,
}

impl From<FormError> for crate::S3Error {
    fn from(error: FormError) -> crate::S3Error {
        let code = match error {
            FormError::NoBoundary => crate::Code::PreconditionFailed,
            FormError::Malformed => crate::Code::MalformedPOSTRequest,
            FormError::TooLarge => crate::Code::MaxPostPreDataLengthExceededError,
        };
        crate::S3Error::because(code, error.to_string())
    }
}

impl FormHead {
    /// A field's value; names are compared without case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A field that is there more than once: whoever reads the form can take one or the other.
    pub fn repeated_field(&self) -> Option<&str> {
        let names = self.fields.iter().map(|(name, _)| name.as_str());
        let is_earlier = |at: usize, name: &str| {
            self.fields[..at].iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        names.enumerate().find(|(at, name)| is_earlier(*at, name)).map(|(_, name)| name)
    }

    /// The key that is written; `None` where the form names none. S3 takes what follows the last
    /// slash or backslash for the file's name.
    pub fn key(&self) -> Option<String> {
        let name = self.file_name();
        let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
        Some(self.field("key")?.replace(FILE_NAME, base))
    }

    /// Every key that an origin may take a form for which is sent on as it came: not all of them
    /// cut the file's name as S3 does.
    pub fn possible_keys(&self) -> Vec<String> {
        let (Some(key), name) = (self.field("key"), self.file_name()) else { return Vec::new() };
        let bases = [name, name.rsplit('/').next().unwrap_or_default()];
        let mut keys: Vec<String> = self.key().into_iter().collect();
        for base in bases {
            let other = key.replace(FILE_NAME, base);
            if !keys.contains(&other) {
                keys.push(other);
            }
        }
        keys
    }

    /// Bytes of the form before its file; `None` where it has no file.
    pub fn file_offset(&self) -> Option<usize> {
        self.file.as_ref().map(|file| file.offset)
    }

    fn file_name(&self) -> &str {
        self.file.as_ref().map_or("", |file| file.name.as_str())
    }
}

/// What stands in a key for the file's name.
const FILE_NAME: &str = "${filename}";

#[cfg(test)]
mod tests;
