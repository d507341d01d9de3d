//! Partition tuples: typed, and as a text that a person reads (`day=2024-01-01/region=eu`). Each
//! tuple of a manifest is read and kept once, however many files have it.

use std::fmt::{self, Write};

use nilas_base::HashMap;
use serde_json::Value;

use super::cursor::Flaw;
use super::schema::{Logical, Node, NodeId, Schema};
use super::walk::{Primitive, Walker};
use crate::metadata::PartitionField;

/// The partition of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    /// The spec whose fields the values are.
    pub spec_id: i32,
    /// One for each field of the spec, in its order.
    pub values: Box<[PartitionValue]>,
    /// Names and values as Iceberg writes them into paths; what would part or end one is escaped
    /// with `%`. Empty for a table without partitions.
    pub text: Box<str>,
}

/// A value of a partition tuple.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PartitionValue {
    /// No value.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A number, a bucket, or days, months and so on since 1970.
    Integer(i64),
    /// The bits of a float.
    Float(u32),
    /// The bits of a double.
    Double(u64),
    /// A text.
    Text(Box<str>),
    /// Bytes; a decimal's unscaled value, a uuid.
    Bytes(Box<[u8]>),
}

/// How a number of a partition is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Year,
    Month,
    Hour,
    As(Logical),
}

struct Column {
    node: NodeId,
    name: Box<str>,
    shown: Shown,
}

/// Reads the tuples of one manifest.
pub(super) struct Partitions {
    spec_id: i32,
    columns: Vec<Column>,
    known: HashMap<Box<[u8]>, u32>,
    last: Option<(Box<[u8]>, u32)>,
    read: Vec<Partition>,
}

impl Partitions {
    /// For a manifest whose tuples are the record `tuple`; the header's spec names its fields.
    pub(super) fn new(
        schema: &Schema,
        tuple: Option<NodeId>,
        spec_id: i32,
        spec: Option<&[u8]>,
    ) -> Result<Partitions, Flaw> {
        let fields = spec.map_or(Vec::new(), spec_fields);
        let members = tuple.map_or(Ok(&[][..]), |tuple| schema.members(tuple))?;
        let columns = members.iter().map(|member| {
            let of_id = |field: &&PartitionField| {
                field.field_id.map(i64::from) == member.id && member.id.is_some()
            };
            let of_name = |field: &&PartitionField| field.name == member.name;
            let field = fields.iter().find(of_id).or_else(|| fields.iter().find(of_name));
            let transform = field.map_or("identity", |field| &*field.transform);
            Column {
                node: member.node,
                name: field.map_or_else(|| member.name.clone(), |field| field.name.clone()),
                shown: shown(transform, logical_of(schema, member.node)),
            }
        });
        let columns = columns.collect();
        let (known, last, read) = (HashMap::default(), None, Vec::new());
        Ok(Partitions { spec_id, columns, known, last, read })
    }

    /// The number of the tuple that the walker has before it.
    pub(super) fn take(&mut self, walker: &mut Walker<'_, '_>, tuple: NodeId) -> Result<u32, Flaw> {
        let raw = walker.raw(tuple)?;
        // Files of one partition stand together as a rule.
        if let Some((bytes, number)) = &self.last
            && **bytes == *raw
        {
            return Ok(*number);
        }
        let number = match self.known.get(raw) {
            Some(number) => *number,
            None => self.learn(walker.schema(), tuple, raw)?,
        };
        self.last = Some((raw.into(), number));
        Ok(number)
    }

    /// The number of the tuple of a manifest that has none.
    pub(super) fn take_none(&mut self) -> u32 {
        if self.read.is_empty() {
            self.read.push(Partition { spec_id: self.spec_id, values: [].into(), text: "".into() });
        }
        0
    }

    pub(super) fn into_read(self) -> Box<[Partition]> {
        self.read.into()
    }

    fn learn(&mut self, schema: &Schema, tuple: NodeId, raw: &[u8]) -> Result<u32, Flaw> {
        let mut walker = Walker::new(schema, raw);
        walker.present(tuple)?;
        let mut values = Vec::with_capacity(self.columns.len());
        let mut text = String::new();
        for column in &self.columns {
            let value = read_value(&mut walker, column.node)?;
            if !text.is_empty() {
                text.push('/');
            }
            escape(&column.name, &mut text);
            text.push('=');
            escape(&Showing(&value, column.shown).to_string(), &mut text);
            values.push(value);
        }
        let number = self.read.len() as u32;
        let (values, text) = (values.into(), text.into());
        self.read.push(Partition { spec_id: self.spec_id, values, text });
        self.known.insert(raw.into(), number);
        Ok(number)
    }
}

