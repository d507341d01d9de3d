//! Sizes and durations as people write them: a whole number and a unit. A number alone is refused,
//! because nobody can tell whether 10 means bytes or megabytes, seconds or milliseconds.

use std::time::Duration;

/// Units of size and their bytes, the largest first; matched without regard to case.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Units of time and their nanoseconds, the largest first.
const DURATION_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Bytes of `text`, such as `64KiB`; `None` when it is not a size.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse(text, SIZE_UNITS)
}

/// The duration that `text` names, such as `30ms`; `None` when it is not one.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    parse(text, DURATION_UNITS).map(Duration::from_nanos)
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(digits_end);
    let unit = unit.trim_start();
    let (_, scale) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    digits.parse::<u64>().ok()?.checked_mul(*scale)
}

/// `bytes` in the largest binary unit that divides it.
pub fn size_text(bytes: u64) -> String {
    text(bytes, &SIZE_UNITS[..4], "B")
}

/// `duration` in the largest unit that divides it.
pub fn duration_text(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 { "0s".to_owned() } else { text(nanos, DURATION_UNITS, "ns") }
}

fn text(number: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let whole = units.iter().find(|(_, scale)| number != 0 && number.is_multiple_of(*scale));
    match whole {
        Some((name, scale)) => format!("{}{name}", number / scale),
        None => format!("{number}{smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_need_a_known_unit() {
        let cases = [
            ("64KiB", Some(65_536)),
            ("2 GiB", Some(2 << 30)),
            ("1GB", Some(1_000_000_000)),
            ("1kb", Some(1000)),
            ("0B", Some(0)),
            ("64", None),
            ("64K", None),
            ("KiB", None),
            ("1.5GiB", None),
            ("-1GiB", None),
            ("", None),
            ("99999999999999999999B", None),
            ("99999999999TiB", None),
            ("1GiB!", None),
            ("1 G iB", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_size(text), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_need_a_known_unit() {
        let cases = [
            ("5s", Some(Duration::from_secs(5))),
            ("30ms", Some(Duration::from_millis(30))),
            ("15m", Some(Duration::from_secs(900))),
            ("2h", Some(Duration::from_secs(7200))),
            ("1d", Some(Duration::from_secs(86_400))),
            ("0s", Some(Duration::ZERO)),
            ("5", None),
            ("5 parsecs", None),
            ("s", None),
            ("1e3s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes: u64, nanos: u64) {
            prop_assert_eq!(parse_size(&size_text(bytes)), Some(bytes));
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&duration_text(duration)), Some(duration));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = (parse_size(&text), parse_duration(&text));
        }
    }
}
