//! A POST form (multipart/form-data, RFC 7578) up to where its file begins: the fields that say
//! what is written, and who signed their policy (AWS, "Authenticating requests in browser-based
//! uploads using POST"). The file itself is never looked at here.

mod parse;
mod proof;

pub use parse::{FORM_HEAD_BYTES_MAX, boundary, parse_form};
pub use proof::FormProof;

/// The fields of a form, in order, and where its file begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormHead {
    fields: Vec<(String, String)>,
    /// The name that the client's file has, if the form came as far as that.
    file_name: Option<String>,
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

    /// The key that is written; `None` where the form names none.
    pub fn key(&self) -> Option<String> {
        let key = self.field("key")?;
        let file_name = self.file_name.as_deref().unwrap_or_default();
        Some(key.replace("${filename}", file_name))
    }
}

#[cfg(test)]
mod tests;
