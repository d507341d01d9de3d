//! A table's name mapping (`schema.name-mapping.default`): field ids for files that were written
//! without them and taken into the table later. Iceberg's specification, "Name Mapping Serialization".

use nilas_base::HashMap;
use serde::Deserialize;

use super::error::{FooterError, Result};

/// Field ids by name, level by level.
#[derive(Clone, Debug, Default)]
pub struct NameMapping {
    fields: Vec<MappedField>,
    by_name: HashMap<String, usize>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) struct MappedField {
    pub(super) id: Option<i32>,
    pub(super) inner: NameMapping,
}

/// As the property writes it.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "field-id")]
    field_id: Option<i32>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    fields: Vec<Written>,
}

impl NameMapping {
    /// Reads the property's text.
    ///
    /// # Errors
    /// [`FooterError::NameMapping`] where it is not what the specification says.
    pub fn parse(text: &str) -> Result<NameMapping> {
        serde_json::from_str(text)
            .map(NameMapping::of)
            .map_err(|error| FooterError::NameMapping(error.to_string()))
    }

    fn of(written: Vec<Written>) -> NameMapping {
        let mut mapping = NameMapping::default();
        for (at, Written { field_id, names, fields }) in written.into_iter().enumerate() {
            mapping.fields.push(MappedField { id: field_id, inner: NameMapping::of(fields) });
            mapping.by_name.extend(names.into_iter().map(|name| (name, at)));
        }
        mapping
    }

    pub(super) fn field(&self, name: &str) -> Option<&MappedField> {
        self.by_name.get(name).map(|at| &self.fields[*at])
    }
}
