//! Patterns over bucket names and `bucket/key` paths: `*` stands for any run of characters but
//! `/`, `**` for any run at all, `?` for one character but `/`. Everything else is itself.

use std::fmt;

/// A pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    One,
    Run { crosses_slashes: bool },
}

impl Glob {
    /// The pattern that `text` writes. Every text is a pattern.
    pub fn new(text: &str) -> Glob {
        let mut tokens = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                '*' => Token::Run { crosses_slashes: characters.next_if_eq(&'*').is_some() },
                '?' => Token::One,
                literal => Token::Literal(literal),
            });
        }
        Glob { text: text.to_owned(), tokens }
    }

    /// The one name that fits, where the pattern has no `*` and no `?`.
    pub fn literal(&self) -> Option<String> {
        let is_literal = self.tokens.iter().all(|token| matches!(token, Token::Literal(_)));
        is_literal.then(|| self.text.clone())
    }

    /// Whether the whole of `name` fits. Time is at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        // One flag for each place in the pattern that the name so far can have reached.
        let mut reached = vec![false; self.tokens.len() + 1];
        reached[0] = true;
        self.skip_runs(&mut reached);
        for character in name.chars() {
            reached = self.step(&reached, character);
            self.skip_runs(&mut reached);
        }
        reached[self.tokens.len()]
    }

    fn step(&self, reached: &[bool], character: char) -> Vec<bool> {
        let mut next = vec![false; reached.len()];
        for (place, token) in self.tokens.iter().enumerate().filter(|(place, _)| reached[*place]) {
            match token {
                Token::Literal(literal) if *literal == character => next[place + 1] = true,
                Token::One if character != '/' => next[place + 1] = true,
                Token::Run { crosses_slashes } if *crosses_slashes || character != '/' => {
                    next[place] = true;
                }
                _ => {}
            }
        }
        next
    }

    /// A run may stand for nothing.
    fn skip_runs(&self, reached: &mut [bool]) {
        for (place, token) in self.tokens.iter().enumerate() {
            if reached[place] && matches!(token, Token::Run { .. }) {
                reached[place + 1] = true;
            }
        }
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, formatter)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        let cases = [
            ("*", "lake", true),
            ("*", "lake/a", false),
            ("**", "lake/a/b", true),
            ("lake", "lakes", false),
            ("lake-*", "lake-1", true),
            ("lake-?", "lake-", false),
            ("lake/**/data/*.parquet", "lake/db/t/data/1.parquet", true),
            ("lake/**/data/*.parquet", "lake/db/t/data/p=1/1.parquet", false),
            ("**.parquet", "lake/a.parquet", true),
            ("", "", true),
            ("", "a", false),
            ("é?", "éü", true),
        ];
        for (pattern, name, fits) in cases {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern:?} on {name:?}");
        }
    }

    #[test]
    fn many_runs_stay_cheap() {
        assert!(!Glob::new(&"*a".repeat(60)).matches(&"a".repeat(59)));
    }
}
