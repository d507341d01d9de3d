//! Entries as a shard appends them, against what a shard knows that never stops: the last word on each
//! key counts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::freshness::Voucher;
use crate::mapping::StoreClass;
use crate::purge::Era;

const GEOMETRY: Geometry = Geometry { origin_id: [7; 16], block_bytes: 1 << 20, shards: 1 };
/// Of any entry here.
const ENTRY_BYTES: usize = 200;
const BUCKETS: [&str; 2] = ["lake", "pond"];
const KEYS: [&str; 3] = ["a", "b", "c"];

fn name((bucket, key): (usize, usize)) -> NameRef<'static> {
    NameRef { bucket: BUCKETS[bucket], key: KEYS[key] }
}

fn hash(of: (usize, usize)) -> HomeHash {
    GEOMETRY.home_hash(name(of))
}

fn learnt(of: (usize, usize), version: u64) -> Entry<'static> {
    Entry::Learnt(Learnt {
        bucket: name(of).bucket,
        key: name(of).key,
        etag: "\"a\"",
        length: version,
        last_modified: None,
        headers: b"",
        checksums: None,
        era: Era(0),
        class: StoreClass::Data,
        tail_start: 0,
        voucher: Voucher::Rule,
    })
}

fn keys(of: &[(usize, usize)]) -> Reach<'static> {
    Reach::Keys(of.iter().map(|of| hash(*of)).collect::<Vec<_>>().into())
}

#[derive(Clone, Debug)]
enum Step {
    Learn((usize, usize)),
    BeginKeys(Vec<(usize, usize)>),
    BeginBucket(usize),
    End { which: usize, is_unknown: bool, is_lost: bool },
    Gone((usize, usize)),
    Purge((usize, usize)),
    Start,
}

fn step() -> impl Strategy<Value = Step> {
    let of = || (0..BUCKETS.len(), 0..KEYS.len());
    let end = (any::<usize>(), 0..4_u8, 0..4_u8);
    prop_oneof![
        6 => of().prop_map(Step::Learn),
        2 => proptest::collection::vec(of(), 1..3).prop_map(Step::BeginKeys),
        1 => (0..BUCKETS.len()).prop_map(Step::BeginBucket),
        3 => end.prop_map(|(which, unknown, lost)| Step::End {
            which,
            is_unknown: unknown == 0,
            is_lost: lost == 0,
        }),
        1 => of().prop_map(Step::Gone),
        1 => of().prop_map(Step::Purge),
        1 => Just(Step::Start),
    ]
}

/// What a shard knows, without a journal.
#[derive(Default)]
struct Reference {
    versions: BTreeMap<(usize, usize), u64>,
    writes: BTreeMap<u64, Vec<(usize, usize)>>,
    held: BTreeSet<(usize, usize)>,
    /// Keys that the journal may hold although nothing holds them: an end was lost.
    unsure: BTreeSet<(usize, usize)>,
    next: u64,
}

impl Reference {
    fn is_written(&self, of: (usize, usize)) -> bool {
        self.writes.values().flatten().any(|written| *written == of)
    }

    fn lose_writes(&mut self) {
        let lost = std::mem::take(&mut self.writes);
        self.held.extend(lost.into_values().flatten());
    }

    /// What is appended for a step.
    fn apply(&mut self, step: &Step) -> Option<Entry<'static>> {
        self.next += 1;
        match step {
            // The hold of a key ends by time; here as soon as somebody learns it.
            Step::Learn(of) if !self.is_written(*of) => {
                self.versions.insert(*of, self.next);
                self.held.remove(of);
                Some(learnt(*of, self.next))
            }
            Step::Learn(_) => None,
            Step::BeginKeys(of) => {
                self.versions.retain(|known, _| !of.contains(known));
                self.writes.insert(self.next, of.clone());
                Some(Entry::Began(WriteId(self.next), keys(of)))
            }
            Step::BeginBucket(bucket) => {
                let all: Vec<_> = (0..KEYS.len()).map(|key| (*bucket, key)).collect();
                self.versions.retain(|known, _| !all.contains(known));
                self.writes.insert(self.next, all);
                Some(Entry::Began(WriteId(self.next), Reach::Bucket(BUCKETS[*bucket].into())))
            }
            Step::End { which, is_unknown, is_lost } => self.end(*which, *is_unknown, *is_lost),
            Step::Gone(of) => {
                self.versions.remove(of);
                Some(Entry::Gone(hash(*of)))
            }
            Step::Purge(of) => {
                self.versions.remove(of);
                Some(Entry::Purged(Era(self.next), Purged::Key(hash(*of))))
            }
            Step::Start => {
                self.lose_writes();
                Some(Entry::Started)
            }
        }
    }

    fn end(&mut self, which: usize, is_unknown: bool, is_lost: bool) -> Option<Entry<'static>> {
        let open: Vec<u64> = self.writes.keys().copied().collect();
        let write = *open.get(which % open.len().max(1))?;
        let of = self.writes.remove(&write).unwrap_or_default();
        if is_unknown {
            self.held.extend(&of);
        }
        if is_lost {
            self.unsure.extend(&of);
            return None;
        }
        let end = if is_unknown { End::Unknown } else { End::Settled };
        Some(Entry::Ended(WriteId(write), end))
    }
}

fn holds(holds: &Holds, of: (usize, usize)) -> bool {
    holds.all || holds.buckets.contains(BUCKETS[of.0]) || holds.keys.contains(&hash(of).0)
}

