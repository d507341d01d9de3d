//! The schema that a file was written with, as a table of nodes, each with the ids that Iceberg wrote
//! beside the names. Names are used only to find a type again, and where no id stands.

use nilas_base::HashMap;
use serde_json::Value;

use super::cursor::Flaw;

/// Nodes of one schema. Iceberg's own have some sixty.
const NODES_MAX: usize = 1 << 14;

pub(super) type NodeId = usize;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Vec<Box<str>>),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Vec<Member>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) id: Option<i64>,
    pub(super) name: Box<str>,
    pub(super) node: NodeId,
}

/// What a number or some bytes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    None,
    Date,
    Time,
    TimestampMillis,
    TimestampMicros,
    TimestampNanos,
    Decimal { scale: u32 },
    Uuid,
}

#[derive(Debug)]
pub(super) struct Schema {
    nodes: Vec<(Node, Logical)>,
    pub(super) root: NodeId,
}

impl Schema {
    pub(super) fn parse(text: &[u8]) -> Result<Schema, Flaw> {
        let json: Value = serde_json::from_slice(text)
            .map_err(|error| Flaw::damaged(format!("its Avro schema: {error}")))?;
        let mut building = Building { nodes: Vec::new(), named: HashMap::default() };
        let root = building.node(&json, "")?;
        Ok(Schema { nodes: building.nodes, root })
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id].0
    }

    pub(super) fn logical(&self, id: NodeId) -> Logical {
        self.nodes[id].1
    }

    /// The members of a record, or of the only record in a union.
    pub(super) fn members(&self, id: NodeId) -> Result<&[Member], Flaw> {
        match self.node(id) {
            Node::Record(members) => Ok(members),
            Node::Union(branches) => {
                let mut records = branches.iter().filter_map(|branch| match self.node(*branch) {
                    Node::Record(members) => Some(members),
                    _ => None,
                });
                records.next().map(Vec::as_slice).ok_or_else(no_record)
            }
            _ => Err(no_record()),
        }
    }
}

fn no_record() -> Flaw {
    Flaw::damaged("its Avro schema: a record was due")
}

struct Building {
    nodes: Vec<(Node, Logical)>,
    named: HashMap<String, NodeId>,
}

impl Building {
    fn push(&mut self, node: Node) -> Result<NodeId, Flaw> {
        if self.nodes.len() == NODES_MAX {
            return Err(Flaw::TooLarge("nodes of the Avro schema", NODES_MAX));
        }
        self.nodes.push((node, Logical::None));
        Ok(self.nodes.len() - 1)
    }

    fn node(&mut self, json: &Value, space: &str) -> Result<NodeId, Flaw> {
        match json {
            Value::String(name) => self.by_name(name, space),
            Value::Array(branches) => {
                let branches: Result<_, _> =
                    branches.iter().map(|branch| self.node(branch, space)).collect();
                self.push(Node::Union(branches?))
            }
            Value::Object(_) => self.object(json, space),
            _ => Err(unknown(json)),
        }
    }

    fn by_name(&mut self, name: &str, space: &str) -> Result<NodeId, Flaw> {
        if let Some(node) = primitive(name) {
            return self.push(node);
        }
        let known = self.named.get(&full_name(name, space)).or_else(|| self.named.get(name));
        known.copied().ok_or_else(|| unknown(&Value::from(name)))
    }

    fn object(&mut self, json: &Value, space: &str) -> Result<NodeId, Flaw> {
        let Some(kind) = json["type"].as_str() else {
            return self.node(&json["type"], space); // A type wrapped in another.
        };
        let id = match kind {
            "record" | "error" => return self.record(json, space),
            "array" => {
                let items = self.node(&json["items"], space)?;
                self.push(Node::Array(items))?
            }
            "map" => {
                let values = self.node(&json["values"], space)?;
                self.push(Node::Map(values))?
            }
            "fixed" => {
                let size = json["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| unknown(json))?;
                let id = self.push(Node::Fixed(size))?;
                self.name(json, space, id);
                id
            }
            "enum" => {
                let symbols = json["symbols"].as_array().ok_or_else(|| unknown(json))?;
                let symbols = symbols.iter().map(|symbol| symbol.as_str().unwrap_or("").into());
                let id = self.push(Node::Enum(symbols.collect()))?;
                self.name(json, space, id);
                id
            }
            other => self.by_name(other, space)?,
        };
        // A type that is named here keeps what it was given where it was drawn.
        if logical(json) != Logical::None {
            self.nodes[id].1 = logical(json);
        }
        Ok(id)
    }

    fn record(&mut self, json: &Value, space: &str) -> Result<NodeId, Flaw> {
        // Known before its members are read: they may speak of it.
        let id = self.push(Node::Record(Vec::new()))?;
        let space = self.name(json, space, id);
        let fields = json["fields"].as_array().ok_or_else(|| unknown(json))?;
        let mut members = Vec::with_capacity(fields.len());
        for field in fields {
            members.push(Member {
                id: field["field-id"].as_i64(),
                name: field["name"].as_str().unwrap_or("").into(),
                node: self.node(&field["type"], &space)?,
            });
        }
        self.nodes[id].0 = Node::Record(members);
        Ok(id)
    }

    /// Remembers a named type, and gives the namespace of what is inside it.
    fn name(&mut self, json: &Value, space: &str, id: NodeId) -> String {
        let name = json["name"].as_str().unwrap_or("");
        let full = full_name(name, json["namespace"].as_str().unwrap_or(space));
        let inside = full.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
        self.named.insert(full, id);
        inside
    }
}

fn full_name(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() { name.into() } else { format!("{space}.{name}") }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::Text,
        _ => return None,
    })
}

fn logical(json: &Value) -> Logical {
    match json["logicalType"].as_str() {
        Some("date") => Logical::Date,
        Some("time-micros") => Logical::Time,
        Some("timestamp-millis" | "local-timestamp-millis") => Logical::TimestampMillis,
        Some("timestamp-micros" | "local-timestamp-micros") => Logical::TimestampMicros,
        Some("timestamp-nanos" | "local-timestamp-nanos") => Logical::TimestampNanos,
        Some("uuid") => Logical::Uuid,
        Some("decimal") => {
            let scale = json["scale"].as_u64().and_then(|scale| u32::try_from(scale).ok());
            Logical::Decimal { scale: scale.unwrap_or(0) }
        }
        _ => Logical::None,
    }
}

fn unknown(json: &Value) -> Flaw {
    let text: String = json.to_string().chars().take(60).collect();
    Flaw::damaged(format!("its Avro schema: what is {text}?"))
}
