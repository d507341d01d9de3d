//! Lines to paste: how each engine is told of the endpoint and its credentials. Texts are quoted
//! as each language quotes, so that any secret can be pasted.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The region that clients name; the node takes any.
const REGION: &str = "us-east-1";

/// Where clients connect, and as whom.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// Host and port.
    pub address: SocketAddr,
    /// The access key.
    pub access_key: &'a str,
    /// The secret key, which the lines show.
    pub secret_key: &'a str,
}

/// The lines for one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The engine.
    pub engine: &'static str,
    /// What to paste.
    pub lines: String,
}

impl Endpoint<'_> {
    /// `http://host:port`, as this machine's clients reach it.
    pub fn url(&self) -> String {
        url(self.address)
    }

    fn authority(&self) -> String {
        authority(self.address)
    }
}

/// `http://host:port`, as this machine's clients reach an address.
pub fn url(address: SocketAddr) -> String {
    format!("http://{}", authority(address))
}

fn authority(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(host, address.port()).to_string()
}

/// The lines for every engine.
pub fn snippets(endpoint: Endpoint<'_>) -> Vec<Snippet> {
    vec![
        Snippet { engine: "DuckDB", lines: duckdb(endpoint) },
        Snippet { engine: "Polars", lines: polars(endpoint) },
        Snippet { engine: "PyIceberg", lines: pyiceberg(endpoint) },
        Snippet { engine: "Spark", lines: spark(endpoint) },
        Snippet { engine: "Trino", lines: trino(endpoint) },
        Snippet { engine: "AWS CLI", lines: aws_cli(endpoint) },
    ]
}

/// All of it as one text.
pub fn text(endpoint: Endpoint<'_>) -> String {
    let mut text = String::new();
    for snippet in snippets(endpoint) {
        let _ = writeln!(text, "{}:", snippet.engine);
        for line in snippet.lines.lines() {
            let _ = writeln!(text, "  {line}");
        }
        text.push('\n');
    }
    text
}

fn duckdb(endpoint: Endpoint<'_>) -> String {
    format!(
        "INSTALL httpfs; LOAD httpfs;\n\
         CREATE OR REPLACE SECRET nilas (TYPE s3, KEY_ID {}, SECRET {},\n    \
         ENDPOINT {}, REGION '{REGION}', URL_STYLE 'path', USE_SSL false);\n\
         SELECT * FROM read_parquet('s3://BUCKET/KEY.parquet');",
        sql(endpoint.access_key),
        sql(endpoint.secret_key),
        sql(&endpoint.authority()),
    )
}

fn polars(endpoint: Endpoint<'_>) -> String {
    format!(
        "import polars\n\
         polars.scan_parquet(\"s3://BUCKET/KEY.parquet\", storage_options={{\n    \
         \"aws_endpoint_url\": {},\n    \
         \"aws_access_key_id\": {},\n    \
         \"aws_secret_access_key\": {},\n    \
         \"aws_region\": \"{REGION}\", \"aws_allow_http\": \"true\"}}).collect()",
        python(&endpoint.url()),
        python(endpoint.access_key),
        python(endpoint.secret_key),
    )
}

fn pyiceberg(endpoint: Endpoint<'_>) -> String {
    format!(
        "from pyiceberg.catalog import load_catalog\n\
         catalog = load_catalog(\"lake\", **{{\"type\": \"rest\", \"uri\": \"http://CATALOG\",\n    \
         \"s3.endpoint\": {}, \"s3.region\": \"{REGION}\",\n    \
         \"s3.access-key-id\": {},\n    \
         \"s3.secret-access-key\": {}}})",
        python(&endpoint.url()),
        python(endpoint.access_key),
        python(endpoint.secret_key),
    )
}

