//! The mistakes that can be planted in a simulated node: those of its stories, and those of its store on a device.

use nilas_engine::mutation::Mutation;
#[cfg(feature = "mutations")]
use nilas_shards::mutation::DiskMutation;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Of the node's stories.
    Node(Mutation),
    /// Of what it keeps on its cache device.
    #[cfg(feature = "mutations")]
    Disk(DiskMutation),
}

impl Mistake {
    /// All of them.
    pub fn all() -> Vec<Mistake> {
        #[cfg_attr(not(feature = "mutations"), expect(unused_mut, reason = "more are compiled in"))]
        let mut all: Vec<Mistake> = Mutation::ALL.map(Mistake::Node).to_vec();
        #[cfg(feature = "mutations")]
        all.extend(DiskMutation::ALL.map(Mistake::Disk));
        all
    }

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Mistake::Node(mutation) => mutation.name(),
            #[cfg(feature = "mutations")]
            Mistake::Disk(DiskMutation::ChecksumUnread) => "checksum-unread",
            #[cfg(feature = "mutations")]
            Mistake::Disk(DiskMutation::ChecksumUnbound) => "checksum-unbound",
            #[cfg(feature = "mutations")]
            Mistake::Disk(DiskMutation::SummaryUnchecked) => "summary-unchecked",
            #[cfg(feature = "mutations")]
            Mistake::Disk(DiskMutation::SegmentReusedEarly) => "segment-reused-early",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Mistake> {
        Mistake::all().into_iter().find(|mistake| mistake.name() == name)
    }
}

/// Plants a mistake on this thread, or none.
#[cfg(feature = "mutations")]
pub fn plant(mistake: Option<Mistake>) {
    let (node, disk) = match mistake {
        None => (None, None),
        Some(Mistake::Node(mutation)) => (Some(mutation), None),
        Some(Mistake::Disk(mutation)) => (None, Some(mutation)),
    };
    nilas_engine::mutation::plant(node);
    DiskMutation::plant(disk);
}

/// Plants none.
#[cfg(not(feature = "mutations"))]
pub fn plant(mistake: Option<Mistake>) {
    assert!(mistake.is_none(), "mistakes are compiled in with the feature `mutations` only");
}