/// The header's spec: its fields, or the spec around them.
fn spec_fields(text: &[u8]) -> Vec<PartitionField> {
    let json: Value = serde_json::from_slice(text).unwrap_or_default();
    let fields = if json.is_object() { &json["fields"] } else { &json };
    let fields = fields.as_array().map_or(&[][..], Vec::as_slice);
    fields.iter().filter_map(|field| serde_json::from_value(field.clone()).ok()).collect()
}

fn logical_of(schema: &Schema, node: NodeId) -> Logical {
    match schema.node(node) {
        Node::Union(branches) => {
            let mut logical = branches.iter().map(|branch| schema.logical(*branch));
            logical.find(|logical| *logical != Logical::None).unwrap_or(Logical::None)
        }
        _ => schema.logical(node),
    }
}

fn shown(transform: &str, logical: Logical) -> Shown {
    match transform {
        "year" => Shown::Year,
        "month" => Shown::Month,
        "hour" => Shown::Hour,
        // Some writers leave the type of days out.
        "day" => Shown::As(Logical::Date),
        _ => Shown::As(logical),
    }
}

fn read_value(walker: &mut Walker<'_, '_>, node: NodeId) -> Result<PartitionValue, Flaw> {
    let Some(node) = walker.present(node)? else { return Ok(PartitionValue::Null) };
    if let Node::Record(_) | Node::Array(_) | Node::Map(_) | Node::Enum(_) | Node::Union(_) =
        walker.schema().node(node)
    {
        return Ok(PartitionValue::Bytes(walker.raw(node)?.into()));
    }
    Ok(match walker.primitive(node)? {
        Primitive::Boolean(value) => PartitionValue::Boolean(value),
        Primitive::Integer(value) => PartitionValue::Integer(value),
        Primitive::Float(bits) => PartitionValue::Float(bits),
        Primitive::Double(bits) => PartitionValue::Double(bits),
        Primitive::Text(text) => PartitionValue::Text(text.into()),
        Primitive::Bytes(bytes) => PartitionValue::Bytes(bytes.into()),
    })
}

/// Escapes what parts a path, and what cannot be shown.
fn escape(text: &str, into: &mut String) {
    for character in text.chars() {
        if matches!(character, '%' | '/' | '=') || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                write!(into, "%{byte:02X}").expect("a text takes all");
            }
        } else {
            into.push(character);
        }
    }
}

struct Showing<'a>(&'a PartitionValue, Shown);

impl fmt::Display for Showing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (PartitionValue::Null, _) => out.write_str("null"),
            (PartitionValue::Boolean(value), _) => write!(out, "{value}"),
            (PartitionValue::Integer(value), how) => show_integer(*value, how, out),
            (PartitionValue::Float(bits), _) => write!(out, "{}", f32::from_bits(*bits)),
            (PartitionValue::Double(bits), _) => write!(out, "{}", f64::from_bits(*bits)),
            (PartitionValue::Text(text), _) => out.write_str(text),
            (PartitionValue::Bytes(bytes), how) => show_bytes(bytes, how, out),
        }
    }
}

/// Numbers beyond this are no time: they are shown as they are.
const TIME_MAX: i64 = 1 << 40;

fn show_integer(value: i64, how: Shown, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let in_range = value.abs_diff(0) <= TIME_MAX.unsigned_abs();
    match how {
        Shown::Year if in_range => write!(out, "{:04}", 1970 + value),
        Shown::Month if in_range => {
            write!(out, "{:04}-{:02}", 1970 + value.div_euclid(12), value.rem_euclid(12) + 1)
        }
        Shown::Hour if in_range => {
            show_date(value.div_euclid(24), out)?;
            write!(out, "-{:02}", value.rem_euclid(24))
        }
        Shown::As(Logical::Date) if in_range => show_date(value, out),
        Shown::As(Logical::Time) => show_time(value, 1_000_000, out),
        Shown::As(Logical::TimestampMillis) => show_timestamp(value, 1_000, out),
        Shown::As(Logical::TimestampMicros) => show_timestamp(value, 1_000_000, out),
        Shown::As(Logical::TimestampNanos) => show_timestamp(value, 1_000_000_000, out),
        _ => write!(out, "{value}"),
    }
}

