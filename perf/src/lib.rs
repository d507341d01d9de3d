//! The performance yard: a load generator, servers to compare, dated records and their check.
//! A figure is only ever a ratio between servers of the same run. Nothing depends on this crate.

pub mod answer;
pub mod bake_off;
pub mod cold_read;
mod connection;
pub mod disk_read;
pub mod error;
pub mod latency;
pub mod link;
pub mod load;
pub mod machine;
pub mod mapper;
pub mod matrix;
pub mod object;
pub mod processor;
pub mod record;
pub mod recovery;
pub mod regression;
pub mod replay;
pub mod request;
pub mod server;
pub mod statistic;
pub mod suite;
pub mod table;
pub mod tables;
pub mod time_row;
pub mod upload;
pub mod warm_get;
