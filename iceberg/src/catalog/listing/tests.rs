//! Listings of small catalogs, played by a function from questions to answers.

use serde_json::json;

use super::*;
use crate::catalog::ServerConfig;

const LIMITS: ListingLimits = ListingLimits { tables_max: 100, namespaces_max: 100 };

fn answer(status: u16, body: serde_json::Value) -> Answer {
    Answer { status, body: body.to_string().into(), ..Answer::default() }
}

fn routes(config: serde_json::Value) -> Routes {
    Routes::of(&ServerConfig::read(&answer(200, config)).expect("well formed"), None)
}

/// Runs a listing of a server with one page for each question, `path?query`.
fn list(limits: ListingLimits, server: impl Fn(&str) -> Answer) -> (Listed, Vec<String>) {
    list_of(routes(json!({})), limits, server)
}

fn list_of(
    routes: Routes,
    limits: ListingLimits,
    server: impl Fn(&str) -> Answer,
) -> (Listed, Vec<String>) {
    let mut listing = Listing::new(routes, limits, Box::new(|name| name.name != "unwanted"));
    let mut asked = Vec::new();
    while let Some(question) = listing.question() {
        asked.push(format!("{}?{}", question.path, question.query));
        assert!(asked.len() < 100_000, "a listing ends");
        listing.take(&server(asked.last().expect("just pushed")));
    }
    (listing.finish(), asked)
}

fn namespaces(names: &[&str]) -> Answer {
    let names: Vec<Vec<&str>> = names.iter().map(|name| name.split('.').collect()).collect();
    answer(200, json!({"namespaces": names}))
}

fn tables(names: &[&str]) -> Answer {
    let identifiers = names.iter().map(|name| {
        let name = TableName::from_dotted(name).expect("a full name");
        json!({"namespace": name.namespace.0, "name": name.name})
    });
    answer(200, json!({"identifiers": identifiers.collect::<Vec<_>>()}))
}

fn found(listed: &Listed) -> Vec<String> {
    listed.tables.iter().map(ToString::to_string).collect()
}

#[test]
fn namespaces_are_listed_within_namespaces() {
    let (listed, _) = list(LIMITS, |question| match question {
        "/v1/namespaces?pageToken=" => namespaces(&["a", "b"]),
        "/v1/namespaces?pageToken=&parent=a" => namespaces(&["a.x"]),
        "/v1/namespaces?pageToken=&parent=b" => namespaces(&[]),
        "/v1/namespaces?pageToken=&parent=a%1Fx" => namespaces(&[]),
        "/v1/namespaces/a/tables?pageToken=" => tables(&["a.t", "a.unwanted"]),
        "/v1/namespaces/b/tables?pageToken=" => tables(&[]),
        "/v1/namespaces/a%1Fx/tables?pageToken=" => tables(&["a.x.t"]),
        other => panic!("nobody asks for {other}"),
    });
    assert_eq!(found(&listed), ["a.t", "a.x.t"]);
    assert_eq!((listed.namespaces, listed.unsure.len(), listed.troubles.len()), (3, 0, 0));
    assert!(listed.is_gone(&TableName::from_dotted("a.old").expect("a full name")));
}

#[test]
fn every_page_is_read_of_namespaces_and_tables() {
    let paged = |body: serde_json::Value, next: &str| {
        let mut body = body;
        body["next-page-token"] = json!(next);
        answer(200, body)
    };
    let (listed, asked) = list(LIMITS, |question| match question {
        "/v1/namespaces?pageToken=" => paged(json!({"namespaces": [["a"]]}), "n 2"),
        "/v1/namespaces?pageToken=n%202" => namespaces(&["b"]),
        "/v1/namespaces/a/tables?pageToken=" => {
            paged(json!({"identifiers": [{"namespace": ["a"], "name": "1"}]}), "t2")
        }
        "/v1/namespaces/a/tables?pageToken=t2" => tables(&["a.2"]),
        "/v1/namespaces/b/tables?pageToken=" => tables(&["b.3"]),
        _ => namespaces(&[]),
    });
    assert_eq!(found(&listed), ["a.1", "a.2", "b.3"]);
    assert_eq!(asked.len(), 7, "{asked:?}");
}

