//! The fields of one rule, taken one by one by name. What is wrong with one is told in a sentence
//! that names it and what it takes; what is left at the end is refused.

use serde_json::{Map, Value};

use super::BadRule;

/// The fields of a rule that have not been taken yet.
pub(super) struct Fields {
    /// Which rule of the list, for people.
    place: usize,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    /// The fields of the rule in this place, counted from 1.
    pub(super) fn new(place: usize, value: Value) -> Result<Fields, BadRule> {
        match value {
            Value::Object(left) => Ok(Fields { place, left, known: Vec::new() }),
            other => Err(BadRule(format!("rule {place} is an object, not {other}"))),
        }
    }

    /// A sentence about this rule.
    pub(super) fn bad(&self, what: &str) -> BadRule {
        BadRule(format!("rule {}: {what}", self.place))
    }

    fn take<T>(
        &mut self,
        name: &'static str,
        takes: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, BadRule> {
        self.known.push(name);
        let Some(value) = self.left.remove(name) else { return Ok(None) };
        match read(&value) {
            Some(taken) => Ok(Some(taken)),
            None => Err(self.bad(&format!("`{name}` takes {takes}, not {value}"))),
        }
    }

    /// A text.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, BadRule> {
        self.take(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// One of a few words; the place of the one that is there.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&str],
    ) -> Result<Option<usize>, BadRule> {
        let takes = format!("one of {}", words.join(", "));
        self.take(name, &takes, |value| words.iter().position(|word| value == word))
    }

    /// True or false.
    pub(super) fn truth(&mut self, name: &'static str) -> Result<Option<bool>, BadRule> {
        self.take(name, "true or false", Value::as_bool)
    }

    /// A count from `least` to `most`, of whatever the name says.
    pub(super) fn count(
        &mut self,
        name: &'static str,
        range: (u64, u64),
    ) -> Result<Option<u64>, BadRule> {
        let read = |value: &Value| value.as_u64().filter(|it| (range.0..=range.1).contains(it));
        self.take(name, &whole_number(range), read)
    }

    /// A count that must be there.
    pub(super) fn needed_count(
        &mut self,
        name: &'static str,
        range: (u64, u64),
    ) -> Result<u64, BadRule> {
        let missing = format!("`{name}` is missing: {}", whole_number(range));
        self.count(name, range)?.ok_or_else(|| self.bad(&missing))
    }

    /// A difference: a whole number that is not 0.
    pub(super) fn difference(&mut self, name: &'static str) -> Result<Option<i64>, BadRule> {
        self.take(name, "a whole number other than 0", |value| {
            value.as_i64().filter(|difference| *difference != 0)
        })
    }

    /// Refuses what nobody has taken.
    pub(super) fn end(self) -> Result<(), BadRule> {
        let Some(name) = self.left.keys().next() else { return Ok(()) };
        let known = self.known.join(", ");
        Err(self.bad(&format!("`{name}` is no field of such a rule; its fields are {known}")))
    }
}

fn whole_number((least, most): (u64, u64)) -> String {
    match most {
        u64::MAX => format!("a whole number from {least}"),
        _ => format!("a whole number from {least} to {most}"),
    }
}
