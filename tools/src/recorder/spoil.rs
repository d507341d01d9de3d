//! What a fault does to the bytes of one answer. Decided here, without a socket: the head is
//! gathered and rewritten, and for the body it is said how much may pass and what happens then.
//! `wire` acts on it.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::rule::{Fault, Spot};

/// Pieces in which a slowed body passes in a second.
const PIECES_PER_SECOND: u64 = 50;

/// What happens to an answer's bytes; see `rule` for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    /// Nothing more comes.
    Stall { after_bytes: u64, time: Option<Duration> },
    /// The connection is closed.
    Cut { after_bytes: u64 },
    /// The connection is reset.
    Reset { after_bytes: u64 },
    /// The body is slow.
    Rate { bytes_per_second: u64 },
    /// Another length is announced.
    WrongLength { by: i64 },
    /// More comes than was announced.
    Surplus { bytes: u64 },
    /// Another range is announced.
    WrongRange { by: i64, total_by: i64 },
}

impl Twist {
    /// What a fault does to bytes, if it does anything to them.
    pub(super) fn of(fault: &Fault) -> Option<Twist> {
        match *fault {
            Fault::Stall { at: Spot::Body(after_bytes), time } => {
                Some(Twist::Stall { after_bytes, time })
            }
            Fault::Cut { at: Spot::Body(after_bytes) } => Some(Twist::Cut { after_bytes }),
            Fault::Reset { at: Spot::Body(after_bytes) } => Some(Twist::Reset { after_bytes }),
            Fault::Rate { bytes_per_second } => Some(Twist::Rate { bytes_per_second }),
            Fault::WrongLength { by } => Some(Twist::WrongLength { by }),
            Fault::Surplus { bytes } => Some(Twist::Surplus { bytes }),
            Fault::WrongRange { by, total_by } => Some(Twist::WrongRange { by, total_by }),
            _ => None,
        }
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Close,
    /// By a reset.
    Reset,
}

/// What may be done with the next bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many may pass.
    Pass(usize),
    /// None for so long.
    Wait(Duration),
    /// None any more.
    Hold,
    /// The connection ends.
    End(End),
}

/// One answer on its way, and what is done to it.
pub(super) struct Spoil {
    twist: Twist,
    /// Of the body, where that is known beforehand.
    body_bytes: Option<u64>,
    entry: Option<Arc<Entry>>,
    /// The head, as far as it has come; none once it has passed.
    head: Option<Vec<u8>>,
    passed_bytes: u64,
    /// A wait that is owed before the next piece.
    owed: Option<Duration>,
}

impl Spoil {
    /// Does this to the next answer, which is counted into `entry`.
    pub(super) fn new(twist: Twist, body_bytes: Option<u64>, entry: Arc<Entry>) -> Spoil {
        entry.count_on_wire();
        Spoil { entry: Some(entry), ..Spoil::uncounted(twist, body_bytes) }
    }

    fn uncounted(twist: Twist, body_bytes: Option<u64>) -> Spoil {
        let owed = match twist {
            Twist::Stall { time, .. } => time,
            _ => None,
        };
        Spoil { twist, body_bytes, entry: None, head: Some(Vec::new()), passed_bytes: 0, owed }
    }

    /// Whether the head has not passed yet.
    pub(super) fn is_in_head(&self) -> bool {
        self.head.is_some()
    }

    /// Takes bytes of the head: how many, and what is to be sent once it is whole.
    pub(super) fn gather(&mut self, bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        let head = self.head.as_mut().expect("the caller has asked");
        for (index, byte) in bytes.iter().enumerate() {
            head.push(*byte);
            if head.ends_with(b"\r\n\r\n") {
                let whole = self.head.take().expect("it is there");
                let mut sent = rewrite(&whole, self.twist);
                sent.extend(self.after(0));
                return (index + 1, Some(sent));
            }
        }
        (bytes.len(), None)
    }

    /// What may be done with `available` bytes of the body.
    pub(super) fn step(&mut self, available: usize) -> Step {
        let rest = |after_bytes: u64| after_bytes.saturating_sub(self.passed_bytes);
        match self.twist {
            Twist::Cut { after_bytes } if rest(after_bytes) == 0 => Step::End(End::Close),
            Twist::Reset { after_bytes } if rest(after_bytes) == 0 => Step::End(End::Reset),
            Twist::Stall { after_bytes, time } if rest(after_bytes) == 0 => {
                match (time, self.owed.take()) {
                    (None, _) => Step::Hold,
                    (Some(_), Some(owed)) => Step::Wait(owed),
                    (Some(_), None) => Step::Pass(available),
                }
            }
            Twist::Cut { after_bytes }
            | Twist::Reset { after_bytes }
            | Twist::Stall { after_bytes, .. } => Step::Pass(at_most(available, rest(after_bytes))),
            Twist::Rate { bytes_per_second } => match self.owed.take() {
                Some(owed) => Step::Wait(owed),
                None => {
                    Step::Pass(at_most(available, (bytes_per_second / PIECES_PER_SECOND).max(1)))
                }
            },
            Twist::WrongLength { .. } | Twist::Surplus { .. } | Twist::WrongRange { .. } => {
                Step::Pass(available)
            }
        }
    }

