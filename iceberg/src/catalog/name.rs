//! What tables are called. Levels and names are texts of any characters; only for people and for patterns
//! they are written with dots.

use std::fmt;

/// A namespace: its levels, the outermost first. None of them: the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub Vec<String>);

impl Namespace {
    /// Whether `other` is this one or lies in it.
    pub fn holds(&self, other: &Namespace) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("."))
    }
}

/// A table's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// Where it is.
    pub namespace: Namespace,
    /// What it is called there.
    pub name: String,
}

impl TableName {
    /// The table that a text with dots means, where no level and no name has a dot of its own. `None` of one without a
    /// namespace.
    pub fn from_dotted(text: &str) -> Option<TableName> {
        let (namespace, name) = text.rsplit_once('.')?;
        let levels: Vec<String> = namespace.split('.').map(str::to_owned).collect();
        let is_whole = !name.is_empty() && levels.iter().all(|level| !level.is_empty());
        is_whole.then(|| TableName { namespace: Namespace(levels), name: name.to_owned() })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_text_names_a_table_in_a_namespace() {
        let name = TableName::from_dotted("lake.raw.orders").expect("it has a namespace");
        assert_eq!(name.namespace, Namespace(vec!["lake".to_owned(), "raw".to_owned()]));
        assert_eq!(
            (name.name.as_str(), name.to_string()),
            ("orders", "lake.raw.orders".to_owned())
        );
        for text in ["", "orders", ".orders", "lake.", "lake..orders"] {
            assert_eq!(TableName::from_dotted(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_namespace_holds_itself_and_what_is_in_it() {
        let namespace = |text: &str| Namespace(text.split('.').map(str::to_owned).collect());
        assert!(namespace("a").holds(&namespace("a")) && namespace("a").holds(&namespace("a.b")));
        assert!(
            !namespace("a").holds(&namespace("ab")) && !namespace("a.b").holds(&namespace("a"))
        );
        assert!(Namespace::default().holds(&namespace("a")));
    }
}
