//! Items of `[[catalog]]`, through every layer of configuration.

use std::time::Duration;

use super::super::{Config, Inputs, Order, load};
use super::*;

fn config(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("nilas.toml");
    std::fs::write(&path, file).expect("the folder can be written");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let arguments = vec!["--config".to_owned(), path.display().to_string()];
    let inputs = Inputs { arguments, variables: variables.collect(), cores: 2 };
    match load(&inputs) {
        Ok(Order::Run { config, .. }) => Ok(*config),
        Ok(other) => panic!("not an order to run: {other:?}"),
        Err(errors) => Err(errors.to_string()),
    }
}

fn one(lines: &str) -> Result<CatalogSettings, String> {
    let file = format!("[[catalog]]\nname = \"lake\"\nurl = \"http://127.0.0.1:1/x\"\n{lines}\n");
    config(&file, &[]).map(|config| config.catalogs.into_iter().next().expect("it has one"))
}

#[test]
fn an_item_has_defaults_and_no_item_has_none() {
    assert!(config("", &[]).expect("right").catalogs.is_empty());
    let catalog = one("").expect("right");
    assert_eq!((catalog.name.as_str(), catalog.url.as_str()), ("lake", "http://127.0.0.1:1/x"));
    assert_eq!(catalog.poll_interval, Duration::from_secs(30));
    assert_eq!((catalog.tables_max, catalog.answer_bytes_max), (10_000, 64 << 20));
    assert!(matches!(catalog.proof, ProofSource::None) && !catalog.vended_credentials);
}

#[test]
fn several_catalogs_are_set_by_file_and_environment() {
    let file = "[[catalog]]\nname = \"a\"\nurl = \"https://a\"\n[[catalog]]\nname = \"b\"\n";
    let variables = [
        ("NILAS_CATALOG_1_URL", "https://b/"),
        ("NILAS_CATALOG_TOKEN", "geheim"),
        ("NILAS_CATALOG_1_INCLUDE", "sales.*, raw.events"),
    ];
    let config = config(file, &variables).expect("right");
    let urls: Vec<&str> = config.catalogs.iter().map(|it| it.url.as_str()).collect();
    assert_eq!(urls, ["https://a", "https://b"]);
    assert!(matches!(&config.catalogs[0].proof, ProofSource::Token(it) if it.expose() == "geheim"));
    let told = format!("{}{}", config.effective_text(), config.effective_json());
    assert!(!told.contains("geheim") && told.contains("catalog.1.poll_interval"), "{told}");
    assert!(told.contains("[[catalog]]"), "{told}");
}

#[test]
fn tables_are_watched_by_patterns_of_their_full_names() {
    let catalog = one("include = [\"sales.*\", \"raw.events\"]\nexclude = [\"*.tmp_*\"]");
    let catalog = catalog.expect("right");
    for (name, is_wanted) in [
        ("sales.orders", true),
        ("sales.eu.orders", true),
        ("sales.tmp_1", false),
        ("raw.events", true),
        ("raw.clicks", false),
    ] {
        let table = nilas_iceberg::catalog::TableName::from_dotted(name).expect("a full name");
        assert_eq!(catalog.wants(&table), is_wanted, "{name}");
    }
}

#[test]
fn the_way_to_prove_who_asks_follows_from_what_is_given() {
    let proof = |lines: &str| one(lines).expect(lines).proof;
    assert!(matches!(proof("token_file = \"/t\""), ProofSource::TokenFile(_)));
    let lines = "oauth2_client_id = \"i\"\noauth2_client_secret = \"s\"";
    assert!(matches!(proof(lines), ProofSource::OAuth2(it) if it.scope == "catalog"));
    let lines = "auth = \"sigv4\"\nregion = \"eu-central-1\"";
    let ProofSource::SigV4(signing) = proof(lines) else { panic!("it was chosen") };
    assert_eq!(
        (signing.region.as_str(), signing.service.as_str()),
        ("eu-central-1", "execute-api")
    );
    assert!(matches!(signing.credentials, CredentialSource::Default { profile: None }));
    for (url, service) in [
        ("https://glue.eu-central-1.amazonaws.com/iceberg", "glue"),
        ("https://s3tables.us-east-1.amazonaws.com/iceberg", "s3tables"),
        ("https://gluey.example.com", "execute-api"),
    ] {
        assert_eq!(service_of(url), service);
    }
}

#[test]
fn contradictions_are_told_with_their_cure_and_without_secrets() {
    for (lines, told) in [
        ("token = \"geheim\"\ntoken_file = \"/t\"", "keep one of them"),
        ("oauth2_client_id = \"i\"", "set both"),
        ("auth = \"token\"", "set token or token_file"),
        ("auth = \"none\"\ntoken = \"geheim\"", "only auth = \"token\" reads"),
        ("access_key = \"k\"", "set auth = \"sigv4\""),
        ("auth = \"sigv4\"\naccess_key = \"k\"", "or none of them"),
        ("auth = \"sigv4\"\nsession_token = \"geheim\"", "or none of them"),
        (
            "oauth2_client_id = \"i\"\noauth2_client_secret_file = \"/nobody/has/this\"",
            "cannot be read",
        ),
        ("poll_intervall = \"1s\"", "did you mean catalog.poll_interval?"),
    ] {
        let error = one(lines).expect_err(lines);
        assert!(error.contains(told) && !error.contains("geheim"), "{lines}: {error}");
    }
    for (file, told) in [
        ("[[catalog]]\nurl = \"http://a\"\n", "catalog.0 has no name"),
        ("[[catalog]]\nname = \"a\"\n", "catalog.0 has no url"),
        ("[[catalog]]\nname = \"a b\"\nurl = \"http://a\"\n", "letters, digits"),
        ("[[catalog]]\nname = \"a\"\nurl = \"http://a?x=1\"\n", "perhaps a port and a path"),
        ("[catalog]\nname = \"a\"\n", "[[catalog]]"),
        ("[[catalogs]]\nname = \"a\"\n", "did you mean"),
    ] {
        let error = config(file, &[]).expect_err(file);
        assert!(error.contains(told), "{file}: {error}");
    }
    let twice = "[[catalog]]\nname = \"a\"\nurl = \"http://a\"\n".repeat(2);
    assert!(config(&twice, &[]).expect_err("twice").contains("catalog.1"));
}
