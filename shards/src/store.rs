//! The store: blocks, sectors and leases of one shard.
