//! The rules by which a node reads, without the node: where a block lies, what is asked of the origin for a read, and
//! what is fetched ahead of it. For who plays reads through stores of his own, and is to come to what a node does.

pub use crate::fill::{has_room_ahead, read_kind};
pub use crate::get::BLOCKS_AHEAD_MAX;
pub use crate::identity::{Digest16, Geometry, HomeHash, NameRef, block_id};
pub use crate::open::{Arrival, SequentialReads, first_question};
pub use crate::purge::Era;
