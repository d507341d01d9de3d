//! A policy document: until when, and under which conditions, a form may be posted (AWS, "Creating a
//! POST policy"). Base64 around JSON, bounded in bytes and conditions; whether a form meets it is
//! `verdict`.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nilas_base::UnixMillis;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::date::parse_iso_date;
use crate::{Code, S3Error};

/// Bytes of a policy, in base64: S3's limit on all fields.
pub const POLICY_BYTES_MAX: usize = 20 << 10;
/// Conditions of one policy: as many as a form may have fields.
pub const CONDITIONS_MAX: usize = super::FIELDS_MAX;

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From when on it holds no more.
    pub expiration: UnixMillis,
    /// What must hold.
    pub conditions: Vec<Condition>,
}

/// What must hold of a form. Fields are named in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A field has this value.
    Equals {
        /// Which.
        field: String,
        /// What.
        value: String,
    },
    /// A field's value begins so.
    StartsWith {
        /// Which.
        field: String,
        /// How.
        prefix: String,
    },
    /// The file has so many bytes.
    Length(LengthRange),
}

/// How many bytes a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRange {
    /// At least.
    pub bytes_min: u64,
    /// At most.
    pub bytes_max: u64,
}

/// Why a form is not posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The policy cannot be read.
    #[error("Invalid Policy: {0}.")]
    Malformed(String),
    /// It holds no more.
    #[error("Invalid according to Policy: Policy expired.")]
    Expired,
    /// A condition does not hold.
    #[error("Invalid according to Policy: Policy Condition failed: {0}")]
    Failed(Condition),
    /// No condition covers a field.
    #[error("Invalid according to Policy: Extra input fields: {0}")]
    Uncovered(String),
}

impl From<PolicyError> for S3Error {
    fn from(error: PolicyError) -> S3Error {
        let code = match error {
            PolicyError::Malformed(_) => Code::InvalidPolicyDocument,
            _ => Code::AccessDenied,
        };
        S3Error::because(code, error.to_string())
    }
}

impl LengthRange {
    /// Any length.
    pub const ANY: LengthRange = LengthRange { bytes_min: 0, bytes_max: u64::MAX };
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Equals { field, value } => {
                write!(formatter, "[\"eq\", \"${field}\", {value:?}]")
            }
            Condition::StartsWith { field, prefix } => {
                write!(formatter, "[\"starts-with\", \"${field}\", {prefix:?}]")
            }
            Condition::Length(LengthRange { bytes_min, bytes_max }) => {
                write!(formatter, "[\"content-length-range\", {bytes_min}, {bytes_max}]")
            }
        }
    }
}

impl Policy {
    /// Reads a policy as the form has it.
    pub fn parse(base64: &str) -> Result<Policy, PolicyError> {
        if base64.len() > POLICY_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        // Line ends within base64 are let pass by S3, and are part of what was signed.
        let text: Vec<u8> = base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let json = BASE64_STANDARD.decode(text).map_err(|_| malformed("it is not in base64"))?;
        Policy::of_json(&json)
    }

    /// Reads a policy.
    pub fn of_json(json: &[u8]) -> Result<Policy, PolicyError> {
        if json.len() > POLICY_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let document: Document = serde_json::from_slice(&in_plain_json(json))
            .map_err(|error| PolicyError::Malformed(format!("invalid JSON: {error}")))?;
        let expiration = parse_iso_date(document.expiration.as_bytes())
            .ok_or_else(|| malformed("'expiration' is not a time such as 2030-01-31T12:00:00Z"))?;
        let mut conditions = Vec::new();
        for item in document.conditions {
            item.add_to(&mut conditions)?;
            if conditions.len() > CONDITIONS_MAX {
                return Err(malformed("it has too many conditions"));
            }
        }
        Ok(Policy { expiration, conditions })
    }
}

fn malformed(what: &str) -> PolicyError {
    PolicyError::Malformed(what.to_owned())
}

/// The JSON with S3's own escapes `\$` and `\v` written as JSON has them.
fn in_plain_json(json: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(json.len());
    let mut bytes = json.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, (byte == b'\\').then(|| bytes.next()).flatten()) {
            (_, Some(b'$')) => plain.extend_from_slice(b"\\u0024"),
            (_, Some(b'v')) => plain.extend_from_slice(b"\\u000b"),
            (_, Some(&escaped)) => plain.extend_from_slice(&[byte, escaped]),
            (_, None) => plain.push(byte),
        }
    }
    plain
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    expiration: String,
    conditions: Vec<Item>,
}

/// A condition as it is written. Nothing nests any deeper, so neither does the parser.
enum Item {
    Exact(Vec<(String, String)>),
    Listed(Vec<Argument>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Text(String),
    Number(u64),
}

impl Item {
    fn add_to(self, conditions: &mut Vec<Condition>) -> Result<(), PolicyError> {
        match self {
            Item::Exact(pairs) if pairs.is_empty() => Err(malformed("a condition is empty")),
            Item::Exact(pairs) => {
                conditions.extend(pairs.into_iter().map(|(field, value)| Condition::Equals {
                    field: field.to_ascii_lowercase(),
                    value,
                }));
                Ok(())
            }
            Item::Listed(arguments) => {
                conditions.push(listed(&arguments)?);
                Ok(())
            }
        }
    }
}

fn listed(arguments: &[Argument]) -> Result<Condition, PolicyError> {
    let refused = |what: &str| Err(malformed(what));
    let [Argument::Text(operator), first, second] = arguments else {
        return refused("a condition in brackets has an operator and two arguments");
    };
    if operator.eq_ignore_ascii_case("content-length-range") {
        return match (number(first), number(second)) {
            (Some(bytes_min), Some(bytes_max)) => {
                Ok(Condition::Length(LengthRange { bytes_min, bytes_max }))
            }
            _ => refused("content-length-range takes two numbers of bytes"),
        };
    }
    let (Argument::Text(name), Argument::Text(value)) = (first, second) else {
        return refused("a condition compares texts");
    };
    let Some(field) = name.strip_prefix('$').map(str::to_ascii_lowercase) else {
        return refused("a condition names its field with a dollar sign before it");
    };
    match operator.to_ascii_lowercase().as_str() {
        "eq" => Ok(Condition::Equals { field, value: value.clone() }),
        "starts-with" => Ok(Condition::StartsWith { field, prefix: value.clone() }),
        _ => refused("the operators are eq, starts-with and content-length-range"),
    }
}

/// S3 takes a number in quotes for a number.
fn number(argument: &Argument) -> Option<u64> {
    match argument {
        Argument::Number(number) => Some(*number),
        Argument::Text(text) => text.parse().ok(),
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a condition, in braces or in brackets")
    }

    // As pairs: of two with one name, both must hold.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Item::Exact(pairs))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
        let mut arguments = Vec::new();
        while let Some(argument) = list.next_element()? {
            arguments.push(argument);
        }
        Ok(Item::Listed(arguments))
    }
}

#[cfg(test)]
mod tests;
