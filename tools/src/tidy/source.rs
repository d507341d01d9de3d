//! Rust source with its comments and literals blanked out, so that rules may count braces and
//! find words without a parser. Lines and columns stay where they were; nothing is interpreted.

/// The text twice, each as long as the original: code alone, and comments alone.
pub(crate) struct Source {
    pub(crate) code: String,
    pub(crate) comments: String,
}

/// A function: the line of its `fn`, its name, and how many lines it spans.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) start_byte: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(crate) fn new(text: &str) -> Source {
        let kinds = classify(text.as_bytes());
        Source { code: keep(text, &kinds, Kind::Code), comments: keep(text, &kinds, Kind::Comment) }
    }

    /// Every function with a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = self.code.as_bytes();
        let mut functions = Vec::new();
        for (start, word) in words(&self.code) {
            if word != "fn" {
                continue;
            }
            let Some((_, name)) = words(&self.code[start + 2..]).next() else { continue };
            let Some(open) = body_start(code, start + 2) else { continue };
            let end = matching_brace(code, open);
            let lines = self.code[start..end].matches('\n').count() + 1;
            functions.push(Function {
                name: name.into(),
                line: self.line(start),
                lines,
                start_byte: start,
            });
        }
        functions
    }

    /// Byte ranges of `#[cfg(test)] mod …{}` bodies, which rules of size pass over.
    pub(crate) fn test_modules(&self) -> Vec<std::ops::Range<usize>> {
        let mut modules = Vec::new();
        for (start, attribute) in self.code.match_indices("#[cfg(test)]") {
            let after = start + attribute.len();
            let is_module =
                words(&self.code[after..]).find(|(_, word)| !matches!(*word, "pub" | "crate"));
            let is_module = is_module.is_some_and(|(_, word)| word == "mod");
            if let (true, Some(open)) = (is_module, body_start(self.code.as_bytes(), after)) {
                modules.push(start..matching_brace(self.code.as_bytes(), open));
            }
        }
        modules
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line(&self, byte: usize) -> usize {
        self.code[..byte].matches('\n').count() + 1
    }
}

/// The words of a text and where each starts.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(is_word)?;
        let length = text[start..].find(|character| !is_word(character));
        rest = length.map_or(text.len(), |length| start + length);
        Some((start, &text[start..rest]))
    })
}

/// Keeps the bytes of one kind and all line ends; the rest becomes spaces.
fn keep(text: &str, kinds: &[Kind], kind: Kind) -> String {
    let kept = text
        .bytes()
        .zip(kinds)
        .map(|(byte, is)| if byte == b'\n' || *is == kind { byte } else { b' ' });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

fn classify(text: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (kind, length) = token(text, at);
        let end = (at + length.max(1)).min(text.len());
        kinds.resize(end, kind);
        at = end;
    }
    kinds
}

fn token(text: &[u8], at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    let after_word = at > 0 && (text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, line_length(rest)),
        [b'/', b'*', ..] => (Kind::Comment, block_comment_length(rest)),
        [b'"', ..] => (Kind::Literal, quoted_length(rest)),
        [b'r', b'"' | b'#', ..] if !after_word => raw_literal(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_word => raw_literal(rest, 2),
        [b'\'', ..] => character_literal(rest),
        _ => (Kind::Code, 1),
    }
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_literal(rest: &[u8], prefix: usize) -> (Kind, usize) {
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return (Kind::Code, prefix); // A raw identifier such as `r#type`.
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = prefix + hashes + 1;
    let length = rest[body..].windows(close.len()).position(|window| window == close);
    (Kind::Literal, length.map_or(rest.len(), |length| body + length + close.len()))
}

/// A quote opens a character only when it also closes: `'a'`, not the lifetime `'a`.
fn character_literal(rest: &[u8]) -> (Kind, usize) {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return (Kind::Literal, close.map_or(1, |close| close + 4));
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
    let valid = match text {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).unwrap_or(""),
    };
    let width = valid.chars().next().map_or(0, char::len_utf8);
    match rest.get(1 + width) {
        Some(b'\'') if width > 0 => (Kind::Literal, width + 2),
        _ => (Kind::Code, 1),
    }
}

/// The `{` that opens a body after `from`; `None` when a `;` ends the item first.
fn body_start(code: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code[from..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(from + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// One past the brace that closes the one at `open`.
fn matching_brace(code: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    code.len()
}
