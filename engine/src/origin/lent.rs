//! Keys that catalogs lend for the objects of their tables: each for the keys that begin with a prefix, and for a time.
//! What the node reads in its own name is signed with the one for it, if there is one. None is ever shown, and none
//! signs a write.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use nilas_base::{HashMap, UnixMillis};

use super::signer::SigningKey;

/// A key that is lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentKey {
    /// The bucket that it is for.
    pub bucket: Box<str>,
    /// What the keys of the objects that it is for begin with, decoded.
    pub prefix: Box<str>,
    /// What to sign with.
    pub key: Arc<SigningKey>,
    /// When it ends, if that is known.
    pub expires_at: Option<UnixMillis>,
}

/// All keys that are lent now; clones are the same.
#[derive(Clone, Default)]
pub struct LentKeys(Arc<Mutex<Lent>>);

/// Who lends.
type Lender = Box<str>;
/// A bucket and what keys begin with.
type Prefix = (Box<str>, Box<str>);

#[derive(Default)]
struct Lent {
    /// By bucket and prefix.
    offers: HashMap<Box<str>, BTreeMap<Box<str>, Vec<Offer>>>,
    /// Of each lender.
    prefixes: HashMap<Lender, Vec<Prefix>>,
}

struct Offer {
    lender: Lender,
    key: Arc<SigningKey>,
    expires_at: Option<UnixMillis>,
    is_refused: bool,
}

impl LentKeys {
    /// Takes all that somebody lends from now on, in place of what it lent before.
    pub fn lend(&self, lender: &str, keys: Vec<LentKey>) {
        let mut lent = self.lock();
        lent.take_back(lender);
        let mut prefixes = Vec::with_capacity(keys.len());
        for LentKey { bucket, prefix, key, expires_at } in keys {
            let offer = Offer { lender: lender.into(), key, expires_at, is_refused: false };
            let of_bucket = lent.offers.entry(bucket.clone()).or_default();
            of_bucket.entry(prefix.clone()).or_default().push(offer);
            prefixes.push((bucket, prefix));
        }
        if !prefixes.is_empty() {
            lent.prefixes.insert(lender.into(), prefixes);
        }
    }

    /// The key for an object: of the longest prefix for which there is one that is good now.
    pub fn of(&self, bucket: &str, key: &str, now: UnixMillis) -> Option<Arc<SigningKey>> {
        let lent = self.lock();
        let of_bucket = lent.offers.get(bucket)?;
        let mut within = key;
        loop {
            let below = (Bound::Unbounded, Bound::Included(within));
            let (prefix, offers) = of_bucket.range::<str, _>(below).next_back()?;
            let shared = shared_bytes(prefix, within);
            if shared == prefix.len() {
                let good = offers.iter().find(|offer| offer.is_good(now));
                if let Some(offer) = good {
                    return Some(Arc::clone(&offer.key));
                }
                // The next shorter one.
                let (at, _) = prefix.char_indices().next_back()?;
                within = &within[..at];
            } else {
                within = &within[..shared];
            }
        }
    }

    /// The origin takes a key no more: it is not used again before its lender lends anew.
    pub fn refused(&self, key: &Arc<SigningKey>) {
        let mut lent = self.lock();
        let offers = lent.offers.values_mut().flat_map(BTreeMap::values_mut).flatten();
        offers.filter(|it| Arc::ptr_eq(&it.key, key)).for_each(|it| it.is_refused = true);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LentKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes: usize = self.lock().offers.values().map(BTreeMap::len).sum();
        write!(formatter, "LentKeys {{ prefixes: {prefixes} }}")
    }
}

impl Lent {
    fn take_back(&mut self, lender: &str) {
        for (bucket, prefix) in self.prefixes.remove(lender).unwrap_or_default() {
            let Some(of_bucket) = self.offers.get_mut(&bucket) else { continue };
            let Some(offers) = of_bucket.get_mut(&prefix) else { continue };
            offers.retain(|offer| *offer.lender != *lender);
            if offers.is_empty() {
                of_bucket.remove(&prefix);
            }
            if of_bucket.is_empty() {
                self.offers.remove(&bucket);
            }
        }
    }
}

