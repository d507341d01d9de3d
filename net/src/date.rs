//! Dates on the wire: HTTP's three forms, the compact form that signatures use, ISO 8601 in XML.
//! All are UTC. Days are counted by Howard Hinnant's civil-calendar algorithms (public domain).

use nilas_base::UnixMillis;

/// Seconds since 1970-01-01 UTC: the resolution of HTTP dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

impl From<UnixMillis> for UnixSeconds {
    fn from(time: UnixMillis) -> UnixSeconds {
        UnixSeconds(time.0 / 1000)
    }
}

/// The last second that is written with a year of four digits: 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;

const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

struct Civil {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    weekday: usize,
}

fn civil(time: UnixSeconds) -> Civil {
    let seconds = time.0.min(SECONDS_MAX);
    let days = seconds / 86_400;
    let of_day = (seconds % 86_400) as u32;
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Civil {
        year: (year_of_era + era * 400 + u64::from(month <= 2)) as u32,
        month: month as u32,
        day: day as u32,
        hour: of_day / 3600,
        minute: of_day / 60 % 60,
        second: of_day % 60,
        weekday: ((days + 4) % 7) as usize,
    }
}

fn from_civil(date: (u64, u64, u64), time: (u64, u64, u64)) -> Option<UnixSeconds> {
    let ((year, month, day), (hour, minute, second)) = (date, time);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u64::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is written as 60 and counted as the second after.
    if !(1970..=9999).contains(&year)
        || !(1..=days_in_month).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let shifted_year = year - u64::from(month <= 2);
    let era = shifted_year / 400;
    let year_of_era = shifted_year % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    let days = era * 146_097 + of_era - 719_468;
    Some(UnixSeconds(days * 86_400 + hour * 3600 + minute * 60 + second))
}

fn two(text: &mut [u8], number: u32) {
    text[0] = b'0' + (number / 10 % 10) as u8;
    text[1] = b'0' + (number % 10) as u8;
}

fn four(text: &mut [u8], number: u32) {
    two(text, number / 100);
    two(&mut text[2..], number % 100);
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
pub fn http_date(time: UnixSeconds) -> [u8; 29] {
    let civil = civil(time);
    let mut text = *b"ddd, 00 mmm 0000 00:00:00 GMT";
    text[..3].copy_from_slice(WEEKDAYS[civil.weekday]);
    two(&mut text[5..], civil.day);
    text[8..11].copy_from_slice(MONTHS[civil.month as usize - 1]);
    four(&mut text[12..], civil.year);
    two(&mut text[17..], civil.hour);
    two(&mut text[20..], civil.minute);
    two(&mut text[23..], civil.second);
    text
}

/// `20130524T000000Z`, as in `x-amz-date`; its first eight bytes are the date of a credential scope.
pub fn amz_date(time: UnixSeconds) -> [u8; 16] {
    let civil = civil(time);
    let mut text = *b"00000000T000000Z";
    four(&mut text, civil.year);
    two(&mut text[4..], civil.month);
    two(&mut text[6..], civil.day);
    two(&mut text[9..], civil.hour);
    two(&mut text[11..], civil.minute);
    two(&mut text[13..], civil.second);
    text
}

/// `2009-10-12T17:50:30.000Z`, as in S3's XML.
pub fn iso_date(time: UnixMillis) -> [u8; 24] {
    let civil = civil(UnixSeconds::from(time));
    let mut text = *b"0000-00-00T00:00:00.000Z";
    four(&mut text, civil.year);
    two(&mut text[5..], civil.month);
    two(&mut text[8..], civil.day);
    two(&mut text[11..], civil.hour);
    two(&mut text[14..], civil.minute);
    two(&mut text[17..], civil.second);
    let millis = (time.0 % 1000) as u32;
    text[20] = b'0' + (millis / 100) as u8;
    two(&mut text[21..], millis % 100);
    text
}

/// Parses `20130524T000000Z`.
pub fn parse_amz_date(text: &[u8]) -> Option<UnixSeconds> {
    if text.len() != 16 || text[8] != b'T' || text[15] != b'Z' {
        return None;
    }
    from_civil(
        (number(&text[..4])?, number(&text[4..6])?, number(&text[6..8])?),
        (number(&text[9..11])?, number(&text[11..13])?, number(&text[13..15])?),
    )
}

/// Parses `2009-10-12T17:50:30Z`, with a fraction of a second or without.
pub fn parse_iso_date(text: &[u8]) -> Option<UnixMillis> {
    let text = text.strip_suffix(b"Z")?;
    let (whole, fraction) = text.split_at_checked(19)?;
    if [whole[4], whole[7], whole[10]] != *b"--T" {
        return None;
    }
    let date = (number(&whole[..4])?, number(&whole[5..7])?, number(&whole[8..10])?);
    let seconds = from_civil(date, clock_time(&whole[11..])?)?;
    let millis = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=FRACTION_DIGITS_MAX).contains(&digits.len()) => {
            number(digits)? * 1000 / 10_u64.pow(digits.len() as u32)
        }
        _ => return None,
    };
    Some(UnixMillis(seconds.0 * 1000 + millis))
}

