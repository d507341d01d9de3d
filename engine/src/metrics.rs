//! metrics: in the making.
