//! Counting a body where it is read.

use std::fmt;

/// Told of a body's bytes as they are read, and of its breaking off. Dropped when the body ends.
pub(super) trait BodyMeter: fmt::Debug + Send {
    /// So many bytes were read.
    fn passed(&mut self, bytes: usize);
    /// The body broke off.
    fn failed(&mut self);
}
