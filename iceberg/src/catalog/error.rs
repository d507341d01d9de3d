//! Why a catalog's answer is of no use, named by what to do about it. What a catalog says is repeated in
//! part, on one line.

use std::time::Duration;

use serde::Deserialize;

use super::Answer;

/// Characters of a catalog's message that are repeated.
const SAID_CHARACTERS_MAX: usize = 300;
/// Bytes of an error's body that are looked at.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What a catalog answered instead of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Ask again with a new proof.
    #[error("it does not accept the proof of who asks ({status}): {said}")]
    Unauthorised {
        /// The answer's status.
        status: u16,
        /// What it says.
        said: String,
    },
    /// Forget what was asked for.
    #[error("it has no such thing: {said}")]
    Missing {
        /// What it says.
        said: String,
    },
    /// Leave the catalog alone for a while.
    #[error("it asks to be left alone ({status}): {said}")]
    Busy {
        /// The answer's status.
        status: u16,
        /// For how long, if it says that.
        retry_after: Option<Duration>,
        /// What it says.
        said: String,
    },
    /// Ask a person: it will be refused again.
    #[error("it refuses ({status}): {said}")]
    Refused {
        /// The answer's status.
        status: u16,
        /// What it says.
        said: String,
    },
    /// Ask again later.
    #[error("it failed ({status}): {said}")]
    Failed {
        /// The answer's status.
        status: u16,
        /// What it says.
        said: String,
    },
    /// Ask again later; likely something else than a catalog answers there.
    #[error("its answer is not what the REST catalog's spec says: {cause}")]
    Unusable {
        /// What is wrong with it.
        cause: String,
    },
}

impl CatalogError {
    /// What is wrong with an answer's form.
    pub(super) fn unusable(cause: impl std::fmt::Display) -> CatalogError {
        CatalogError::Unusable { cause: one_line(&cause.to_string()) }
    }

    /// The error that an answer of this status is.
    pub(super) fn of(answer: &Answer) -> CatalogError {
        let (status, said) = (answer.status, said(answer));
        match status {
            // 419 is the spec's own: the proof was good, and has expired.
            401 | 419 => CatalogError::Unauthorised { status, said },
            404 => CatalogError::Missing { said },
            429 | 503 => CatalogError::Busy { status, retry_after: answer.retry_after, said },
            500.. => CatalogError::Failed { status, said },
            _ => CatalogError::Refused { status, said },
        }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorModel,
}

#[derive(Deserialize)]
struct ErrorModel {
    #[serde(default)]
    message: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

/// An error as OAuth2 has it (RFC 6749, 5.2).
#[derive(Deserialize)]
struct TokenErrorBody {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// What an error's body says.
fn said(answer: &Answer) -> String {
    let body = &answer.body[..answer.body.len().min(BODY_BYTES_MAX)];
    if let Ok(ErrorBody { error: ErrorModel { message, kind } }) = serde_json::from_slice(body) {
        let parts: Vec<String> = kind.into_iter().chain(message).collect();
        return one_line(&parts.join(": "));
    }
    if let Ok(TokenErrorBody { error, error_description }) = serde_json::from_slice(body) {
        let parts: Vec<String> = std::iter::once(error).chain(error_description).collect();
        return one_line(&parts.join(": "));
    }
    match &answer.content_type {
        _ if body.is_empty() => "nothing".to_owned(),
        Some(kind) => one_line(&format!("something in {kind}")),
        None => "something in no form".to_owned(),
    }
}

/// The beginning of a text, on one line and without control characters.
pub(super) fn one_line(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(SAID_CHARACTERS_MAX)
        .collect();
    if text.chars().nth(SAID_CHARACTERS_MAX).is_some() { format!("{plain}…") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> CatalogError {
        CatalogError::of(&Answer { status, body: body.to_owned().into(), ..Answer::default() })
    }

    #[test]
    fn the_status_says_what_to_do_and_the_body_why() {
        let body = r#"{"error":{"message":"no\ntable","type":"NoSuchTableException","code":404}}"#;
        let said = "NoSuchTableException: no table".to_owned();
        assert_eq!(error(404, body), CatalogError::Missing { said: said.clone() });
        assert_eq!(error(403, body), CatalogError::Refused { status: 403, said: said.clone() });
        assert_eq!(
            error(419, body),
            CatalogError::Unauthorised { status: 419, said: said.clone() }
        );
        assert_eq!(error(500, body), CatalogError::Failed { status: 500, said });
        let body = r#"{"error":"invalid_client","error_description":"who?"}"#;
        let said = "invalid_client: who?".to_owned();
        assert_eq!(error(400, body), CatalogError::Refused { status: 400, said });
    }

    #[test]
    fn a_body_that_is_no_error_is_not_repeated() {
        let (status, body) = (502, "<html>secret</html>".into());
        let content_type = Some("text/html".to_owned());
        let answer = Answer { status, body, content_type, ..Answer::default() };
        let text = CatalogError::of(&answer).to_string();
        assert!(text.contains("text/html") && !text.contains("secret"), "{text}");
        assert!(error(500, &"x".repeat(9999)).to_string().len() < 400);
        let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(9999));
        assert!(error(500, &long).to_string().chars().count() < 400);
    }
}