    /// So many bytes of the body have passed: what is sent behind them that nobody asked for.
    pub(super) fn after(&mut self, bytes: usize) -> Vec<u8> {
        self.passed_bytes += bytes as u64;
        if let (Twist::Rate { bytes_per_second }, 1..) = (self.twist, bytes) {
            let pause_ns = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second);
            self.owed = Some(Duration::from_nanos(pause_ns as u64));
        }
        let is_whole = self.is_whole();
        if let Some(entry) = &self.entry {
            let sent = self.passed_bytes;
            entry.amend(|record| (record.bytes_sent, record.complete) = (sent, is_whole));
        }
        match self.twist {
            Twist::Surplus { bytes } if is_whole => vec![b'+'; bytes as usize],
            _ => Vec::new(),
        }
    }

    /// How the connection ends behind the answer, if it does.
    pub(super) fn end(&self) -> Option<End> {
        let ends = matches!(self.twist, Twist::WrongLength { .. });
        (ends && self.head.is_none() && self.is_whole()).then_some(End::Close)
    }

    fn is_whole(&self) -> bool {
        self.body_bytes.is_some_and(|whole| self.passed_bytes >= whole)
    }
}

fn at_most(available: usize, limit: u64) -> usize {
    usize::try_from(limit).map_or(available, |limit| available.min(limit))
}

/// The head as it is sent.
fn rewrite(head: &[u8], twist: Twist) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    let line = |line: &str| {
        let Some((name, value)) = line.split_once(": ") else { return line.to_owned() };
        let changed = match twist {
            Twist::WrongLength { by } if name.eq_ignore_ascii_case("content-length") => {
                moved(value, by)
            }
            Twist::WrongRange { by, total_by } if name.eq_ignore_ascii_case("content-range") => {
                moved_range(value, by, total_by)
            }
            _ => None,
        };
        format!("{name}: {}", changed.as_deref().unwrap_or(value))
    };
    text.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n").into_bytes()
}

fn moved(number: &str, by: i64) -> Option<String> {
    Some(number.parse::<u64>().ok()?.saturating_add_signed(by).to_string())
}

/// `bytes first-last/total`, with other numbers.
fn moved_range(value: &str, by: i64, total_by: i64) -> Option<String> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (moved(first, by)?, moved(last, by)?);
    Some(format!("bytes {first}-{last}/{}", moved(total, total_by)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 206 Partial\r\ncontent-length: 10\r\n\
        Content-Range: bytes 5-14/100\r\n\r\n";

    fn spoil(twist: Twist) -> (Spoil, String) {
        let mut spoil = Spoil::uncounted(twist, Some(10));
        let (early, late) = HEAD.as_bytes().split_at(30);
        assert_eq!(spoil.gather(early), (30, None));
        let (taken, sent) = spoil.gather(&[late, b"body"].concat());
        assert_eq!((taken, spoil.is_in_head()), (late.len(), false));
        (spoil, String::from_utf8(sent.expect("it is whole")).expect("text"))
    }

    #[test]
    fn a_head_passes_as_it_is_unless_it_is_to_lie() {
        assert_eq!(spoil(Twist::Cut { after_bytes: 3 }).1, HEAD);
        let longer = spoil(Twist::WrongLength { by: 5 }).1;
        assert_eq!(longer, HEAD.replace(": 10", ": 15"));
        let moved = spoil(Twist::WrongRange { by: -2, total_by: 1 }).1;
        assert_eq!(moved, HEAD.replace("5-14/100", "3-12/101"));
    }

    #[test]
    fn a_body_ends_after_its_bytes() {
        for (twist, expected) in [
            (Twist::Cut { after_bytes: 3 }, Step::End(End::Close)),
            (Twist::Reset { after_bytes: 3 }, Step::End(End::Reset)),
            (Twist::Stall { after_bytes: 3, time: None }, Step::Hold),
        ] {
            let mut spoil = spoil(twist).0;
            assert_eq!(spoil.step(10), Step::Pass(3));
            spoil.after(2);
            assert_eq!(spoil.step(8), Step::Pass(1));
            spoil.after(1);
            assert_eq!(spoil.step(7), expected);
        }
    }

    #[test]
    fn a_stall_with_a_time_ends_with_it() {
        let time = Some(Duration::from_secs(1));
        let mut spoil = spoil(Twist::Stall { after_bytes: 0, time }).0;
        assert_eq!(spoil.step(10), Step::Wait(Duration::from_secs(1)));
        assert_eq!(spoil.step(10), Step::Pass(10));
    }

    #[test]
    fn a_slow_body_owes_each_piece_its_time() {
        let mut spoil = spoil(Twist::Rate { bytes_per_second: 100 }).0;
        assert_eq!(spoil.step(10), Step::Pass(2));
        spoil.after(2);
        assert_eq!(spoil.step(8), Step::Wait(Duration::from_millis(20)));
        assert_eq!(spoil.step(8), Step::Pass(2));
    }

    #[test]
    fn what_nobody_announced_follows_the_body() {
        let mut spoil = spoil(Twist::Surplus { bytes: 3 }).0;
        assert_eq!(spoil.after(9), b"");
        assert_eq!(spoil.after(1), b"+++");
    }

    #[test]
    fn a_wrong_length_ends_the_connection_behind_the_body() {
        let mut spoil = spoil(Twist::WrongLength { by: 1 }).0;
        assert_eq!(spoil.end(), None);
        spoil.after(10);
        assert_eq!(spoil.end(), Some(End::Close));
    }
}
