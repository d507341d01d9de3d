//! Counting: what passed and what failed, as the test runners say it themselves.

use std::iter::Sum;

/// Tests, or steps that are not made of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Count {
    /// A step without tests that went well.
    pub(super) const PASSED: Count = Count { passed: 1, failed: 0 };
    /// A step without tests that did not.
    pub(super) const FAILED: Count = Count { passed: 0, failed: 1 };

    /// What a line of a runner's output counts: cargo's `test result: ok. 3 passed; 0 failed; …`,
    /// pytest's `1 failed, 2 passed, 1 error in 3.40s`.
    pub(super) fn of_line(line: &str) -> Count {
        let is_cargo = line.starts_with("test result: ");
        let is_pytest = line.contains(" in ") && line.trim_matches('=').trim().ends_with('s');
        if !is_cargo && !is_pytest {
            return Count::default();
        }
        let words: Vec<&str> = line.split(|mark: char| !mark.is_alphanumeric()).collect();
        let mut count = Count::default();
        let words: Vec<&&str> = words.iter().filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match *pair[1] {
                "passed" => count.passed += number,
                "failed" | "error" | "errors" => count.failed += number,
                _ => {}
            }
        }
        count
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Count>>(counts: I) -> Count {
        counts.fold(Count::default(), |sum, count| Count {
            passed: sum.passed + count.passed,
            failed: sum.failed + count.failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    fn check(line: &str, passed: u64, failed: u64) {
        assert_eq!(Count::of_line(line), Count { passed, failed }, "{line}");
    }

    #[test]
    fn both_runners_are_understood() {
        check("test result: ok. 19 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", 19, 0);
        check("test result: FAILED. 3 passed; 2 failed; 1 ignored; finished in 0.09s", 3, 2);
        check("210 passed, 321 skipped in 37.67s", 210, 0);
        check("1 failed, 42 passed, 53 skipped, 2 errors in 8.15s", 42, 3);
        check("== 1 failed in 8.15s ==", 0, 1);
    }

    #[test]
    fn other_lines_count_nothing() {
        check("5 passed the gate", 0, 0);
        check("test a_claim ... ok", 0, 0);
        check("", 0, 0);
    }
}
