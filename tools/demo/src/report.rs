//! What the demo says at the end: a small table for people, one line of JSON for programs.

use std::fmt::Write;

use serde::Serialize;

/// One reading, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// From the table's loading to the last row.
    pub(crate) seconds: f64,
    /// Rows that the question found.
    pub(crate) rows: u64,
    /// Requests that the node sent to its origin meanwhile.
    pub(crate) origin_requests: u64,
    /// Body bytes that the origin sent.
    pub(crate) origin_bytes: u64,
}

/// Both readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) cold: Measured,
    pub(crate) warm: Measured,
}

impl Report {
    /// A table of two lines and a heading.
    pub(crate) fn table(&self) -> String {
        let mut table =
            String::from("          seconds      rows   origin requests   origin bytes\n");
        for (name, measured) in [("cold", self.cold), ("warm", self.warm)] {
            let Measured { seconds, rows, origin_requests, origin_bytes } = measured;
            let bytes = grouped(origin_bytes);
            writeln!(
                table,
                "  {name}  {seconds:>9.3} {:>9} {origin_requests:>17} {bytes:>14}",
                grouped(rows)
            )
            .expect("a string takes everything");
        }
        table
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Measured, Report, grouped};

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1 000");
        assert_eq!(grouped(12_345_678), "12 345 678");
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let measured = Measured { seconds: 0.5, rows: 2, origin_requests: 3, origin_bytes: 4 };
        let json = serde_json::to_string(&Report { cold: measured, warm: measured });
        let one = r#"{"seconds":0.5,"rows":2,"origin_requests":3,"origin_bytes":4}"#;
        assert_eq!(json.expect("plain numbers"), format!(r#"{{"cold":{one},"warm":{one}}}"#));
    }
}
