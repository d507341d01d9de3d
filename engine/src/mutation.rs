//! Faults planted on purpose, each a mistake that the simulator must find: they keep the judge honest.
//! One is chosen at a time, for the calling thread, and none by default. Without the feature
//! `mutations` none can be chosen: every question is `false` when the node is compiled.

use std::rc::Rc;
use std::sync::Arc;

use crate::epoch::Moment;
use crate::identity::HomeHash;
use crate::mapping::Mapping;
use crate::shard::Shard;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A mapping's ETag is replaced before its length.
    MappingFieldByField,
    /// A key's epoch is not bumped before its write is relayed.
    NoBumpBeforeRelay,
    /// A key's epoch is not bumped before its write is answered.
    NoBumpAfterRelay,
    /// What the origin answered is installed although a write has passed since it was asked.
    EpochUnchecked,
    /// Each reader puts its own question to the origin.
    SingleflightDropped,
    /// Leased memory goes home when a send is submitted, not when it has completed.
    LeaseFreedAtSubmit,
    /// What fills bring that were begun before a purge is found after it.
    PurgeMissesFills,
    /// What is missing of a version is asked for without `If-Match`, and believed.
    ResumeUnmatched,
    /// What a write brought is believed to be of whatever version the origin names next.
    WrittenUnmatched,
    /// It is made durable that a write has begun when the origin has answered it, not before it is relayed.
    TombstoneAfterRelay,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 10] = [
        Mutation::MappingFieldByField,
        Mutation::NoBumpBeforeRelay,
        Mutation::NoBumpAfterRelay,
        Mutation::EpochUnchecked,
        Mutation::SingleflightDropped,
        Mutation::LeaseFreedAtSubmit,
        Mutation::PurgeMissesFills,
        Mutation::ResumeUnmatched,
        Mutation::WrittenUnmatched,
        Mutation::TombstoneAfterRelay,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Mutation::MappingFieldByField => "mapping-field-by-field",
            Mutation::NoBumpBeforeRelay => "no-bump-before-relay",
            Mutation::NoBumpAfterRelay => "no-bump-after-relay",
            Mutation::EpochUnchecked => "epoch-unchecked",
            Mutation::SingleflightDropped => "singleflight-dropped",
            Mutation::LeaseFreedAtSubmit => "lease-freed-at-submit",
            Mutation::PurgeMissesFills => "purge-misses-fills",
            Mutation::ResumeUnmatched => "resume-unmatched",
            Mutation::WrittenUnmatched => "written-unmatched",
            Mutation::TombstoneAfterRelay => "tombstone-after-relay",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Mutation> {
        Mutation::ALL.into_iter().find(|mutation| mutation.name() == name)
    }

    /// Whether it was chosen on this thread.
    #[cfg(feature = "mutations")]
    pub(crate) fn is_planted(self) -> bool {
        chosen::is(self)
    }

    /// Never: the feature is off.
    #[cfg(not(feature = "mutations"))]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}

#[cfg(feature = "mutations")]
pub use chosen::plant;
#[cfg(feature = "mutations")]
pub(crate) use torn::whole_or_torn;

/// What is installed of a new mapping: all of it.
#[cfg(not(feature = "mutations"))]
pub(crate) fn whole_or_torn(
    _: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    _: HomeHash,
    _: Moment,
) -> Arc<Mapping> {
    Arc::clone(mapping)
}

#[cfg(feature = "mutations")]
mod chosen {
    use std::cell::Cell;

    use super::Mutation;

    thread_local! {
        // A simulated node lives on one thread, so runs on several threads do not disturb each other.
        static CHOSEN: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Chooses for the calling thread.
    pub fn plant(mutation: Option<Mutation>) {
        CHOSEN.set(mutation);
        let frees_early = mutation == Some(Mutation::LeaseFreedAtSubmit);
        nilas_shards::mutation::free_leases_at_submit(frees_early);
    }

    pub(super) fn is(mutation: Mutation) -> bool {
        CHOSEN.get() == Some(mutation)
    }
}

#[cfg(feature = "mutations")]
mod torn {
    use std::time::Duration;

    use super::*;

    /// How long an ETag is ahead of its length.
    const GAP: Duration = Duration::from_millis(2);

    /// The new mapping; where that fault is planted and an older one is replaced, the new one with
    /// the old length, and the rest a little later.
    pub(crate) fn whole_or_torn(
        shard: &Rc<Shard>,
        mapping: &Arc<Mapping>,
        hash: HomeHash,
        moment: Moment,
    ) -> Arc<Mapping> {
        let name = mapping.name.as_ref().as_ref();
        let old = shard.mappings.borrow_mut().get(name).map(|entry| Arc::clone(&entry.mapping));
        let replaced = old.filter(|old| old.etag != mapping.etag && old.length != mapping.length);
        let Some(old) = replaced.filter(|_| Mutation::MappingFieldByField.is_planted()) else {
            return Arc::clone(mapping);
        };
        let (later, whole) = (Rc::clone(shard), Arc::clone(mapping));
        shard.spawn(async move {
            later.reactor.sleep(GAP).await;
            crate::open::install(&later, &whole, hash, moment);
        });
        Arc::new(torn(mapping, old.length))
    }

    fn torn(mapping: &Mapping, length: u64) -> Mapping {
        Mapping {
            name: Arc::clone(&mapping.name),
            home_hash: mapping.home_hash,
            version: mapping.version,
            era: mapping.era,
            etag: mapping.etag.clone(),
            length,
            last_modified: mapping.last_modified.clone(),
            headers: mapping.headers.clone(),
            checksums: mapping.checksums.clone(),
            class: mapping.class,
            tail_start: mapping.tail_start,
        }
    }
}
