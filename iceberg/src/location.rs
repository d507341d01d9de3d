//! Where an object lies, read from the text that a table names it by. Nothing is decoded, encoded,
//! normalised or copied: engines use these texts as they are, and so does the cache.

use crate::fault::Fault;

/// The store that a location speaks of. Several schemes may mean one of the configured buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `s3`, and `s3a` and `s3n` of Hadoop.
    S3,
    /// `gs`.
    Gs,
    /// `abfs`, `abfss`, `wasb` and `wasbs`: `container@account`.
    Azure,
    /// `file`, or a bare path.
    File,
}

/// The schemes that are known, in lower case.
const SCHEMES: &[(&str, Scheme)] = &[
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("s3n", Scheme::S3),
    ("gs", Scheme::Gs),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("wasb", Scheme::Azure),
    ("wasbs", Scheme::Azure),
    ("file", Scheme::File),
];

/// A location's parts, slices of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location<'a> {
    /// The store.
    pub scheme: Scheme,
    /// Bucket or container; empty for a file.
    pub bucket: &'a str,
    /// Azure's account and its domain: what stands after the `@`.
    pub account: Option<&'a str>,
    /// What stands after the bucket and one `/`, verbatim; a file's path keeps its first `/`.
    pub key: &'a str,
}

impl<'a> Location<'a> {
    /// Reads `scheme://bucket/key`, `file:/path` or a bare path.
    pub fn parse(text: &'a str) -> Result<Location<'a>, Fault> {
        if text.is_empty() {
            return Err(Fault::damaged(text, "an empty location"));
        }
        match scheme_of(text) {
            None => Ok(Location::file(text)),
            Some((name, rest)) => match known(name) {
                None => Err(Fault::unsupported(text, format!("the scheme `{name}`"))),
                Some(Scheme::File) => Ok(Location::file(file_path(rest))),
                Some(scheme) => Location::of_store(text, scheme, rest),
            },
        }
    }

    fn file(path: &'a str) -> Location<'a> {
        Location { scheme: Scheme::File, bucket: "", account: None, key: path }
    }

    fn of_store(text: &'a str, scheme: Scheme, rest: &'a str) -> Result<Location<'a>, Fault> {
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(Fault::damaged(text, "a location without `//` after its scheme"));
        };
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, account) = match (scheme, authority.split_once('@')) {
            (Scheme::Azure, Some((container, account))) => (container, Some(account)),
            _ => (authority, None),
        };
        if bucket.is_empty() {
            return Err(Fault::damaged(text, "a location without a bucket"));
        }
        Ok(Location { scheme, bucket, account, key })
    }
}

/// The scheme and what follows its `:`. A bare path may contain `:`, so a scheme counts only where
/// `//` follows, or where it is `file`.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let spelt = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let meant = rest.starts_with("//")
        || known(name) == Some(Scheme::File)
        || known(name).is_some() && rest.starts_with('/');
    (spelt && meant).then_some((name, rest))
}

fn known(name: &str) -> Option<Scheme> {
    let mut schemes = SCHEMES.iter();
    schemes.find(|(spelt, _)| spelt.eq_ignore_ascii_case(name)).map(|(_, scheme)| *scheme)
}

/// `///path` and `/path` are the path; `//host/path` is the path on that host, which is this one.
fn file_path(rest: &str) -> &str {
    match rest.strip_prefix("//") {
        Some(after) => after.find('/').map_or("", |slash| &after[slash..]),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, scheme: Scheme, bucket: &str, key: &str) {
        let location = Location::parse(text).expect(text);
        assert_eq!(
            (location.scheme, location.bucket, location.key),
            (scheme, bucket, key),
            "{text}"
        );
    }

    #[test]
    fn every_scheme_gives_bucket_and_key() {
        for scheme in ["s3", "s3a", "s3n", "S3"] {
            check(&format!("{scheme}://b/k/x.parquet"), Scheme::S3, "b", "k/x.parquet");
        }
        check("gs://b/k", Scheme::Gs, "b", "k");
        for scheme in ["abfs", "abfss", "wasb", "wasbs"] {
            let text = format!("{scheme}://c@a.dfs.core.windows.net/k/x");
            check(&text, Scheme::Azure, "c", "k/x");
            let account = Location::parse(&text).expect("it was read above").account;
            assert_eq!(account, Some("a.dfs.core.windows.net"));
        }
    }

    #[test]
    fn files_keep_their_whole_path() {
        check("file:///a/b", Scheme::File, "", "/a/b");
        check("file:/a/b", Scheme::File, "", "/a/b");
        check("file://localhost/a/b", Scheme::File, "", "/a/b");
        check("/a/b", Scheme::File, "", "/a/b");
        check("/a/t=12:30:00/b", Scheme::File, "", "/a/t=12:30:00/b");
        check("a/t=s3://b", Scheme::File, "", "a/t=s3://b");
    }

    #[test]
    fn nothing_in_a_key_is_decoded_or_cut() {
        for key in
            ["a#b", "a%2Fb", "a?b=c", "a b", "tag=é/日本", "/a//b/", "a@b", "..", "a%", "a\\b"]
        {
            check(&format!("s3://b/{key}"), Scheme::S3, "b", key);
        }
        check("s3://b", Scheme::S3, "b", "");
        check("s3://b@c/k", Scheme::S3, "b@c", "k");
    }

    #[test]
    fn what_names_no_bucket_is_a_fault() {
        for text in ["", "s3:///k", "s3:/b/k", "abfs://@a/k", "hdfs://n/k", "oss://b/k"] {
            let fault = Location::parse(text).expect_err(text);
            assert_eq!(fault.path(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bucket_and_key_come_back_verbatim(bucket in "[a-z0-9.-]{1,20}", key in "\\PC*") {
            let text = format!("s3a://{bucket}/{key}");
            let location = Location::parse(&text).expect("a bucket is named");
            proptest::prop_assert_eq!((location.bucket, location.key), (&*bucket, &*key));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = Location::parse(&text);
        }
    }
}
