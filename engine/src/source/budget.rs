//! How many requests may be asked again: a bucket of tokens that each request fills by a fraction and
//! each repetition empties by one. However badly an origin does, it is asked only so much more.

/// Repetitions for every so many requests.
const REQUESTS_PER_REPETITION: u64 = 10;
/// Repetitions that may be saved up, and that there are at the start: so that a node with little to
/// do can still ask again.
const SAVED_REPETITIONS_MAX: u64 = 32;

/// A budget of repetitions.
#[derive(Debug)]
pub(super) struct RepetitionBudget {
    /// In parts of a repetition, [`REQUESTS_PER_REPETITION`] to one.
    saved_parts: u64,
}

impl RepetitionBudget {
    /// A full one.
    pub(super) fn new() -> RepetitionBudget {
        RepetitionBudget { saved_parts: SAVED_REPETITIONS_MAX * REQUESTS_PER_REPETITION }
    }

    /// A request was asked for the first time.
    pub(super) fn deposit(&mut self) {
        let full = SAVED_REPETITIONS_MAX * REQUESTS_PER_REPETITION;
        self.saved_parts = (self.saved_parts + 1).min(full);
    }

    /// Takes one repetition, if there is one.
    pub(super) fn withdraw(&mut self) -> bool {
        let rest = self.saved_parts.checked_sub(REQUESTS_PER_REPETITION);
        self.saved_parts = rest.unwrap_or(self.saved_parts);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_a_fraction_of_requests_beyond_those_saved() {
        let mut budget = RepetitionBudget::new();
        let mut repetitions = 0;
        for _ in 0..10_000 {
            budget.deposit();
            repetitions += u64::from(budget.withdraw());
        }
        let earned = 10_000 / REQUESTS_PER_REPETITION;
        assert!((earned..=earned + SAVED_REPETITIONS_MAX).contains(&repetitions), "{repetitions}");
    }

    #[test]
    fn no_more_is_saved_than_may_be() {
        let mut budget = RepetitionBudget::new();
        (0..10_000).for_each(|_| budget.deposit());
        let repetitions = (0..).take_while(|_| budget.withdraw()).count() as u64;
        assert_eq!(repetitions, SAVED_REPETITIONS_MAX);
    }
}
