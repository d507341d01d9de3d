//! The disks of a simulated world: what they promise, each of their faults, and what a crash may do.
//! Claims that hold on real disks too are in `reactor/disk`.

#[path = "simulated_disk/crash.rs"]
mod crash;
#[path = "simulated_disk/fault.rs"]
mod fault;
#[path = "simulated_disk/model.rs"]
mod model;
#[path = "simulated_disk/node.rs"]
mod node;
#[path = "simulated_disk/random.rs"]
mod random;
#[path = "simulated_disk/scene.rs"]
mod scene;
#[path = "simulated_disk/seed.rs"]
mod seed;
