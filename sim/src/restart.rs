//! When the node of a run ends, and when another takes its place. Drawn from a stream of its own; how it is done is
//! `run`.

use std::time::Duration;

use nilas_base::{Monotonic, Rng};

use crate::weather::{RestartWeather, happens};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The node ends; with its device's power, or not.
    End {
        /// Whether the device loses its power.
        cuts_power: bool,
    },
    /// Another begins.
    Begin,
}

/// The changes of one run.
pub struct Restarts {
    weather: RestartWeather,
    rng: Rng,
    left: u64,
    next: Monotonic,
    is_down: bool,
}

impl Restarts {
    /// The changes from now on.
    pub fn new(weather: RestartWeather, mut rng: Rng, now: Monotonic) -> Restarts {
        let next = now.after(draw_up_to(&mut rng, weather.apart_max));
        Restarts { left: weather.count_max, weather, rng, next, is_down: false }
    }

    /// What is due now, if anything is; once.
    pub fn due(&mut self, now: Monotonic) -> Option<Change> {
        match self.is_down {
            _ if now < self.next => None,
            true => Some(self.begin(now)),
            false if self.left == 0 => None,
            false => {
                self.left -= 1;
                self.is_down = true;
                self.next = now.after(draw_up_to(&mut self.rng, self.weather.down_max));
                let cuts_power = happens(&mut self.rng, self.weather.power_cut_one_in);
                Some(Change::End { cuts_power })
            }
        }
    }

    /// The faults are over: a node that has ended is followed by another, and sometimes one ends for the last time.
    pub fn last(&mut self, now: Monotonic) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.weather.count_max > 0 && !self.is_down && self.rng.chance(1, 2) {
            let cuts_power = happens(&mut self.rng, self.weather.power_cut_one_in);
            changes.push(Change::End { cuts_power });
            self.is_down = true;
        }
        if self.is_down {
            changes.push(self.begin(now));
        }
        self.left = 0;
        changes
    }

    fn begin(&mut self, now: Monotonic) -> Change {
        self.is_down = false;
        self.next = now.after(draw_up_to(&mut self.rng, self.weather.apart_max));
        Change::Begin
    }
}

fn draw_up_to(rng: &mut Rng, most: Duration) -> Duration {
    Duration::from_micros(rng.below(most.as_micros() as u64))
}