/// Digits of a fraction of a second: nanoseconds.
const FRACTION_DIGITS_MAX: usize = 9;

/// Parses any of HTTP's three date forms: IMF-fixdate, RFC 850, asctime.
pub fn parse_http_date(text: &[u8]) -> Option<UnixSeconds> {
    match text.len() {
        29 => parse_imf(text),
        24 => parse_asctime(text),
        _ => parse_rfc850(text),
    }
}

fn parse_imf(text: &[u8]) -> Option<UnixSeconds> {
    let framed = WEEKDAYS.iter().any(|day| text[..3] == **day)
        && text[3..5] == *b", "
        && [text[7], text[11], text[16]] == *b"   "
        && text[25..] == *b" GMT";
    let date = (number(&text[12..16])?, month(&text[8..11])?, number(&text[5..7])?);
    if framed { from_civil(date, clock_time(&text[17..25])?) } else { None }
}

fn parse_asctime(text: &[u8]) -> Option<UnixSeconds> {
    let framed = WEEKDAYS.iter().any(|day| text[..3] == **day)
        && [text[3], text[7], text[10], text[19]] == *b"    ";
    let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
    let date = (number(&text[20..])?, month(&text[4..7])?, day);
    if framed { from_civil(date, clock_time(&text[11..19])?) } else { None }
}

/// A year of two digits is of this century, or of the last from 70 on.
fn parse_rfc850(text: &[u8]) -> Option<UnixSeconds> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let long = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let rest = &text[comma..];
    let framed = long.iter().any(|day| text[..comma] == *day.as_bytes())
        && rest.len() == 24
        && rest[..2] == *b", "
        && [rest[4], rest[8], rest[11]] == *b"-- "
        && rest[20..] == *b" GMT";
    if !framed {
        return None;
    }
    let short_year = number(&rest[9..11])?;
    let year = if short_year < 70 { 2000 + short_year } else { 1900 + short_year };
    from_civil((year, month(&rest[5..8])?, number(&rest[2..4])?), clock_time(&rest[12..20])?)
}

fn clock_time(text: &[u8]) -> Option<(u64, u64, u64)> {
    if text[2] != b':' || text[5] != b':' {
        return None;
    }
    Some((number(&text[..2])?, number(&text[3..5])?, number(&text[6..8])?))
}

fn month(text: &[u8]) -> Option<u64> {
    MONTHS.iter().position(|name| text == *name).map(|index| index as u64 + 1)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, &digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: UnixSeconds = UnixSeconds(784_111_777);

    #[test]
    fn the_three_http_forms_of_one_time_are_the_same_time() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), Some(EXAMPLE), "{text}");
        }
        assert_eq!(&http_date(EXAMPLE), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&amz_date(EXAMPLE), b"19941106T084937Z");
        assert_eq!(&iso_date(UnixMillis(784_111_777_042)), b"1994-11-06T08:49:37.042Z");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 UTC",
            "Sun Nov 36 08:49:37 1994",
            "Sun Nov  6 08-49-37 1994",
            "784111777",
            "Sun, 06 Nov 1900 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
        for text in [
            "",
            "20130524",
            "20130524T000000",
            "2013-05-24T00:00Z",
            "20131324T000000Z",
            "20130524 000000Z",
        ] {
            assert_eq!(parse_amz_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_iso_date_may_have_a_fraction() {
        for (text, millis) in [
            ("1994-11-06T08:49:37Z", 784_111_777_000),
            ("1994-11-06T08:49:37.0Z", 784_111_777_000),
            ("1994-11-06T08:49:37.042Z", 784_111_777_042),
            ("1994-11-06T08:49:37.042999999Z", 784_111_777_042),
        ] {
            assert_eq!(parse_iso_date(text.as_bytes()), Some(UnixMillis(millis)), "{text}");
        }
        for text in [
            "",
            "Z",
            "1994-11-06Z",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49:37+00:00",
            "1994-11-06T08:49:37.Z",
            "1994-11-06T08:49:37.0123456789Z",
            "1994-11-06T08:49:37,5Z",
            "1994-11-31T08:49:37Z",
            "1994-11-06 08:49:37Z",
        ] {
            assert_eq!(parse_iso_date(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_parses_to_itself(seconds in 0..=SECONDS_MAX, millis in 0..1000_u64) {
            let time = UnixSeconds(seconds);
            let exact = UnixMillis(seconds * 1000 + millis);
            prop_assert_eq!(parse_iso_date(&iso_date(exact)), Some(exact));
            prop_assert_eq!(parse_http_date(&http_date(time)), Some(time));
            prop_assert_eq!(parse_amz_date(&amz_date(time)), Some(time));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in any::<Vec<u8>>(), length in 20..34usize) {
            let mut text = text;
            parse_http_date(&text);
            parse_iso_date(&text);
            text.resize(length, b' ');
            parse_http_date(&text);
            parse_iso_date(&text);
        }
    }
}
