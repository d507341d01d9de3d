//! From the texts by which tables name their files to the buckets and keys of the origin.

use std::path::PathBuf;

use nilas_iceberg::location::{Location, Scheme};

use crate::config::Glob;

/// Which locations are objects of the origin.
#[derive(Clone, Debug)]
pub struct Places {
    /// The buckets that are served.
    pub buckets: Vec<Glob>,
    /// Where the buckets lie, if they are directories of this machine.
    pub directory: Option<PathBuf>,
}

impl Places {
    /// Bucket and key of an object that is served from here; `None` of one that lies elsewhere.
    pub fn object<'a>(&self, location: &'a str) -> Option<(&'a str, &'a str)> {
        let Location { scheme, bucket, key, .. } = Location::parse(location).ok()?;
        let (bucket, key) = match scheme {
            Scheme::File => self.file(key)?,
            Scheme::S3 | Scheme::Gs | Scheme::Azure => (bucket, key),
        };
        let is_served = self.buckets.iter().any(|glob| glob.matches(bucket));
        (is_served && !key.is_empty()).then_some((bucket, key))
    }

    /// The same of a folder: its key ends with a slash, or is empty.
    pub fn folder(&self, location: &str) -> Option<(Box<str>, Box<str>)> {
        let location = format!("{}/", location.trim_end_matches('/'));
        let with_any_file = format!("{location}x");
        let (bucket, key) = self.object(&with_any_file)?;
        Some((bucket.into(), key[..key.len() - 1].into()))
    }

    /// Bucket and key that all locations which begin with a text have in common; the key may be empty.
    pub fn prefix(&self, text: &str) -> Option<(Box<str>, Box<str>)> {
        let Location { scheme, bucket, key, .. } = Location::parse(text).ok()?;
        let is_served = self.buckets.iter().any(|glob| glob.matches(bucket));
        (is_served && scheme != Scheme::File).then(|| (bucket.into(), key.into()))
    }

    fn file<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let directory = self.directory.as_ref()?.to_str()?;
        let within = path.strip_prefix(directory.trim_end_matches('/'))?.strip_prefix('/')?;
        within.split_once('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(directory: Option<&str>) -> Places {
        let buckets = ["lake", "raw-*"].map(Glob::new).to_vec();
        Places { buckets, directory: directory.map(PathBuf::from) }
    }

    #[test]
    fn every_scheme_of_a_store_leads_to_the_bucket_and_the_key_as_it_is_written() {
        let places = places(None);
        for scheme in ["s3", "s3a", "s3n", "gs", "S3"] {
            for key in ["a/b.parquet", "a#b", "a%2Fb/c=d e", "é/日本", "a//b", "?x"] {
                let location = format!("{scheme}://lake/{key}");
                assert_eq!(places.object(&location), Some(("lake", key)), "{location}");
            }
        }
        let azure = "abfss://raw-eu@account.dfs.core.windows.net/a/b";
        assert_eq!(places.object(azure), Some(("raw-eu", "a/b")));
    }

    #[test]
    fn what_is_not_served_from_here_is_nobodys() {
        let places = places(None);
        for location in ["s3://other/a", "s3://lake/", "s3://lake", "hdfs://lake/a", "", "/lake/a"]
        {
            assert_eq!(places.object(location), None, "{location}");
        }
    }

    #[test]
    fn a_directorys_files_are_objects_of_the_buckets_in_it() {
        let places = places(Some("/srv/data/"));
        assert_eq!(places.object("file:///srv/data/lake/t/x"), Some(("lake", "t/x")));
        assert_eq!(places.object("/srv/data/lake/t/x"), Some(("lake", "t/x")));
        for elsewhere in ["/srv/data2/lake/x", "/srv/data/lake", "/srv/data/other/x", "/x"] {
            assert_eq!(places.object(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn a_folder_ends_with_one_slash() {
        let places = places(None);
        let folder = |location: &str| places.folder(location);
        assert_eq!(folder("s3://lake/db/t"), Some(("lake".into(), "db/t/".into())));
        assert_eq!(folder("s3a://lake/db/t//"), Some(("lake".into(), "db/t/".into())));
        assert_eq!(folder("s3://lake"), Some(("lake".into(), "".into())));
        assert_eq!(folder("s3://other/t"), None);
    }
}
