//! What is to be at hand: each item of `[[warm]]`.

use super::error::ConfigError;
use super::item::Item;
use super::key::WARM_RULES;
use super::setting::Settings;
use crate::tables::WarmRule;

/// Every rule, in order. Without a catalog none of them could mean a table.
pub(super) fn read_all(
    settings: &Settings,
    has_catalogs: bool,
    errors: &mut Vec<ConfigError>,
) -> Vec<WarmRule> {
    let mut rules = Vec::new();
    for number in 0..settings.items(WARM_RULES) {
        let item = Item { settings, section: WARM_RULES, number };
        if !item.is_set("tables") || item.globs("tables").is_empty() {
            let cure =
                "set them to patterns of catalog.namespace.table, such as [\"lake.sales.*\"]";
            errors.push(item.wrong("no tables", cure));
        } else if !has_catalogs {
            let cure = "configure the catalog that has them as [[catalog]], or take the item out";
            errors.push(item.wrong("tables, but no catalog is watched", cure));
        } else {
            rules.push(WarmRule {
                tables: item.globs("tables"),
                partitions: item.globs("partitions"),
                columns: item.names("columns"),
                pins: item.flag("pin"),
            });
        }
    }
    rules
}
