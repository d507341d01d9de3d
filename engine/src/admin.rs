//! admin: in the making.
