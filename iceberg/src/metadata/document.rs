//! The JSON document: its members are found first, as slices of the text, and each element of a list
//! is read by itself. So one bad snapshot costs that snapshot, and memory is bounded by the text.

use std::collections::BTreeMap;
use std::fmt;

use nilas_base::HashSet;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::field::Fields;
use super::snapshot::{self, ReferenceText};
use super::{
    ELEMENT_BYTES_MAX, ELEMENTS_MAX, FIELD_TEXT_BYTES_MAX, FORMAT_VERSION_MAX, PROPERTIES_USED,
    PartitionSpec, Reference, ReferenceKind, Snapshot, TableMetadata,
};
use crate::fault::{Fault, Faults};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    format_version: u32,
    location: Box<str>,
    #[serde(borrow, default)]
    table_uuid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    last_sequence_number: Option<&'a RawValue>,
    #[serde(borrow, default)]
    last_updated_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    current_schema_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    schemas: Option<Elements<'a>>,
    #[serde(borrow, default)]
    default_spec_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partition_spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partition_specs: Option<Elements<'a>>,
    #[serde(borrow, default)]
    current_snapshot_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    snapshots: Option<Elements<'a>>,
    #[serde(borrow, default)]
    refs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    statistics: Option<Elements<'a>>,
    #[serde(borrow, default)]
    partition_statistics: Option<Elements<'a>>,
    #[serde(borrow, default)]
    metadata_log: Option<Elements<'a>>,
    #[serde(borrow, default)]
    properties: Option<&'a RawValue>,
}

/// The elements of a list, unread.
#[derive(Default)]
struct Elements<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Elements<'a>, D::Error> {
        from.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "a list of at most {ELEMENTS_MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Elements<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() == ELEMENTS_MAX {
                return Err(serde::de::Error::invalid_length(ELEMENTS_MAX + 1, &self));
            }
            elements.push(element);
        }
        Ok(Elements(elements))
    }
}

/// Reads the inflated document.
pub(super) fn read(path: &str, bytes: &[u8]) -> Result<TableMetadata, Fault> {
    let document: Document<'_> = serde_json::from_slice(bytes)
        .map_err(|error| Fault::damaged(path, format!("not table metadata: {error}")))?;
    if !(1..=FORMAT_VERSION_MAX).contains(&document.format_version) {
        let what = format!("format version {}", document.format_version);
        return Err(Fault::unsupported(path, what));
    }
    let mut reading = Reading { path, faults: Faults::default() };
    let current_schema_id = reading.number(document.current_schema_id).unwrap_or(0);
    let claimed = reading.number(document.current_snapshot_id).filter(|id| *id != -1);
    let references = reading.references(document.refs, claimed);
    let main = references.iter().find(|reference| &*reference.name == "main");
    let current_snapshot_id = claimed.or(main.map(|main| main.snapshot_id));
    let mut metadata = TableMetadata {
        path: path.into(),
        format_version: document.format_version,
        uuid: reading.one(document.table_uuid),
        location: document.location.clone(),
        last_sequence_number: reading.number(document.last_sequence_number).unwrap_or(0),
        last_updated_ms: reading.number(document.last_updated_ms).unwrap_or(0),
        current_schema_id,
        fields: reading.fields(&document, current_schema_id),
        default_spec_id: reading.one(document.default_spec_id).unwrap_or(0),
        specs: reading.specs(&document),
        snapshots: reading.snapshots(document.snapshots),
        references,
        current_snapshot_id,
        statistics: reading.many("statistics", document.statistics),
        partition_statistics: reading.many("partition-statistics", document.partition_statistics),
        metadata_log: reading.many("metadata-log", document.metadata_log),
        properties: reading.properties(document.properties),
        faults: Faults::default(),
    };
    reading.check(&metadata);
    metadata.faults = reading.faults;
    Ok(metadata)
}

/// What is wrong is gathered along the way.
struct Reading<'a> {
    path: &'a str,
    faults: Faults,
}