#[test]
fn a_server_that_repeats_a_token_is_named_and_keeps_nobody() {
    let (listed, asked) = list(LIMITS, |question| {
        if question.contains("/tables") {
            let table = json!({"namespace": ["a"], "name": "t"});
            return answer(200, json!({"identifiers": [table], "next-page-token": "again"}));
        }
        if question.contains("parent") { namespaces(&[]) } else { namespaces(&["a"]) }
    });
    assert_eq!(found(&listed), ["a.t"]);
    assert!(asked.len() < 6, "{asked:?}");
    assert!(listed.troubles[0].contains("the same page token twice"), "{:?}", listed.troubles);
    assert!(!listed.is_gone(&TableName::from_dotted("a.other").expect("a full name")));
    assert!(listed.is_gone(&TableName::from_dotted("b.other").expect("a full name")));
}

#[test]
fn a_list_that_fails_leaves_the_others_and_takes_nothing_for_gone() {
    let (listed, _) = list(LIMITS, |question| match question {
        "/v1/namespaces?pageToken=" => namespaces(&["a", "b", "c"]),
        "/v1/namespaces/a/tables?pageToken=" => answer(403, json!({"error": {"message": "no"}})),
        "/v1/namespaces/b/tables?pageToken=" => tables(&["b.t"]),
        "/v1/namespaces/c/tables?pageToken=" => answer(404, json!({})),
        "/v1/namespaces?pageToken=&parent=b" => answer(500, json!({})),
        // It does not know `parent`, and says so.
        _ => answer(400, json!({"error": {"message": "parent"}})),
    });
    assert_eq!(found(&listed), ["b.t"]);
    let gone = |name: &str| listed.is_gone(&TableName::from_dotted(name).expect("a full name"));
    assert!(!gone("a.t") && !gone("a.x.t"), "its list was refused");
    assert!(!gone("b.t") && !gone("b.x.t"), "what is in it was not to be had");
    assert!(gone("c.t"), "it was dropped");
    assert_eq!(listed.troubles.len(), 2, "{:?}", listed.troubles);
}

#[test]
fn a_server_that_does_not_know_parent_is_walked_once() {
    let (listed, asked) = list(LIMITS, |question| {
        if question.contains("/tables") { tables(&[]) } else { namespaces(&["a", "b"]) }
    });
    assert_eq!((listed.namespaces, asked.len()), (2, 5));
}

#[test]
fn bounds_hold_and_are_told() {
    let endless = |question: &str| {
        if question.contains("/tables") {
            return tables(&["a.1", "a.2", "a.3"]);
        }
        let parent = question
            .split_once("parent=")
            .map_or(String::new(), |(_, parent)| format!("{}.", parent.replace("%1F", ".")));
        namespaces(&[&format!("{parent}a"), &format!("{parent}b")])
    };
    let limits = ListingLimits { tables_max: 2, namespaces_max: 20 };
    let (listed, _) = list(limits, endless);
    assert_eq!(listed.tables.len(), 2);
    assert!(listed.troubles.iter().any(|it| it.contains("more than 2 tables")));
    let unknown = TableName::from_dotted("z.t").expect("a full name");
    assert!(!listed.is_gone(&unknown), "it may be among those left out");
    let limits = ListingLimits { tables_max: 10, namespaces_max: 20 };
    let (listed, _) = list(limits, endless);
    assert_eq!(listed.namespaces, 20);
    assert!(listed.troubles.iter().any(|it| it.contains("no more than 20")));
}

#[test]
fn views_are_listed_and_skipped_quietly() {
    let endpoint = "GET /v1/{prefix}/namespaces/{namespace}/views";
    let routes = routes(json!({"endpoints": [endpoint]}));
    let (listed, _) = list_of(routes, LIMITS, |question| match question {
        "/v1/namespaces?pageToken=" => namespaces(&["a", "b"]),
        "/v1/namespaces/a/views?pageToken=" => tables(&["a.v"]),
        "/v1/namespaces/b/views?pageToken=" => answer(500, json!({})),
        "/v1/namespaces/a/tables?pageToken=" => tables(&["a.t"]),
        question if question.contains("/tables") => tables(&[]),
        _ => namespaces(&[]),
    });
    assert_eq!((found(&listed), listed.views), (vec!["a.t".to_owned()], 1));
    assert_eq!(listed.troubles, Vec::<String>::new());
}
