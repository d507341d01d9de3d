//! A bar that grows with the bytes that are done: on a terminal only, and gone at the end.

use std::io::{self, IsTerminal, Stderr, Write};
use std::time::Duration;

use nilas_base::{Clock, Monotonic};

use crate::cache::text::size_text;

/// Columns of the bar.
const BAR_COLUMNS: u64 = 30;
/// How often it is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// What is drawn where.
pub(crate) struct Progress<W: Write> {
    /// Nowhere, if there is no terminal.
    out: Option<W>,
    clock: Clock,
    start: Monotonic,
    drawn: Option<Monotonic>,
    bytes_total: u64,
}

impl Progress<Stderr> {
    /// On standard error, if that is a terminal.
    pub(crate) fn on_terminal(bytes_total: u64) -> Progress<Stderr> {
        let out = io::stderr();
        Progress::new(out.is_terminal().then_some(out), Clock::system(), bytes_total)
    }
}

impl<W: Write> Progress<W> {
    pub(crate) fn new(out: Option<W>, clock: Clock, bytes_total: u64) -> Progress<W> {
        let start = clock.now();
        Progress { out, clock, start, drawn: None, bytes_total }
    }

    /// So many bytes are done.
    pub(crate) fn tell(&mut self, bytes_done: u64) {
        let now = self.clock.now();
        if self.drawn.is_some_and(|drawn| now.since(drawn) < DRAW_INTERVAL) {
            return;
        }
        self.drawn = Some(now);
        let line = line(bytes_done, self.bytes_total, now.since(self.start));
        self.draw(&line);
    }

    /// A terminal that takes nothing is no reason to stop.
    fn draw(&mut self, line: &str) {
        if let Some(out) = &mut self.out {
            let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
        }
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        self.draw("");
    }
}

fn line(bytes_done: u64, bytes_total: u64, time: Duration) -> String {
    // A total may be an estimate.
    let share = |whole: u64| whole * bytes_done.min(bytes_total) / bytes_total.max(1);
    let full = "#".repeat(share(BAR_COLUMNS) as usize);
    let bytes_per_second = (bytes_done as f64 / time.as_secs_f64().max(0.001)) as u64;
    let left = match bytes_total.saturating_sub(bytes_done).checked_div(bytes_per_second) {
        Some(seconds) if time >= Duration::from_secs(1) => format!(", {seconds} s left"),
        _ => String::new(),
    };
    format!(
        "[{full:<width$}] {:>3} %  {} of {}, {}/s{left}",
        share(100),
        size_text(bytes_done),
        size_text(bytes_total),
        size_text(bytes_per_second),
        width = BAR_COLUMNS as usize,
    )
}

#[cfg(test)]
mod tests {
    use nilas_base::{GIB, MIB, UnixMillis};

    use super::*;

    #[test]
    fn a_bar_tells_what_is_done_how_fast_and_what_is_left() {
        let text = line(3 * GIB, 12 * GIB, Duration::from_secs(3));
        assert_eq!(
            text,
            "[#######                       ]  25 %  3 GiB of 12 GiB, 1 GiB/s, 9 s left"
        );
        assert!(line(0, 0, Duration::ZERO).starts_with("[  "));
    }

    #[test]
    fn it_is_drawn_five_times_a_second_at_most_and_wiped_at_the_end() {
        let clock = Clock::simulated(UnixMillis(0));
        let mut out = Vec::new();
        let mut progress = Progress::new(Some(&mut out), clock.clone(), 100 * MIB);
        for step in 0..10 {
            clock.advance_to(Monotonic(step * 50_000_000));
            progress.tell(step * MIB);
        }
        drop(progress);
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(text.matches('[').count(), 2 * 3 + 1, "{text}");
        assert!(text.ends_with("\r\x1b[K"));
    }
}
