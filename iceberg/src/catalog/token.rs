//! OAuth2's client credentials as catalogs take them (RFC 6749, 4.4): a form out, a token in.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::percent::encode;
use super::{Answer, CatalogError};

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What is sent.
    pub text: String,
    /// How long it is good for from now on, if the server says that.
    pub expires_in: Option<Duration>,
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token {{ expires_in: {:?} }}", self.expires_in)
    }
}

/// The form that asks for a token.
pub fn token_form(client_id: Option<&str>, client_secret: &str, scope: &str) -> String {
    let mut form = "grant_type=client_credentials".to_owned();
    let fields =
        [("client_id", client_id), ("client_secret", Some(client_secret)), ("scope", Some(scope))];
    for (name, value) in fields {
        if let Some(value) = value {
            form.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    form
}

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<f64>,
}

/// The token in an answer.
pub fn token_answer(answer: &Answer) -> Result<Token, CatalogError> {
    let body: TokenBody = answer.json()?;
    if body.access_token.is_empty()
        || !body.access_token.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(CatalogError::unusable("its token is none that a header can hold"));
    }
    if let Some(kind) = body.token_type.filter(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(CatalogError::unusable(format!("its token is of type {kind:?}, not bearer")));
    }
    let expires_in = body.expires_in.and_then(|it| Duration::try_from_secs_f64(it).ok());
    Ok(Token { text: body.access_token, expires_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(body: &str) -> Result<Token, CatalogError> {
        token_answer(&Answer { status: 200, body: body.to_owned().into(), ..Answer::default() })
    }

    #[test]
    fn a_token_may_say_when_it_ends() {
        let found = token(r#"{"access_token":"t","token_type":"Bearer","expires_in":60}"#);
        assert_eq!(found.expect("well formed").expires_in, Some(Duration::from_secs(60)));
        for body in [
            r#"{"access_token":"t"}"#,
            r#"{"access_token":"t","expires_in":null}"#,
            r#"{"access_token":"t","expires_in":-1}"#,
            r#"{"access_token":"t","expires_in":1e300}"#,
        ] {
            assert_eq!(token(body).expect("well formed").expires_in, None, "{body}");
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_refused() {
        for body in [
            "{}",
            r#"{"access_token":""}"#,
            r#"{"access_token":"a\r\nb"}"#,
            r#"{"access_token":"t","token_type":"mac"}"#,
        ] {
            let error = token(body).expect_err(body).to_string();
            assert!(error.contains("spec"), "{error}");
        }
    }

    #[test]
    fn secrets_are_encoded_in_the_form_and_hidden_in_debug() {
        let form = token_form(Some("a&b"), "s e=c", "catalog");
        let fields = "&client_id=a%26b&client_secret=s%20e%3Dc&scope=catalog";
        assert_eq!(form, format!("grant_type=client_credentials{fields}"));
        let token = Token { text: "geheim".to_owned(), expires_in: None };
        assert!(!format!("{token:?}").contains("geheim"));
    }
}