fn show_timestamp(value: i64, per_second: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let day = 86_400 * per_second;
    show_date(value.div_euclid(day), out)?;
    out.write_char('T')?;
    show_time(value.rem_euclid(day), per_second, out)
}

fn show_time(value: i64, per_second: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction == 0 {
        return Ok(());
    }
    let digits = per_second.ilog10() as usize;
    write!(out, ".{fraction:0digits$}")
}

/// The date of a day since 1970-01-01, in the Gregorian calendar without end (the algorithm of
/// Hinnant's "chrono-compatible low-level date algorithms": years begin in March, eras are 400 years).
fn show_date(day: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    write!(out, "{year:04}-{month:02}-{of_month:02}")
}

fn show_bytes(bytes: &[u8], how: Shown, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match how {
        Shown::As(Logical::Decimal { scale }) if bytes.len() <= 16 && scale <= 38 => {
            show_decimal(bytes, scale, out)
        }
        Shown::As(Logical::Uuid) if bytes.len() == 16 => {
            for (index, byte) in bytes.iter().enumerate() {
                let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(out, "{dash}{byte:02x}")?;
            }
            Ok(())
        }
        _ => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
    }
}

/// The unscaled value is a big-endian number of any length, the highest bit its sign.
fn show_decimal(bytes: &[u8], scale: u32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1_i128 } else { 0 };
    let unscaled = bytes.iter().fold(sign, |value, byte| value << 8 | i128::from(*byte));
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    let minus = if unscaled < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    write!(out, "{minus}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: PartitionValue, shown: Shown, expected: &str) {
        assert_eq!(Showing(&value, shown).to_string(), expected);
    }

    #[test]
    fn numbers_are_shown_as_what_they_stand_for() {
        let integer = PartitionValue::Integer;
        check(integer(54), Shown::Year, "2024");
        check(integer(-1), Shown::Month, "1969-12");
        check(integer(648), Shown::Month, "2024-01");
        check(integer(19_782), Shown::As(Logical::Date), "2024-02-29");
        check(integer(-1), Shown::As(Logical::Date), "1969-12-31");
        check(integer(-719_529), Shown::As(Logical::Date), "-001-12-31");
        check(integer(19_782 * 24 + 5), Shown::Hour, "2024-02-29-05");
        let micros = 1_709_164_800_000_000;
        let timestamp = Shown::As(Logical::TimestampMicros);
        check(integer(micros), timestamp, "2024-02-29T00:00:00");
        check(integer(micros + 3_661_000_001), timestamp, "2024-02-29T01:01:01.000001");
        check(integer(-1), Shown::As(Logical::TimestampNanos), "1969-12-31T23:59:59.999999999");
        check(integer(7), Shown::As(Logical::None), "7");
    }

    #[test]
    fn no_number_panics_as_a_time() {
        let how = [Shown::Year, Shown::Month, Shown::Hour];
        let logical = [
            Logical::Date,
            Logical::Time,
            Logical::TimestampMillis,
            Logical::TimestampMicros,
            Logical::TimestampNanos,
        ];
        for shown in how.into_iter().chain(logical.map(Shown::As)) {
            for value in [i64::MIN, i64::MIN + 1, -1, i64::MAX, TIME_MAX, -TIME_MAX] {
                assert!(!Showing(&PartitionValue::Integer(value), shown).to_string().is_empty());
            }
        }
    }

    #[test]
    fn bytes_are_shown_as_decimals_uuids_or_hex() {
        let bytes = |bytes: &[u8]| PartitionValue::Bytes(bytes.into());
        let decimal = |scale| Shown::As(Logical::Decimal { scale });
        check(bytes(&[0x04, 0xd2]), decimal(2), "12.34");
        check(bytes(&[0xff, 0xff]), decimal(2), "-0.01");
        check(bytes(&[5]), decimal(0), "5");
        check(bytes(&[0x80; 16]), decimal(38), "-1.69473963133173273960190490760135540608");
        check(bytes(&[0xab; 17]), decimal(2), &"ab".repeat(17));
        check(bytes(&[1; 16]), Shown::As(Logical::Uuid), "01010101-0101-0101-0101-010101010101");
        check(bytes(&[0, 255]), Shown::As(Logical::None), "00ff");
    }

    #[test]
    fn what_parts_a_path_is_escaped_and_nothing_else() {
        let mut text = String::new();
        escape("a/b=c%2F d#é\n", &mut text);
        assert_eq!(text, "a%2Fb%3Dc%252F d#é%0A");
    }
}
