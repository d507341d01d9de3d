//! The simulator: whole nodes, their clients, their network and their origin on one thread, from one
//! seed. The node's code is the one that ships; everything around it is played, faults included, and
//! every answer is held against a model of which bytes each version has and who may see it when.
//! Begin at `run` for one seed; at `judge` for what is right; at `weather` for what can go wrong.

pub mod client;
pub mod content;
pub mod device;
mod final_pass;
pub mod history;
pub mod judge;
pub mod key;
pub mod mistake;
pub mod node;
pub mod origin;
mod reader;
mod restart;
pub mod run;
pub mod season;
pub mod stage;
pub mod watch;
pub mod weather;
mod workload;
mod writer;
