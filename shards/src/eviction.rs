//! Eviction: which block leaves first.
