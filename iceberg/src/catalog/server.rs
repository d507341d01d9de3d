//! What a catalog says of itself: its defaults, its overrides, and which of the spec's endpoints it has.

use serde::Deserialize;

use super::{Answer, CatalogError, Properties};

/// The answer to `GET /v1/config`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ServerConfig {
    #[serde(default)]
    defaults: Option<Properties>,
    #[serde(default)]
    overrides: Option<Properties>,
    #[serde(default)]
    endpoints: Option<Vec<String>>,
}

impl ServerConfig {
    /// Reads the answer.
    pub fn read(answer: &Answer) -> Result<ServerConfig, CatalogError> {
        answer.json()
    }

    /// A property: an override wins over the client's own value, which wins over a default.
    pub fn property<'a>(&'a self, name: &str, own: Option<&'a str>) -> Option<&'a str> {
        let of = |properties: &'a Option<Properties>| {
            properties.as_ref().and_then(|properties| properties.get(name)).map(String::as_str)
        };
        of(&self.overrides).or(own).or_else(|| of(&self.defaults))
    }

    /// Whether it says that it has this endpoint, such as `GET /v1/{prefix}/namespaces`. One that names none has what
    /// the first version of the spec had.
    pub(super) fn has(&self, endpoint: &str, is_of_old: bool) -> bool {
        self.endpoints
            .as_ref()
            .filter(|endpoints| !endpoints.is_empty())
            .map_or(is_of_old, |endpoints| endpoints.iter().any(|known| known == endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(body: &str) -> ServerConfig {
        let answer = Answer { status: 200, body: body.to_owned().into(), ..Answer::default() };
        ServerConfig::read(&answer).expect("well formed")
    }

    #[test]
    fn an_override_wins_over_ones_own_value_which_wins_over_a_default() {
        let config = config(r#"{"defaults":{"a":"d","b":"d"},"overrides":{"a":"o"},"more":[1]}"#);
        assert_eq!(config.property("a", Some("own")), Some("o"));
        assert_eq!(config.property("b", Some("own")), Some("own"));
        assert_eq!(config.property("b", None), Some("d"));
        assert_eq!(config.property("c", None), None);
    }

    #[test]
    fn endpoints_are_those_that_are_named_or_those_of_old() {
        let named = config(r#"{"endpoints":["GET /v1/x"]}"#);
        assert!(named.has("GET /v1/x", false) && !named.has("GET /v1/y", true));
        let silent = config(r#"{"defaults":null,"overrides":{}}"#);
        assert!(silent.has("GET /v1/y", true) && !silent.has("GET /v1/x", false));
    }
}
