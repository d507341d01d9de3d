//! The Prometheus text format (version 0.0.4): families with HELP and TYPE, labels escaped, units
//! in seconds and bytes. A small writer: every number is already in a cell, so that a client
//! library's registry would only copy them.

use std::fmt::{Display, Write};

/// The `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of one sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Text that grows family by family.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a family whose numbers only grow; `name` ends in `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name} is a counter");
        self.family(name, "counter", help)
    }

    /// Begins a family whose numbers rise and fall.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(!name.ends_with("_total"), "{name} is no counter");
        self.family(name, "gauge", help)
    }

    /// Begins a family of histograms in seconds.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_seconds"), "{name} is in seconds");
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { name, text: &mut self.text }
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A family that is being written.
pub(super) struct Family<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Family<'_> {
    /// One number.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, value);
    }

    /// One histogram: cumulative counts at borders in microseconds, all of them, their sum.
    pub(super) fn histogram_us(
        &mut self,
        labels: Labels<'_>,
        borders: &[(u64, u64)],
        count: u64,
        sum_ns: u64,
    ) {
        for (border_us, below) in borders {
            let border = seconds(border_us.saturating_mul(1000));
            self.line("_bucket", &[labels, &[("le", border.as_str())]].concat(), below);
        }
        self.line("_bucket", &[labels, &[("le", "+Inf")]].concat(), count);
        self.line("_sum", labels, seconds(sum_ns));
        self.line("_count", labels, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{opening}{name}=\"{}\"", escaped(value));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{closing} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Nanoseconds as seconds, without a float's rounding.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_seconds_exact() {
        let mut exposition = Exposition::default();
        exposition.gauge("a_bytes", "A.").sample(&[("x", "1\"\\\n"), ("y", "z")], 5);
        let text = exposition.into_text();
        assert_eq!(
            text,
            "# HELP a_bytes A.\n# TYPE a_bytes gauge\na_bytes{x=\"1\\\"\\\\\\n\",y=\"z\"} 5\n"
        );
        assert_eq!(seconds(1_000), "0.000001");
        assert_eq!(seconds(2_500_000_000), "2.5");
        assert_eq!(seconds(0), "0");
        assert_eq!(seconds(30_000_000_000), "30");
    }
}
