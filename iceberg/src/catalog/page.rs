//! Pages of a list: where the next one is, and when to stop. A server that gives the same token twice, or
//! never ends, is named instead of being followed.

use nilas_base::HashSet;

/// Pages of one list.
pub const PAGES_MAX: usize = 10_000;
/// Bytes of a token: it has to fit into a request's head.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// How far a list was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    token: String,
    seen: HashSet<String>,
}

impl Pages {
    /// The token of the page to ask for; that of the first is empty, which says that pages are understood.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Takes the token that came with a page. False at the end of the list; the error says what is wrong.
    pub(super) fn turn(&mut self, next: Option<String>) -> Result<bool, String> {
        let Some(next) = next.filter(|token| !token.is_empty()) else { return Ok(false) };
        if next.len() > TOKEN_BYTES_MAX {
            return Err(format!("a page token of {} bytes", next.len()));
        }
        if self.seen.len() + 1 >= PAGES_MAX {
            return Err(format!("more than {PAGES_MAX} pages"));
        }
        if !self.seen.insert(next.clone()) {
            return Err(format!("the same page token twice, after {} pages", self.seen.len() + 1));
        }
        self.token = next;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_no_token_or_an_empty_one_comes() {
        let mut pages = Pages::default();
        assert_eq!(pages.token(), "");
        assert_eq!(pages.turn(Some("2".to_owned())), Ok(true));
        assert_eq!(pages.token(), "2");
        assert_eq!(pages.turn(None), Ok(false));
        assert_eq!(pages.turn(Some(String::new())), Ok(false));
    }

    #[test]
    fn a_token_that_comes_again_and_a_list_without_end_are_errors() {
        let mut pages = Pages::default();
        for token in ["1", "2"] {
            assert_eq!(pages.turn(Some(token.to_owned())), Ok(true));
        }
        assert!(pages.turn(Some("1".to_owned())).expect_err("seen before").contains("twice"));
        let mut endless = Pages::default();
        let turned = (0..).map(|page| endless.turn(Some(format!("{page}")))).take(PAGES_MAX);
        let errors: Vec<String> = turned.filter_map(Result::err).collect();
        assert_eq!(errors, [format!("more than {PAGES_MAX} pages")]);
    }
}
