//! origin: in the making.
