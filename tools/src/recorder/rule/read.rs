//! Rules from JSON. What a rule does not say has a default; what it says wrongly, twice, or without
//! need is refused, so that no test plays a fault that it does not mean.

use std::time::Duration;

use serde_json::Value;

use super::field::Fields;
use super::{Asks, BadRule, Before, Fault, Rule, Spot};
use crate::recorder::pattern::{Draw, Pattern};

/// Rules that stand at once.
const RULES_MAX: usize = 64;
/// Bytes that nobody announced.
const SURPLUS_BYTES_MAX: u64 = 1 << 20;
/// A body that is faster is not slowed.
const BYTES_PER_SECOND_MAX: u64 = 1 << 40;
/// The least and the most that a fault may last.
const TIME_MS: (u64, u64) = (0, 3_600_000);
/// The least and the most that a client may be told to wait.
const RETRY_AFTER_S: (u64, u64) = (0, 3600);
/// Every count there is.
const ANY: (u64, u64) = (0, u64::MAX);

const FAULTS: [&str; 10] = [
    "delay",
    "stall",
    "cut",
    "reset",
    "rate",
    "wrong_length",
    "surplus",
    "wrong_range",
    "status",
    "refuse",
];

/// A list of rules.
pub(super) fn list(json: &[u8]) -> Result<Vec<Rule>, BadRule> {
    let list: Vec<Value> = serde_json::from_slice(json)
        .map_err(|error| BadRule(format!("the rules are a JSON list of objects: {error}")))?;
    if list.len() > RULES_MAX {
        return Err(BadRule(format!("{} rules are more than {RULES_MAX}", list.len())));
    }
    list.into_iter().enumerate().map(|(index, value)| rule(index + 1, value)).collect()
}

fn rule(place: usize, value: Value) -> Result<Rule, BadRule> {
    let mut fields = Fields::new(place, value)?;
    let Some(which) = fields.word("fault", &FAULTS)? else {
        return Err(fields.bad(&format!("`fault` is missing: one of {}", FAULTS.join(", "))));
    };
    let fault = fault(&mut fields, FAULTS[which])?;
    let (pattern, draw) = match fault {
        // It meets connections, which ask for nothing yet.
        Fault::Refuse => Default::default(),
        _ => (pattern(&mut fields)?, draw(&mut fields)?),
    };
    fields.end()?;
    Ok(Rule { pattern, draw, fault })
}

fn fault(fields: &mut Fields, name: &str) -> Result<Fault, BadRule> {
    Ok(match name {
        "delay" => Fault::Delay {
            time: time(fields.needed_count("ms", TIME_MS)?),
            before: before(fields)?,
        },
        "stall" => Fault::Stall { at: spot(fields)?, time: fields.count("ms", TIME_MS)?.map(time) },
        "cut" => Fault::Cut { at: spot(fields)? },
        "reset" => Fault::Reset { at: spot(fields)? },
        "rate" => {
            let range = (1, BYTES_PER_SECOND_MAX);
            Fault::Rate { bytes_per_second: fields.needed_count("bytes_per_second", range)? }
        }
        "wrong_length" => Fault::WrongLength { by: needed_difference(fields)? },
        "surplus" => {
            Fault::Surplus { bytes: fields.needed_count("bytes", (1, SURPLUS_BYTES_MAX))? }
        }
        "wrong_range" => wrong_range(fields)?,
        "status" => status(fields)?,
        _ => Fault::Refuse,
    })
}

fn time(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn before(fields: &mut Fields) -> Result<Before, BadRule> {
    let which = fields.word("before", &["request", "answer"])?;
    Ok(if which == Some(1) { Before::Answer } else { Before::Request })
}

fn needed_difference(fields: &mut Fields) -> Result<i64, BadRule> {
    let by = fields.difference("by")?;
    by.ok_or_else(|| fields.bad("`by` is missing: a whole number other than 0"))
}

fn wrong_range(fields: &mut Fields) -> Result<Fault, BadRule> {
    let (by, total_by) = (fields.difference("by")?, fields.difference("total_by")?);
    if by.is_none() && total_by.is_none() {
        return Err(fields.bad("`by`, `total_by` or both say how wrong the range is"));
    }
    Ok(Fault::WrongRange { by: by.unwrap_or(0), total_by: total_by.unwrap_or(0) })
}

fn spot(fields: &mut Fields) -> Result<Spot, BadRule> {
    let after_bytes = fields.count("after_bytes", ANY)?;
    let asks = asks(fields, Asks::First)?;
    match after_bytes {
        None => Ok(Spot::Head(asks)),
        Some(bytes) if asks == Asks::First => Ok(Spot::Body(bytes)),
        Some(_) => Err(fields
            .bad("`after_bytes` is of the origin's answer: leave out `asks_origin` and `late_ms`")),
    }
}

fn asks(fields: &mut Fields, otherwise: Asks) -> Result<Asks, BadRule> {
    let (asks, late_ms) = (fields.truth("asks_origin")?, fields.count("late_ms", TIME_MS)?);
    match (asks, late_ms) {
        (Some(false), Some(_)) => {
            Err(fields.bad("`late_ms` says when the origin is asked, `asks_origin` that it is not"))
        }
        (_, Some(late_ms)) => Ok(Asks::Later(time(late_ms))),
        (Some(true), None) => Ok(Asks::First),
        (Some(false), None) => Ok(Asks::Never),
        (None, None) => Ok(otherwise),
    }
}

fn status(fields: &mut Fields) -> Result<Fault, BadRule> {
    let status = fields.count("status", (400, 599))?.unwrap_or(503) as u16;
    let code = fields.text("code")?.unwrap_or_else(|| usual_code(status).to_owned());
    let retry_after_s = fields.count("retry_after_s", RETRY_AFTER_S)?;
    let asks = asks(fields, Asks::Never)?;
    Ok(Fault::Status { status, code, retry_after_s, asks })
}

fn usual_code(status: u16) -> &'static str {
    match status {
        403 => "AccessDenied",
        404 => "NoSuchKey",
        429 | 503 => "SlowDown",
        400..=499 => "InvalidRequest",
        501 => "NotImplemented",
        _ => "InternalError",
    }
}

fn pattern(fields: &mut Fields) -> Result<Pattern, BadRule> {
    Ok(Pattern {
        method: fields.text("method")?.map(|method| method.to_ascii_uppercase()),
        path: fields.text("path")?,
        prefix: fields.text("prefix")?,
        query: fields.text("query")?,
        has_range: fields.truth("has_range")?,
    })
}

fn draw(fields: &mut Fields) -> Result<Draw, BadRule> {
    let draw = Draw {
        skip: fields.count("skip", ANY)?.unwrap_or(0),
        times: fields.count("times", ANY)?,
        chance_percent: fields.count("chance_percent", (0, 100))?,
        seed: fields.count("seed", ANY)?.unwrap_or(0),
    };
    Ok(draw)
}