proptest! {
    #[test]
    fn the_last_word_on_each_key_counts_and_no_write_is_taken_for_ended(
        steps in proptest::collection::vec(step(), 0..60),
        keys_max in prop_oneof![Just(1_000_u64), 1..4_u64],
    ) {
        let mut reference = Reference::default();
        let mut outline = Outline::new(keys_max * KEY_BYTES_MAX);
        let mut entries = Vec::new();
        for step in &steps {
            if let Some(entry) = reference.apply(step) {
                outline.pass(ENTRY_BYTES, entry.clone(), &GEOMETRY);
                prop_assert!(outline.keys.len() as u64 <= keys_max);
                entries.push(entry);
            }
        }
        reference.lose_writes();
        let found = outline.end();
        for of in (0..BUCKETS.len()).flat_map(|bucket| (0..KEYS.len()).map(move |key| (bucket, key))) {
            let believed: Vec<u64> = (0..)
                .zip(&entries)
                .filter_map(|(place, entry)| match entry {
                    Entry::Learnt(learnt) if learnt.name() == name(of) => outline
                        .believes(place, name(of), hash(of))
                        .then_some(learnt.length),
                    _ => None,
                })
                .collect();
            let expected: Vec<u64> = reference.versions.get(&of).copied().into_iter().collect();
            // Where there is not enough memory, less is believed.
            let is_forgotten = keys_max < 6 && believed.is_empty();
            prop_assert!(is_forgotten || believed == expected, "{:?} after {:?}", of, &entries);
            prop_assert!(!reference.held.contains(&of) || holds(&found, of), "{:?} {:?}", of, &entries);
        }
    }
}

fn outline_of(entries: &[Entry<'_>]) -> Outline {
    let mut outline = Outline::new(1 << 20);
    entries.iter().for_each(|entry| outline.pass(ENTRY_BYTES, entry.clone(), &GEOMETRY));
    outline
}

#[test]
fn of_more_keys_than_it_may_keep_the_newest_are_believed() {
    let keys_max = 1000;
    let mut outline = Outline::new(keys_max * KEY_BYTES_MAX);
    let all: Vec<String> = (0..20_000).map(|number| format!("t/{number}.parquet")).collect();
    for key in &all {
        let Entry::Learnt(any) = learnt(A, 1) else { unreachable!("it was just made") };
        outline.pass(ENTRY_BYTES, Entry::Learnt(Learnt { key, ..any }), &GEOMETRY);
        assert!(outline.keys.len() as u64 <= keys_max);
    }
    let is_believed = |(place, key): (Place, &String)| {
        let name = NameRef { bucket: BUCKETS[0], key };
        outline.believes(place, name, GEOMETRY.home_hash(name))
    };
    let believed: Vec<bool> = (0..).zip(&all).map(is_believed).collect();
    let first = believed.iter().position(|is_believed| *is_believed).expect("some are");
    assert!(believed[first..].iter().all(|is_believed| *is_believed), "the newest, all of them");
    assert!((20_000 - first) as u64 >= keys_max / 2 - 20_000 / PARTS, "{first}");
    // What has room: from which place on no more than so many bytes come.
    let (bytes, beside) = (100 * (ENTRY_BYTES as u64 + 300), 300);
    let first = outline.first_with_room(bytes, beside);
    let kept = 20_000 - u64::from(first);
    assert!(kept <= 100 && kept + 20_000 / PARTS + 1 >= 100, "{kept}");
    assert!(outline.first_with_room(1 << 30, beside) <= 20_000 - keys_max as Place / 2);
}

const A: (usize, usize) = (0, 0);
const B: (usize, usize) = (0, 1);

#[test]
fn a_write_that_was_open_at_the_end_is_held_and_one_that_has_ended_is_not() {
    let write = |number| Entry::Began(WriteId(number), keys(&[A]));
    let mut outline = outline_of(&[learnt(A, 1), write(1)]);
    assert!(!outline.believes(0, name(A), hash(A)));
    assert_eq!(outline.end().keys, [hash(A).0].into_iter().collect());
    let settled = Entry::Ended(WriteId(1), End::Settled);
    assert_eq!(outline_of(&[write(1), settled]).end(), Holds::default());
}

#[test]
fn a_mapping_says_that_the_writes_before_it_have_ended() {
    let write = Entry::Began(WriteId(1), keys(&[A, B]));
    let mut outline = outline_of(&[write, learnt(A, 1)]);
    assert!(outline.believes(1, name(A), hash(A)));
    assert_eq!(outline.end().keys, [hash(B).0].into_iter().collect());
}

#[test]
fn what_a_checkpoint_says_is_held_stays_held_until_it_is_learnt() {
    let held = || Entry::Held(keys(&[A, B]));
    let mut outline = outline_of(&[held(), Entry::Started, learnt(B, 1)]);
    assert_eq!(outline.end().keys, [hash(A).0].into_iter().collect());
    let mut outline = outline_of(&[Entry::Held(Reach::All)]);
    assert!(outline.end().all);
}

#[test]
fn an_id_is_of_its_own_run_of_the_node() {
    let (began, ended) =
        (Entry::Began(WriteId(1), keys(&[A])), Entry::Ended(WriteId(1), End::Settled));
    let other = Entry::Began(WriteId(1), keys(&[B]));
    let mut outline = outline_of(&[began, Entry::Started, other, ended]);
    assert_eq!(outline.end().keys, [hash(A).0].into_iter().collect());
}

#[test]
fn what_has_happened_since_overtakes_what_has_passed() {
    let mut outline = outline_of(&[learnt(A, 1), learnt(B, 2)]);
    assert!(outline.believes_any(hash(A)));
    outline.overtake(hash(A));
    assert!(!outline.believes(0, name(A), hash(A)) && outline.believes(1, name(B), hash(B)));
    outline.overtake_bucket("lake");
    assert!(!outline.believes(1, name(B), hash(B)));
}