fn spark(endpoint: Endpoint<'_>) -> String {
    let mut lines = "spark-sql".to_owned();
    let settings = [
        ("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog".to_owned()),
        ("spark.sql.catalog.lake.type", "rest".to_owned()),
        ("spark.sql.catalog.lake.uri", "http://CATALOG".to_owned()),
        ("spark.sql.catalog.lake.io-impl", "org.apache.iceberg.aws.s3.S3FileIO".to_owned()),
        ("spark.sql.catalog.lake.s3.endpoint", endpoint.url()),
        ("spark.sql.catalog.lake.s3.path-style-access", "true".to_owned()),
        ("spark.sql.catalog.lake.client.region", REGION.to_owned()),
        ("spark.sql.catalog.lake.s3.access-key-id", endpoint.access_key.to_owned()),
        ("spark.sql.catalog.lake.s3.secret-access-key", endpoint.secret_key.to_owned()),
    ];
    for (name, value) in settings {
        let _ = write!(lines, " \\\n    --conf {}", shell(&format!("{name}={value}")));
    }
    lines
}

fn trino(endpoint: Endpoint<'_>) -> String {
    format!(
        "# etc/catalog/lake.properties\n\
         connector.name=iceberg\n\
         iceberg.catalog.type=rest\n\
         iceberg.rest-catalog.uri=http://CATALOG\n\
         fs.native-s3.enabled=true\n\
         s3.endpoint={}\n\
         s3.region={REGION}\n\
         s3.path-style-access=true\n\
         s3.aws-access-key={}\n\
         s3.aws-secret-key={}",
        endpoint.url(),
        property(endpoint.access_key),
        property(endpoint.secret_key),
    )
}

fn aws_cli(endpoint: Endpoint<'_>) -> String {
    format!(
        "export AWS_ACCESS_KEY_ID={} AWS_REGION={REGION} \\\n    \
         AWS_SECRET_ACCESS_KEY={} \\\n    \
         AWS_ENDPOINT_URL={}\n\
         aws s3 ls",
        shell(endpoint.access_key),
        shell(endpoint.secret_key),
        shell(&endpoint.url()),
    )
}

fn sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn python(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Plain where every character is harmless, else in single quotes.
fn shell(text: &str) -> String {
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_harmless) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A value of a Java properties file.
fn property(text: &str) -> String {
    text.replace('\\', "\\\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint<'a>(address: &str, secret_key: &'a str) -> Endpoint<'a> {
        let address = address.parse().expect("an address");
        Endpoint { address, access_key: "NILASKEY", secret_key }
    }

    #[test]
    fn every_engine_is_told_endpoint_and_keys() {
        for snippet in snippets(endpoint("127.0.0.1:9000", "s3cret")) {
            for part in ["127.0.0.1:9000", "NILASKEY", "s3cret", "us-east-1"] {
                assert!(snippet.lines.contains(part), "{part} is not in {}", snippet.lines);
            }
        }
        let engines: Vec<&str> =
            snippets(endpoint("127.0.0.1:1", "s")).iter().map(|it| it.engine).collect();
        assert_eq!(engines, ["DuckDB", "Polars", "PyIceberg", "Spark", "Trino", "AWS CLI"]);
    }

    #[test]
    fn an_unspecified_address_is_told_as_loopback() {
        assert_eq!(endpoint("0.0.0.0:9000", "").url(), "http://127.0.0.1:9000");
        assert_eq!(endpoint("[::]:9000", "").url(), "http://[::1]:9000");
        assert_eq!(endpoint("10.1.2.3:80", "").url(), "http://10.1.2.3:80");
    }

    #[test]
    fn any_secret_is_quoted_as_each_language_quotes() {
        let endpoint = endpoint("127.0.0.1:9000", "a'b\"c\\d$e");
        assert!(duckdb(endpoint).contains("SECRET 'a''b\"c\\d$e'"));
        assert!(polars(endpoint).contains(r#""a'b\"c\\d$e""#));
        assert!(aws_cli(endpoint).contains(r#"AWS_SECRET_ACCESS_KEY='a'\''b"c\d$e'"#));
        assert!(trino(endpoint).contains(r#"s3.aws-secret-key=a'b"c\\d$e"#));
    }
}
