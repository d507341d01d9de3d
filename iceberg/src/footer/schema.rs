//! The schema of a footer: its leaves in order, each with its dotted path and its field id, from the
//! file or, where no field of the file has one, from the table's name mapping.

use super::Column;
use super::error::{FooterError, Result};
use super::name_mapping::NameMapping;
use super::thrift::{Field, Thrift};

/// Nodes of a schema. The widest tables known have tens of thousands of columns.
const NODES_MAX: usize = 1 << 17;
/// Groups within groups.
const DEPTH_MAX: usize = 64;
/// Text of all paths together: a long name over many leaves would stand in each of them.
const PATHS_BYTES_MAX: usize = 16 << 20;

/// One node, as it is written: depth first.
#[derive(Default)]
pub(super) struct Node<'a> {
    name: &'a [u8],
    children: i64,
    field_id: Option<i32>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    #[default]
    Plain,
    List,
    Map,
}

/// A group whose children are being read.
struct Open<'m> {
    children_left: i64,
    children_read: u32,
    path_bytes: usize,
    mapping: Option<&'m NameMapping>,
    naming: Naming,
}

/// By what name the mapping knows a group's children: it has `element`, `key` and `value` where files
/// have a repeated group between, under names that differ from writer to writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Own,
    ListBody,
    Element,
    MapBody,
    KeyValue,
}

/// Reads the list of nodes.
pub(super) fn read_nodes<'a>(thrift: &mut Thrift<'a>, field: Field) -> Result<Vec<Node<'a>>> {
    let mut nodes = Vec::new();
    thrift.structures(field, |thrift| {
        if nodes.len() == NODES_MAX {
            let (found, most) = (NODES_MAX as u64 + 1, NODES_MAX as u64);
            return Err(FooterError::TooLarge { what: "schema nodes", found, most });
        }
        nodes.push(read_node(thrift)?);
        Ok(())
    })?;
    Ok(nodes)
}

fn read_node<'a>(thrift: &mut Thrift<'a>) -> Result<Node<'a>> {
    let mut node = Node::default();
    thrift.fields(|thrift, field| {
        match field.id {
            4 => node.name = thrift.binary(field)?,
            5 => node.children = thrift.integer(field)?,
            6 => match thrift.integer(field)? {
                1 | 2 => node.shape = Shape::Map,
                3 => node.shape = Shape::List,
                _ => {}
            },
            // Arrow writes -1 for a field that has none.
            9 => node.field_id = i32::try_from(thrift.integer(field)?).ok().filter(|id| *id >= 0),
            10 => thrift.structure(field, |thrift, variant| {
                match variant.id {
                    2 => node.shape = Shape::Map,
                    3 => node.shape = Shape::List,
                    _ => {}
                }
                thrift.skip(variant)
            })?,
            _ => thrift.skip(field)?,
        }
        Ok(())
    })?;
    Ok(node)
}

/// The leaves of the tree that `nodes` describe.
pub(super) fn leaves(nodes: &[Node<'_>], names: Option<&NameMapping>) -> Result<Vec<Column>> {
    let (root, nodes) = nodes.split_first().ok_or(FooterError::Damaged("it has no schema"))?;
    // Iceberg's readers use the mapping only where no field of the file has an id.
    let names = names.filter(|_| nodes.iter().all(|node| node.field_id.is_none()));
    let mut walk = Walk { path: String::new(), paths_bytes: 0, columns: Vec::new() };
    let mut open = vec![Open {
        children_left: root.children,
        children_read: 0,
        path_bytes: 0,
        mapping: names,
        naming: Naming::Own,
    }];
    for node in nodes {
        while open.last().is_some_and(|group| group.children_left <= 0) {
            open.pop();
        }
        let group = open.last_mut().ok_or(FooterError::Damaged("a schema node has no parent"))?;
        if let Some(inner) = walk.visit(node, group)? {
            open.push(inner);
        }
        if open.len() > DEPTH_MAX {
            return Err(FooterError::Damaged("its schema is nested too deeply"));
        }
    }
    match open.iter().all(|group| group.children_left <= 0) {
        true => Ok(walk.columns),
        false => Err(FooterError::Damaged("its schema lacks nodes")),
    }
}

struct Walk {
    path: String,
    paths_bytes: usize,
    columns: Vec<Column>,
}

impl Walk {
    /// Takes one node under `group`; what is returned is the group that it opens.
    fn visit<'m>(&mut self, node: &Node<'_>, group: &mut Open<'m>) -> Result<Option<Open<'m>>> {
        let name = std::str::from_utf8(node.name);
        let name = name.map_err(|_| FooterError::Damaged("a column's name is not UTF-8"))?;
        self.path.truncate(group.path_bytes);
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        if self.path.len() > PATHS_BYTES_MAX {
            return Err(too_much_text(self.path.len()));
        }
        let step = step(node, name, group);
        group.children_left -= 1;
        group.children_read += 1;
        if node.children <= 0 {
            let mapped = step.known_as.and_then(|known_as| group.mapping?.field(known_as));
            self.push(node.field_id.or_else(|| mapped?.id))?;
            return Ok(None);
        }
        let mapping = match step.known_as {
            Some(known_as) => group.mapping.and_then(|it| Some(&it.field(known_as)?.inner)),
            None => group.mapping,
        };
        Ok(Some(Open {
            children_left: node.children,
            children_read: 0,
            path_bytes: self.path.len(),
            mapping,
            naming: step.naming,
        }))
    }

    fn push(&mut self, field_id: Option<i32>) -> Result<()> {
        self.paths_bytes += self.path.len();
        if self.paths_bytes > PATHS_BYTES_MAX {
            return Err(too_much_text(self.paths_bytes));
        }
        self.columns.push(Column { field_id, path: self.path.as_str().into() });
        Ok(())
    }
}

fn too_much_text(bytes: usize) -> FooterError {
    let (found, most) = (bytes as u64, PATHS_BYTES_MAX as u64);
    FooterError::TooLarge { what: "bytes of column paths", found, most }
}

/// How a node stands in the mapping.
struct Step<'n> {
    /// Its name there; `None` for the repeated group of a list or map, which the mapping leaves out.
    known_as: Option<&'n str>,
    /// How its children are named.
    naming: Naming,
}

fn step<'n>(node: &Node<'_>, name: &'n str, group: &Open<'_>) -> Step<'n> {
    let known_as = match group.naming {
        Naming::Own => name,
        // Parquet's rules for lists that were written before there was a rule.
        Naming::ListBody if node.children == 1 && name != "array" && !name.ends_with("_tuple") => {
            return Step { known_as: None, naming: Naming::Element };
        }
        Naming::MapBody => return Step { known_as: None, naming: Naming::KeyValue },
        Naming::ListBody | Naming::Element => "element",
        Naming::KeyValue if group.children_read == 0 => "key",
        Naming::KeyValue => "value",
    };
    let naming = match node.shape {
        Shape::Plain => Naming::Own,
        Shape::List => Naming::ListBody,
        Shape::Map => Naming::MapBody,
    };
    Step { known_as: Some(known_as), naming }
}
