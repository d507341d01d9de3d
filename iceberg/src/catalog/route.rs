//! Where things are asked for. Names are percent-encoded level by level; the prefix and the separator of
//! namespaces are the server's own and stay as it wrote them.

use super::percent::{decode, encode, keep_legal, segment};
use super::{Namespace, ServerConfig, TableName};

/// Between the levels of a namespace where the server names nothing else: the unit separator.
const SEPARATOR_DEFAULT: &str = "%1F";
const CREDENTIALS_ENDPOINT: &str =
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";
const VIEWS_ENDPOINT: &str = "GET /v1/{prefix}/namespaces/{namespace}/views";

/// A GET of something below the catalog's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// From the root, with its first slash.
    pub path: String,
    /// Without `?`; may be empty.
    pub query: String,
    /// Sent as `If-None-Match`.
    pub known_etag: Option<String>,
    /// Whether this is where credentials are lent, for who wants some:
    /// `X-Iceberg-Access-Delegation: vended-credentials` is sent then.
    pub lends_credentials: bool,
}

impl Question {
    fn new(path: String, query: String) -> Question {
        Question { path, query, known_etag: None, lends_credentials: false }
    }
}

/// The places of one catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// `/v1`, and the prefix.
    root: String,
    separator: String,
    separator_decoded: String,
    has_credentials: bool,
    has_views: bool,
}

impl Routes {
    /// Asks what the server says of itself.
    pub fn config(warehouse: Option<&str>) -> Question {
        let query = warehouse.map(|name| format!("warehouse={}", encode(name))).unwrap_or_default();
        Question::new("/v1/config".to_owned(), query)
    }

    /// The places of a server that says this of itself; `prefix` is ours, which the server may override.
    pub fn of(config: &ServerConfig, prefix: Option<&str>) -> Routes {
        let prefix = config.property("prefix", prefix).unwrap_or_default();
        let separator = config.property("namespace-separator", None).unwrap_or_default();
        let separator = if separator.is_empty() { SEPARATOR_DEFAULT } else { separator };
        let prefix = prefix.trim_matches('/');
        let slash = if prefix.is_empty() { "" } else { "/" };
        Routes {
            root: format!("/v1{slash}{}", keep_legal(prefix)),
            separator: keep_legal(separator).replace('/', "%2F"),
            separator_decoded: decode(separator),
            has_credentials: config.has(CREDENTIALS_ENDPOINT, false),
            has_views: config.has(VIEWS_ENDPOINT, false),
        }
    }

    /// One page of the namespaces directly in `parent`.
    pub fn namespaces(&self, parent: &Namespace, page: &str) -> Question {
        let mut query = format!("pageToken={}", encode(page));
        if !parent.0.is_empty() {
            query.push_str("&parent=");
            query.push_str(&encode(&parent.0.join(&self.separator_decoded)));
        }
        Question::new(format!("{}/namespaces", self.root), query)
    }

    /// One page of the tables in a namespace.
    pub fn tables(&self, namespace: &Namespace, page: &str) -> Question {
        self.listed(namespace, "tables", page)
    }

    /// One page of its views, where the server says that it has such a list.
    pub fn views(&self, namespace: &Namespace, page: &str) -> Option<Question> {
        self.has_views.then(|| self.listed(namespace, "views", page))
    }

    /// Whether the server says that it lists views.
    pub(super) fn has_views(&self) -> bool {
        self.has_views
    }

    /// A table with all its snapshots, unless it still has the ETag that is known.
    pub fn table(&self, name: &TableName, known_etag: Option<&str>) -> Question {
        Question {
            known_etag: known_etag.map(str::to_owned),
            lends_credentials: true,
            ..Question::new(self.table_path(name), "snapshots=all".to_owned())
        }
    }

    /// New credentials for a table, where the server says that it gives them alone.
    pub fn credentials(&self, name: &TableName) -> Option<Question> {
        let path = format!("{}/credentials", self.table_path(name));
        self.has_credentials.then(|| Question::new(path, String::new()))
    }

    fn listed(&self, namespace: &Namespace, what: &str, page: &str) -> Question {
        let path = format!("{}/{what}", self.namespace_path(namespace));
        Question::new(path, format!("pageToken={}", encode(page)))
    }

    fn table_path(&self, name: &TableName) -> String {
        format!("{}/tables/{}", self.namespace_path(&name.namespace), segment(&name.name))
    }