impl Offer {
    fn is_good(&self, now: UnixMillis) -> bool {
        !self.is_refused && self.expires_at.is_none_or(|end| now < end)
    }
}

/// How far two texts are the same, up to whole characters.
fn shared_bytes(one: &str, other: &str) -> usize {
    let same = one.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b);
    same.last().map_or(0, |((at, it), _)| at + it.len_utf8())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1000);

    fn key(name: &str) -> Arc<SigningKey> {
        Arc::new(SigningKey {
            access_key: name.to_owned(),
            secret_key: "s".to_owned(),
            session_token: None,
        })
    }

    fn lent(prefix: &str, name: &str, expires_at: Option<u64>) -> LentKey {
        let expires_at = expires_at.map(UnixMillis);
        LentKey { bucket: "lake".into(), prefix: prefix.into(), key: key(name), expires_at }
    }

    fn name_of(keys: &LentKeys, key: &str) -> Option<String> {
        keys.of("lake", key, NOW).map(|key| key.access_key.clone())
    }

    #[test]
    fn the_longest_prefix_with_a_good_key_decides() {
        let keys = LentKeys::default();
        keys.lend("t", vec![lent("db/", "db", None), lent("db/t/", "t", Some(1001))]);
        keys.lend("old", vec![lent("db/t/x", "old", Some(1000))]);
        for (key, expected) in [
            ("db/t/x1", Some("t")),
            ("db/t/a", Some("t")),
            ("db/t", Some("db")),
            ("db/é", Some("db")),
            ("d", None),
            ("", None),
            ("zz", None),
        ] {
            assert_eq!(name_of(&keys, key).as_deref(), expected, "{key}");
        }
        assert_eq!(keys.of("lak", "db/t/x", NOW), None);
        assert_eq!(keys.of("lake2", "db/t/x", NOW), None);
    }

    #[test]
    fn what_is_lent_anew_takes_the_place_of_what_was() {
        let keys = LentKeys::default();
        keys.lend("one", vec![lent("db/", "first", None)]);
        keys.lend("two", vec![lent("db/", "second", None)]);
        keys.lend("one", vec![lent("x/", "third", None)]);
        assert_eq!(name_of(&keys, "db/a").as_deref(), Some("second"));
        assert_eq!(name_of(&keys, "x/a").as_deref(), Some("third"));
        keys.lend("two", Vec::new());
        assert_eq!(name_of(&keys, "db/a"), None);
    }

    #[test]
    fn a_refused_key_is_used_again_only_once_it_is_lent_anew() {
        let keys = LentKeys::default();
        keys.lend("one", vec![lent("db/", "a", None)]);
        keys.refused(&keys.of("lake", "db/x", NOW).expect("lent"));
        assert_eq!(name_of(&keys, "db/x"), None);
        keys.lend("one", vec![lent("db/", "a", None)]);
        assert_eq!(name_of(&keys, "db/x").as_deref(), Some("a"));
    }

    #[test]
    fn no_secret_is_printed() {
        let keys = LentKeys::default();
        keys.lend("one", vec![lent("db/", "a", None)]);
        assert_eq!(format!("{keys:?}"), "LentKeys { prefixes: 1 }");
    }

    proptest! {
        #[test]
        fn any_prefixes_are_told_apart_as_by_looking_at_each(
            prefixes in proptest::collection::vec(("[ab/é]{0,5}", 998_u64..1003), 0..8),
            asked in "[ab/é]{0,6}",
        ) {
            let keys = LentKeys::default();
            for (number, (prefix, end)) in prefixes.iter().enumerate() {
                keys.lend(&number.to_string(), vec![lent(prefix, prefix, Some(*end))]);
            }
            let fitting = prefixes.iter().filter(|(prefix, end)| {
                *end > NOW.0 && asked.starts_with(prefix.as_str())
            });
            let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
            prop_assert_eq!(name_of(&keys, &asked), longest.map(|(prefix, _)| prefix.clone()));
        }
    }
}
