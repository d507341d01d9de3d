//! config: in the making.
