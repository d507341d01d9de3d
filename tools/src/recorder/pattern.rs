//! Which requests a rule means, and how many of those it meets. Pure: the counts are `script`'s.

use hyper::Request;
use hyper::header::RANGE;
use nilas_base::Rng;

/// What a request looks like; what is not said fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pattern {
    /// In capitals.
    pub(super) method: Option<String>,
    /// The whole path, as sent.
    pub(super) path: Option<String>,
    /// How the path begins.
    pub(super) prefix: Option<String>,
    /// A part of the query, as sent.
    pub(super) query: Option<String>,
    /// Whether there is a `Range` header.
    pub(super) has_range: Option<bool>,
}

/// Which of the requests that fit are met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draw {
    /// The first so many pass.
    pub(super) skip: u64,
    /// Of the others so many are met; all, where nothing is said.
    pub(super) times: Option<u64>,
    /// Each of them with this chance only.
    pub(super) chance_percent: Option<u64>,
    /// What the chance is drawn from.
    pub(super) seed: u64,
}

impl Pattern {
    /// Whether a request fits.
    pub(super) fn fits<B>(&self, request: &Request<B>) -> bool {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or(""));
        self.method.as_ref().is_none_or(|method| request.method() == method.as_str())
            && self.path.as_ref().is_none_or(|whole| path == whole)
            && self.prefix.as_ref().is_none_or(|prefix| path.starts_with(prefix))
            && self.query.as_ref().is_none_or(|part| query.contains(part))
            && self.has_range.is_none_or(|has| request.headers().contains_key(RANGE) == has)
    }
}

impl Draw {
    /// Whether the next request that fits is met, after `fitted` earlier ones of which `met` were.
    pub(super) fn meets(&self, fitted: u64, met: u64, rng: &mut Rng) -> bool {
        fitted >= self.skip
            && self.times.is_none_or(|times| met < times)
            && self.chance_percent.is_none_or(|percent| rng.chance(percent, 100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: Pattern, target: &str, expected: bool) {
        let request = Request::builder()
            .method("GET")
            .uri(target)
            .header("Range", "bytes=0-1")
            .body(())
            .expect("a request");
        assert_eq!(pattern.fits(&request), expected, "{pattern:?} {target}");
    }

    #[test]
    fn a_pattern_fits_where_all_that_it_says_is_so() {
        let some = |text: &str| Some(text.to_owned());
        check(Pattern::default(), "/any/thing?x", true);
        check(Pattern { method: some("GET"), ..Pattern::default() }, "/a", true);
        check(Pattern { method: some("PUT"), ..Pattern::default() }, "/a", false);
        check(Pattern { path: some("/a/b"), ..Pattern::default() }, "/a/b?c", true);
        check(Pattern { path: some("/a/b"), ..Pattern::default() }, "/a/b/c", false);
        check(Pattern { prefix: some("/a/"), ..Pattern::default() }, "/a/b", true);
        check(Pattern { prefix: some("/a/"), ..Pattern::default() }, "/b/a/", false);
        check(Pattern { query: some("partNumber"), ..Pattern::default() }, "/a?partNumber=1", true);
        check(Pattern { query: some("partNumber"), ..Pattern::default() }, "/a", false);
        check(Pattern { has_range: Some(true), ..Pattern::default() }, "/a", true);
        check(Pattern { has_range: Some(false), ..Pattern::default() }, "/a", false);
        let both = Pattern { prefix: some("/a"), query: some("x"), ..Pattern::default() };
        check(both.clone(), "/a?x", true);
        check(both, "/a", false);
    }

    fn met(draw: &Draw, requests: u64) -> Vec<u64> {
        let (mut rng, mut met) = (Rng::from_seed(draw.seed), Vec::new());
        for number in 0..requests {
            if draw.meets(number, met.len() as u64, &mut rng) {
                met.push(number);
            }
        }
        met
    }

    #[test]
    fn some_pass_first_and_then_so_many_are_met() {
        assert_eq!(met(&Draw::default(), 3), [0, 1, 2]);
        assert_eq!(met(&Draw { skip: 1, times: Some(2), ..Draw::default() }, 9), [1, 2]);
        assert_eq!(met(&Draw { times: Some(0), ..Draw::default() }, 9), [0; 0]);
    }

    #[test]
    fn a_chance_follows_from_its_seed_alone() {
        let draw = |seed| Draw { chance_percent: Some(30), seed, ..Draw::default() };
        let first = met(&draw(7), 1000);
        assert!((200..400).contains(&first.len()), "{}", first.len());
        assert_eq!(met(&draw(7), 1000), first);
        assert_ne!(met(&draw(8), 1000), first);
    }
}