impl Reading<'_> {
    fn damaged(&mut self, what: String) {
        self.faults.push(Fault::damaged(self.path, what));
    }

    /// A member by itself. `null` is as good as none.
    fn one<T: DeserializeOwned>(&mut self, raw: Option<&RawValue>) -> Option<T> {
        let raw = raw.filter(|raw| raw.get() != "null")?;
        self.element(raw).map_err(|fault| self.faults.push(fault)).ok()
    }

    fn number(&mut self, raw: Option<&RawValue>) -> Option<i64> {
        self.one(raw)
    }

    fn element<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, Fault> {
        if raw.get().len() > ELEMENT_BYTES_MAX {
            let limit = ELEMENT_BYTES_MAX as u64;
            return Err(Fault::too_large(self.path, "bytes of one element", limit));
        }
        serde_json::from_str(raw.get())
            .map_err(|error| Fault::damaged(self.path, format!("{error}, in {}", start(raw))))
    }

    /// The elements of a list that can be read.
    fn many<T: DeserializeOwned>(&mut self, list: &str, elements: Option<Elements<'_>>) -> Vec<T> {
        let mut read = Vec::new();
        for (index, raw) in elements.unwrap_or_default().0.into_iter().enumerate() {
            match self.element(raw) {
                Ok(element) => read.push(element),
                Err(fault) => {
                    self.faults.push(fault);
                    self.damaged(format!("`{list}` is read without its element {index}"));
                }
            }
        }
        read
    }

    fn fields(&mut self, document: &Document<'_>, current_id: i64) -> Vec<super::Field> {
        let listed = document.schemas.as_ref().map_or(&[][..], |schemas| &schemas.0);
        // Format 1 repeats the current schema beside the list, and early writers have it alone.
        let single = document.schema.filter(|_| listed.is_empty());
        let mut order: Vec<(i64, &RawValue)> = listed
            .iter()
            .copied()
            .chain(single)
            .map(|raw| (self.schema_id(raw).unwrap_or(current_id), raw))
            .collect();
        order.sort_by_key(|(id, _)| (*id != current_id, std::cmp::Reverse(*id)));
        let mut fields = Fields::default();
        for (id, raw) in order {
            let Some(schema) = self.one::<Value>(Some(raw)) else { continue };
            if fields.take(&schema, id == current_id).is_err() {
                let limit = FIELD_TEXT_BYTES_MAX as u64;
                self.faults.push(Fault::too_large(self.path, "bytes of column names", limit));
                break;
            }
        }
        fields.into_sorted()
    }

    /// The id alone, so that only one schema's tree is in memory at a time.
    fn schema_id(&self, raw: &RawValue) -> Option<i64> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Schema {
            schema_id: Option<i64>,
        }
        self.element::<Schema>(raw).ok()?.schema_id
    }

    fn specs(&mut self, document: &Document<'_>) -> Vec<PartitionSpec> {
        let listed = document.partition_specs.as_ref().map_or(&[][..], |specs| &specs.0);
        if listed.is_empty() {
            let fields = self.one(document.partition_spec);
            return fields.map(|fields| PartitionSpec { id: 0, fields }).into_iter().collect();
        }
        self.many("partition-specs", Some(Elements(listed.to_vec())))
    }

    fn snapshots(&mut self, elements: Option<Elements<'_>>) -> Vec<Snapshot> {
        let mut snapshots: Vec<Snapshot> = self.many("snapshots", elements);
        let mut ids = HashSet::default();
        snapshots.retain(|snapshot| {
            let new = ids.insert(snapshot.id);
            if !new {
                self.damaged(format!("snapshot {} is listed twice", snapshot.id));
            }
            new
        });
        snapshots
    }

    fn references(&mut self, refs: Option<&RawValue>, current: Option<i64>) -> Vec<Reference> {
        let texts: BTreeMap<String, Box<RawValue>> = self.one(refs).unwrap_or_default();
        let mut read: BTreeMap<String, ReferenceText> = BTreeMap::new();
        for (name, raw) in texts {
            if let Some(text) = self.one(Some(&*raw)) {
                read.insert(name, text);
            }
        }
        let mut references = snapshot::references(read);
        let named = references.iter().any(|reference| &*reference.name == "main");
        if let (false, Some(snapshot_id)) = (named, current) {
            let kind = ReferenceKind::Branch;
            references.push(Reference { name: "main".into(), snapshot_id, kind });
        }
        references
    }

    fn properties(&mut self, raw: Option<&RawValue>) -> Vec<(Box<str>, Box<str>)> {
        let properties: Value = self.one(raw).unwrap_or_default();
        let used = PROPERTIES_USED.iter().filter_map(|name| {
            let value = properties.get(name)?.as_str()?;
            Some(((*name).into(), value.into()))
        });
        used.collect()
    }

    /// What the document says twice, or of snapshots that it does not have.
    fn check(&mut self, metadata: &TableMetadata) {
        let ids: HashSet<i64> = metadata.snapshots.iter().map(|snapshot| snapshot.id).collect();
        let lacks = |id: &i64| !ids.contains(id);
        if let Some(id) = metadata.current_snapshot_id.filter(lacks) {
            self.damaged(format!("the current snapshot {id} is not among the snapshots"));
        }
        for Reference { name, snapshot_id, .. } in &metadata.references {
            if &**name == "main" && metadata.current_snapshot_id != Some(*snapshot_id) {
                let what = format!("`main` is {snapshot_id}, the current snapshot another");
                self.faults.push(Fault::contradicted(self.path, what));
            } else if &**name != "main" && lacks(snapshot_id) {
                self.damaged(format!(
                    "`{name}` names the snapshot {snapshot_id}, which is not there"
                ));
            }
        }
    }
}

/// The beginning of an element, to find it by.
fn start(raw: &RawValue) -> String {
    raw.get().chars().take(60).collect()
}
