//! Keys and file names: any key has exactly one path, a plain key is its own path, and no key leads
//! out of its bucket. [`path_of`] says how; [`entry_of`] is the way back.

use std::path::{Path, PathBuf};

/// Bytes of one file name before its suffix; file systems allow 255.
pub(super) const NAME_BYTES_MAX: usize = 240;
/// The folder of each bucket that is not part of its keys.
pub(super) const HIDDEN_FOLDER: &str = ".nilas";

const CONTINUES: &str = "^-";
const BESIDE_FOLDER: &str = "^o";
const EMPTY: &str = "^";

/// The path of `key`'s file, relative to its bucket. A segment being what stands between two slashes:
///
/// - a byte below 0x20, 0x7F and `^` are written `^` and two upper-case hexadecimal digits;
/// - an empty segment (`//`, a leading or a trailing slash) is written `^`;
/// - a name that would be `.` or `..`, or that begins with `.nilas`, has its first dot written `^2E`;
/// - a segment of more than [`NAME_BYTES_MAX`] bytes goes on in a folder, whose name ends in `^-`;
/// - an object whose path is also a folder (`a` beside `a/b`) is the file `a^o`, see
///   [`path_beside_folder`].
pub(super) fn path_of(key: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for segment in key.split('/') {
        push_segment(&mut path, segment);
    }
    path
}

/// The path of a file for the same key where a folder has taken the first.
pub(super) fn path_beside_folder(path: &Path) -> PathBuf {
    let mut name = path.file_name().expect("a key's path ends in a name").to_os_string();
    name.push(BESIDE_FOLDER);
    path.with_file_name(name)
}

fn push_segment(path: &mut PathBuf, segment: &str) {
    if segment.is_empty() {
        path.push(EMPTY);
        return;
    }
    let mut name = String::with_capacity(segment.len());
    for character in segment.chars() {
        let escaped = escape(character);
        if name.len() + escaped.len() > NAME_BYTES_MAX {
            path.push(guarded(&name) + CONTINUES);
            name.clear();
        }
        name.push_str(&escaped);
    }
    path.push(guarded(&name));
}

fn escape(character: char) -> String {
    match character {
        '\0'..='\x1f' | '\x7f' | '^' => format!("^{:02X}", character as u32),
        plain => plain.to_string(),
    }
}

fn guarded(name: &str) -> String {
    if name == "." || name == ".." || name.starts_with(HIDDEN_FOLDER) {
        format!("^2E{}", &name[1..])
    } else {
        name.to_owned()
    }
}

/// What a directory entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The end of a key.
    Object(String),
    /// What every key within begins with.
    Folder(String),
}

/// What the entry `name` stands for in a folder whose keys begin with `prefix`. `None` for names
/// that no key has; they are not part of the bucket.
pub(super) fn entry_of(prefix: &str, name: &str, is_folder: bool) -> Option<Entry> {
    if is_folder {
        if let Some(start) = name.strip_suffix(CONTINUES) {
            return Some(Entry::Folder(format!("{prefix}{}", unescape(start)?)));
        }
        return Some(Entry::Folder(format!("{prefix}{}/", unescape(name)?)));
    }
    let name = name.strip_suffix(BESIDE_FOLDER).unwrap_or(name);
    Some(Entry::Object(format!("{prefix}{}", unescape(name)?)))
}

fn unescape(name: &str) -> Option<String> {
    if name == EMPTY {
        return Some(String::new());
    }
    let mut pieces = name.split('^');
    let mut plain = pieces.next()?.to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        let code = u8::from_str_radix(digits, 16).ok().filter(u8::is_ascii)?;
        plain.push(char::from(code));
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    #[track_caller]
    fn check(key: &str, path: &str) {
        assert_eq!(path_of(key), Path::new(path), "{key:?}");
        assert_eq!(key_of(&path_of(key)).as_deref(), Some(key));
    }

    /// Walks a path as the listing does.
    fn key_of(path: &Path) -> Option<String> {
        let names: Vec<&str> = path.iter().map(|name| name.to_str().expect("UTF-8")).collect();
        let (last, folders) = names.split_last()?;
        let mut prefix = String::new();
        for folder in folders {
            let Entry::Folder(next) = entry_of(&prefix, folder, true)? else { return None };
            prefix = next;
        }
        match entry_of(&prefix, last, false)? {
            Entry::Object(key) => Some(key),
            Entry::Folder(_) => None,
        }
    }

    #[test]
    fn a_plain_key_is_its_own_path() {
        check("db/t/data/x.parquet", "db/t/data/x.parquet");
        check("p=a%2Fb #1/ü+ ~.bin", "p=a%2Fb #1/ü+ ~.bin");
    }

    #[test]
    fn odd_keys_have_documented_paths() {
        check("a//b", "a/^/b");
        check("a/", "a/^");
        check("/a", "^/a");
        check("/", "^/^");
        check("..", "^2E.");
        check("a/./b", "a/^2E/b");
        check("...", "...");
        check(".nilas/x", "^2Enilas/x");
        check("a^b", "a^5Eb");
        check("line\nend\0", "line^0Aend^00");
    }

    #[test]
    fn a_long_name_goes_on_in_a_folder() {
        let key = "x".repeat(1024);
        let path = path_of(&key);
        assert_eq!(path.iter().count(), 5);
        assert!(path.iter().all(|name| name.len() <= NAME_BYTES_MAX + CONTINUES.len()));
        assert_eq!(key_of(&path), Some(key));
        let sneaky = "x".repeat(NAME_BYTES_MAX) + "..";
        check(&sneaky, &("x".repeat(NAME_BYTES_MAX) + "^-/^2E."));
    }

    #[test]
    fn a_file_beside_a_folder_has_the_same_key() {
        let path = path_beside_folder(&path_of("db/a"));
        assert_eq!(path, Path::new("db/a^o"));
        assert_eq!(key_of(&path).as_deref(), Some("db/a"));
    }

    fn any_key() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("..".to_owned()),
            Just(".".to_owned()),
            Just(String::new()),
            Just("^".to_owned()),
            Just(".nilas".to_owned()),
            Just("y".repeat(239)),
            "[\\x00-\\x7f]{0,6}",
            "\\PC{0,6}",
        ];
        proptest::collection::vec(piece, 1..8).prop_map(|pieces| pieces.join("/"))
    }

    proptest! {
        #[test]
        fn every_key_has_one_path_within_the_bucket(key in any_key()) {
            let path = path_of(&key);
            prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            prop_assert!(!path.starts_with(HIDDEN_FOLDER));
            prop_assert!(path.iter().all(|name| name.len() <= 255));
            prop_assert_eq!(key_of(&path), Some(key));
        }

        #[test]
        fn different_keys_have_different_paths(one in any_key(), other in any_key()) {
            prop_assert_eq!(one == other, path_of(&one) == path_of(&other));
        }

        #[test]
        fn names_that_people_drop_never_panic(name in "\\PC{0,12}", is_folder: bool) {
            let _ = entry_of("", &name, is_folder);
        }
    }
}
