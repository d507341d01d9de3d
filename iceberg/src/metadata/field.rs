//! Columns by field id, and partition specs. Types stay text: a type that nobody knows yet is kept
//! as it stands, and a column inside it is found as long as it is spelt like those of today.

use nilas_base::HashMap;
use serde::Deserialize;
use serde_json::Value;

use super::FIELD_TEXT_BYTES_MAX;

/// A column, or a field inside one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its id, which no renaming changes.
    pub id: i32,
    /// Its names from the root, with dots; `element`, `key` and `value` inside lists and maps.
    pub path: Box<str>,
    /// `long`, `decimal(9,2)`, `struct`, `list`, `map`, or whatever stands there.
    pub type_text: Box<str>,
    /// Whether the current schema has it.
    pub current: bool,
}

/// How files are partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSpec {
    /// Its id.
    pub id: i32,
    /// Its fields, in the order of the partition tuple.
    pub fields: Vec<PartitionField>,
}

/// One value of a partition tuple, and what it is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionField {
    /// The id of the value, as manifests name it; format 1 may not say.
    pub field_id: Option<i32>,
    /// The columns that it is made from: one, but for transforms of several.
    pub source_ids: Vec<i32>,
    /// Its name.
    pub name: Box<str>,
    /// `identity`, `bucket[16]`, `day` or whatever stands there.
    pub transform: Box<str>,
}

/// Bytes of one column's path. Longer ones are a document gone wild, and are passed over with what
/// is inside them.
const FIELD_PATH_BYTES_MAX: usize = 4096;

/// Gathers fields over schemas; the first that names an id is believed.
#[derive(Default)]
pub(super) struct Fields {
    known: HashMap<i32, Field>,
    text_bytes: usize,
    path: String,
    current: bool,
}

/// More text than [`FIELD_TEXT_BYTES_MAX`].
pub(super) struct TooMuchText;

impl Fields {
    /// Takes the fields of one schema; the current one is to come first.
    pub(super) fn take(&mut self, schema: &Value, current: bool) -> Result<(), TooMuchText> {
        self.path.clear();
        self.current = current;
        self.take_fields(schema)
    }

    /// All of them, by id.
    pub(super) fn into_sorted(self) -> Vec<Field> {
        let mut fields: Vec<Field> = self.known.into_values().collect();
        fields.sort_by_key(|field| field.id);
        fields
    }

    fn take_fields(&mut self, structure: &Value) -> Result<(), TooMuchText> {
        for field in structure["fields"].as_array().map_or(&[][..], Vec::as_slice) {
            let name = field["name"].as_str().unwrap_or("");
            self.take_field(&field["id"], name, &field["type"])?;
        }
        Ok(())
    }

    fn take_field(&mut self, id: &Value, name: &str, of: &Value) -> Result<(), TooMuchText> {
        let outer = self.path.len();
        if outer + 1 + name.len() > FIELD_PATH_BYTES_MAX {
            return Ok(());
        }
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        if let Some(id) = id.as_i64().and_then(|id| i32::try_from(id).ok()) {
            self.know(id, of)?;
        }
        self.take_inner(of)?;
        self.path.truncate(outer);
        Ok(())
    }

    fn take_inner(&mut self, of: &Value) -> Result<(), TooMuchText> {
        if !of.is_object() {
            return Ok(());
        }
        self.take_fields(of)?;
        for inner in ["element", "key", "value"] {
            if let Some(of_inner) = of.get(inner) {
                self.take_field(&of[format!("{inner}-id")], inner, of_inner)?;
            }
        }
        Ok(())
    }

    fn know(&mut self, id: i32, of: &Value) -> Result<(), TooMuchText> {
        if self.known.contains_key(&id) {
            return Ok(());
        }
        let type_text = of.as_str().or_else(|| of["type"].as_str()).unwrap_or("unknown");
        self.text_bytes += self.path.len() + type_text.len();
        if self.text_bytes > FIELD_TEXT_BYTES_MAX {
            return Err(TooMuchText);
        }
        let (path, type_text) = (self.path.as_str().into(), type_text.into());
        self.known.insert(id, Field { id, path, type_text, current: self.current });
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SpecText {
    spec_id: i32,
    fields: Vec<PartitionField>,
}

impl<'de> Deserialize<'de> for PartitionSpec {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<PartitionSpec, D::Error> {
        let text = SpecText::deserialize(from)?;
        Ok(PartitionSpec { id: text.spec_id, fields: text.fields })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartitionFieldText {
    name: Box<str>,
    transform: Box<str>,
    #[serde(default)]
    field_id: Option<i32>,
    #[serde(default)]
    source_id: Option<i32>,
    #[serde(default)]
    source_ids: Option<Vec<i32>>,
}

impl<'de> Deserialize<'de> for PartitionField {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<PartitionField, D::Error> {
        let text = PartitionFieldText::deserialize(from)?;
        let source_ids = text.source_ids.unwrap_or_else(|| text.source_id.into_iter().collect());
        let PartitionFieldText { name, transform, field_id, .. } = text;
        Ok(PartitionField { field_id, source_ids, name, transform })
    }
}
