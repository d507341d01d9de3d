//! The catalogs' families on the Prometheus page. Tables are counted, not told one by one: a catalog has more of
//! them than a page can hold.

use super::exposition::Exposition;
use crate::catalog::{CatalogCount, CatalogSnapshot};

/// The families, in order; nothing where no catalog is watched.
pub(super) fn write(page: &mut Exposition, catalogs: &[CatalogSnapshot]) {
    if catalogs.is_empty() {
        return;
    }
    for (what, name, help) in FAMILIES {
        let mut family = page.counter(name, help);
        for catalog in catalogs {
            family.sample(&[("catalog", &catalog.name)], catalog.count(*what));
        }
    }
    let mut hints = page.counter("nilas_catalog_hints_total", "Hints, by what became of them.");
    for catalog in catalogs {
        for (what, end) in [
            (CatalogCount::HintsTaken, "taken"),
            (CatalogCount::HintsRepeated, "repeated"),
            (CatalogCount::HintsDropped, "dropped"),
        ] {
            hints.sample(&[("catalog", &catalog.name), ("end", end)], catalog.count(what));
        }
    }
    let mut watched = page.gauge("nilas_catalog_tables", "Tables that are watched.");
    for catalog in catalogs {
        watched.sample(&[("catalog", &catalog.name)], catalog.tables.len());
    }
    let help = "Of these, tables whose last answer was none of use.";
    let mut failing = page.gauge("nilas_catalog_tables_failing", help);
    for catalog in catalogs {
        let count = catalog.tables.values().filter(|it| it.last_error.is_some()).count();
        failing.sample(&[("catalog", &catalog.name)], count);
    }
    let help = "When the catalog last answered well, in seconds since 1970-01-01 UTC; zero: never.";
    let mut success = page.gauge("nilas_catalog_last_success_seconds", help);
    for catalog in catalogs {
        let seconds = catalog.last_success.map_or(0, |at| at.0 / 1000);
        success.sample(&[("catalog", &catalog.name)], seconds);
    }
}

const FAMILIES: &[(CatalogCount, &str, &str)] = &[
    (CatalogCount::Requests, "nilas_catalog_requests_total", "Requests to the catalog."),
    (CatalogCount::TokenRequests, "nilas_catalog_token_requests_total", "Requests for tokens."),
    (CatalogCount::Polls, "nilas_catalog_polls_total", "Tables asked for."),
    (
        CatalogCount::PollsUnchanged,
        "nilas_catalog_polls_unchanged_total",
        "Answers that a table is what it was.",
    ),
    (CatalogCount::Failures, "nilas_catalog_failures_total", "Questions without an answer of use."),
    (CatalogCount::Listings, "nilas_catalog_listings_total", "Listings of all tables."),
    (CatalogCount::TablesSeen, "nilas_catalog_tables_seen_total", "Tables seen with new metadata."),
    (CatalogCount::TablesGone, "nilas_catalog_tables_gone_total", "Tables that went."),
    (
        CatalogCount::CredentialsRenewed,
        "nilas_catalog_credentials_renewed_total",
        "Credentials that were lent anew.",
    ),
];
