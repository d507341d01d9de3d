//! The mistakes that can be planted in a simulated node: those of its stories, and those of its store on a device.

use nilas_engine::mutation::Mutation;
#[cfg(feature = "mutations")]
use nilas_shards::mutation::{DiskMutation, JournalMutation};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Of the node's stories.
    Node(Mutation),
    /// Of what it keeps on its cache device.
    #[cfg(feature = "mutations")]
    Disk(DiskMutation),
    /// Of the journal of its mappings.
    #[cfg(feature = "mutations")]
    Journal(JournalMutation),
}

impl Mistake {
    /// All of them.
    pub fn all() -> Vec<Mistake> {
        #[cfg_attr(not(feature = "mutations"), expect(unused_mut, reason = "more are compiled in"))]
        let mut all: Vec<Mistake> = Mutation::ALL.map(Mistake::Node).to_vec();
        #[cfg(feature = "mutations")]
        {
            all.extend(DiskMutation::ALL.map(Mistake::Disk));
            all.extend(JournalMutation::ALL.map(Mistake::Journal));
        }
        all
    }

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Mistake::Node(mutation) => mutation.name(),
            #[cfg(feature = "mutations")]
            Mistake::Disk(mutation) => name_of_disk(mutation),
            #[cfg(feature = "mutations")]
            Mistake::Journal(mutation) => name_of_journal(mutation),
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Mistake> {
        Mistake::all().into_iter().find(|mistake| mistake.name() == name)
    }
}

#[cfg(feature = "mutations")]
fn name_of_disk(mutation: DiskMutation) -> &'static str {
    match mutation {
        DiskMutation::ChecksumUnread => "checksum-unread",
        DiskMutation::ChecksumUnbound => "checksum-unbound",
        DiskMutation::SummaryUnchecked => "summary-unchecked",
        DiskMutation::SegmentReusedEarly => "segment-reused-early",
    }
}

#[cfg(feature = "mutations")]
fn name_of_journal(mutation: JournalMutation) -> &'static str {
    match mutation {
        JournalMutation::LedgerBeforeSync => "ledger-before-sync",
        JournalMutation::GapsIgnored => "gaps-ignored",
        JournalMutation::ReusedBeforeLedger => "reused-before-ledger",
        JournalMutation::SequenceIgnored => "sequence-ignored",
    }
}

/// Plants a mistake on this thread, or none.
#[cfg(feature = "mutations")]
pub fn plant(mistake: Option<Mistake>) {
    let (mut node, mut disk, mut journal) = Default::default();
    match mistake {
        None => {}
        Some(Mistake::Node(mutation)) => node = Some(mutation),
        Some(Mistake::Disk(mutation)) => disk = Some(mutation),
        Some(Mistake::Journal(mutation)) => journal = Some(mutation),
    }
    nilas_engine::mutation::plant(node);
    DiskMutation::plant(disk);
    nilas_shards::mutation::plant_in_journal(journal);
}

/// Plants none.
#[cfg(not(feature = "mutations"))]
pub fn plant(mistake: Option<Mistake>) {
    assert!(mistake.is_none(), "mistakes are compiled in with the feature `mutations` only");
}
