//! The kernel's word that work waits for the ring's thread (`IORING_SQ_TASKRUN`). It is given after the work was put
//! down, so that it may come when the thread has done it already: then it stands for nothing until there is other work,
//! and who believed it would look for ever.

/// Whether that word is to be believed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkHint {
    is_stale: bool,
}

impl WorkHint {
    /// Whether it promises anything that an `enter` has not looked for already.
    pub(super) fn is_news(self, is_given: bool) -> bool {
        is_given && !self.is_stale
    }

    /// The kernel has been entered, and has done what work there was: whether its word still stands, and whether
    /// anything has completed. Work that came since is found at the next `enter`, as a sleeper is woken for it.
    pub(super) fn entered(&mut self, is_given: bool, has_completions: bool) {
        self.is_stale = is_given && !has_completions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_led_to_nothing_is_not_believed_until_it_was_taken_back() {
        let mut hint = WorkHint::default();
        assert!(hint.is_news(true) && !hint.is_news(false));
        hint.entered(true, false);
        assert!(!hint.is_news(true), "it was looked for in vain");
        hint.entered(true, false);
        assert!(!hint.is_news(true));
        hint.entered(false, false);
        assert!(hint.is_news(true), "it is given anew");
        hint.entered(true, true);
        assert!(hint.is_news(true), "there was something");
    }
}