    fn namespace_path(&self, namespace: &Namespace) -> String {
        let levels: Vec<String> = namespace.0.iter().map(|level| segment(level)).collect();
        format!("{}/namespaces/{}", self.root, levels.join(&self.separator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Answer;

    fn routes(body: &str) -> Routes {
        let answer = Answer { status: 200, body: body.to_owned().into(), ..Answer::default() };
        Routes::of(&ServerConfig::read(&answer).expect("well formed"), None)
    }

    fn name(levels: &[&str], name: &str) -> TableName {
        let levels = levels.iter().map(|level| (*level).to_owned()).collect();
        TableName { namespace: Namespace(levels), name: name.to_owned() }
    }

    #[test]
    fn names_are_encoded_and_the_unit_separator_is_the_default() {
        let routes = routes("{}");
        let table = name(&["lake", "a b/c"], "größe #1 50%");
        let question = routes.table(&table, Some("\"1\""));
        assert_eq!(
            question.path,
            "/v1/namespaces/lake%1Fa%20b%2Fc/tables/gr%C3%B6%C3%9Fe%20%231%2050%25"
        );
        assert_eq!(question.query, "snapshots=all");
        assert_eq!(question.known_etag.as_deref(), Some("\"1\""));
        let question = routes.namespaces(&table.namespace, "p&1");
        assert_eq!(question.path, "/v1/namespaces");
        assert_eq!(question.query, "pageToken=p%261&parent=lake%1Fa%20b%2Fc");
        assert_eq!(routes.namespaces(&Namespace::default(), "").query, "pageToken=");
    }

    #[test]
    fn the_server_chooses_the_separator_and_the_prefix() {
        let table = name(&["a", "b"], "t");
        for (separator, path, parent) in [
            ("%2E", "/v1/p/namespaces/a%2Eb/tables/t", "a.b"),
            (".", "/v1/p/namespaces/a.b/tables/t", "a.b"),
            ("|", "/v1/p/namespaces/a%7Cb/tables/t", "a%7Cb"),
            ("%2F", "/v1/p/namespaces/a%2Fb/tables/t", "a%2Fb"),
            ("/", "/v1/p/namespaces/a%2Fb/tables/t", "a%2Fb"),
            ("\u{1f}", "/v1/p/namespaces/a%1Fb/tables/t", "a%1Fb"),
            ("", "/v1/p/namespaces/a%1Fb/tables/t", "a%1Fb"),
        ] {
            let body = serde_json::json!({
                "overrides": {"prefix": "p", "namespace-separator": separator}
            });
            let routes = routes(&body.to_string());
            assert_eq!(routes.table(&table, None).path, path);
            let query = routes.namespaces(&table.namespace, "").query;
            assert_eq!(query, format!("pageToken=&parent={parent}"));
        }
        for (prefix, path) in [
            ("catalogs/12", "/v1/catalogs/12/namespaces"),
            ("/x/", "/v1/x/namespaces"),
            ("arn%3Aaws", "/v1/arn%3Aaws/namespaces"),
            ("", "/v1/namespaces"),
        ] {
            let body = serde_json::json!({"defaults": {"prefix": prefix}});
            assert_eq!(routes(&body.to_string()).namespaces(&Namespace::default(), "").path, path);
        }
    }

    #[test]
    fn ones_own_prefix_holds_where_the_server_does_not_override_it() {
        for (body, path) in [
            ("{}", "/v1/own/namespaces"),
            (r#"{"defaults":{"prefix":"p"}}"#, "/v1/own/namespaces"),
            (r#"{"overrides":{"prefix":"p"}}"#, "/v1/p/namespaces"),
        ] {
            let answer = Answer { status: 200, body: body.into(), ..Answer::default() };
            let config = ServerConfig::read(&answer).expect("well formed");
            let routes = Routes::of(&config, Some("own"));
            assert_eq!(routes.namespaces(&Namespace::default(), "").path, path);
        }
    }

    #[test]
    fn only_a_server_that_says_so_is_asked_for_credentials_and_views() {
        let table = name(&["a"], "t");
        assert_eq!(routes("{}").credentials(&table), None);
        assert_eq!(routes("{}").views(&table.namespace, ""), None);
        let body = serde_json::json!({"endpoints": [CREDENTIALS_ENDPOINT, VIEWS_ENDPOINT]});
        let routes = routes(&body.to_string());
        let question = routes.credentials(&table).expect("it has them");
        assert_eq!(question.path, "/v1/namespaces/a/tables/t/credentials");
        assert!(routes.views(&table.namespace, "").is_some());
    }

    #[test]
    fn a_warehouse_is_a_value_of_the_query() {
        assert_eq!(Routes::config(None).query, "");
        let question = Routes::config(Some("s3://lake/a b"));
        assert_eq!(
            (question.path.as_str(), question.query.as_str()),
            ("/v1/config", "warehouse=s3%3A%2F%2Flake%2Fa%20b")
        );
    }
}
