//! What all suites share: the options of a run, the cores it is laid out on, its objects.
//! The suites themselves are `warm_get` and `bake_off`.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::matrix::{MatrixPlan, SizeClass};
use crate::object::{Object, make_objects};
use crate::processor::usable_cores;
use crate::record::Row;

/// Options of every suite.
#[derive(Clone, Debug, clap::Args)]
pub struct RunOptions {
    /// Object sizes in bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [4096, 65_536, 1_048_576])]
    pub sizes: Vec<usize>,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub connections: Vec<usize>,
    /// Bursts a server and cell.
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// The measured part of a burst.
    #[arg(long, default_value_t = 1000)]
    pub burst_ms: u64,
    /// The part of a burst before it.
    #[arg(long, default_value_t = 200)]
    pub warm_up_ms: u64,
    /// Objects of each size, asked for in turn.
    #[arg(long, default_value_t = 16)]
    pub objects: usize,
    /// Throw bodies outside the sample away in the kernel: a cheaper load than any real client.
    #[arg(long)]
    pub discard: bool,
    /// The load's core; the last one by default. Set it to let servers and load share a core.
    #[arg(long)]
    pub load_core: Option<usize>,
}

/// What a suite gives back.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The suite's name.
    pub suite: &'static str,
    /// The server whose processor time is 1.
    pub reference: &'static str,
    /// Facts of the run.
    pub facts: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Where servers and load run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The servers' cores.
    pub server_cores: Vec<usize>,
    /// The load's core.
    pub load_core: usize,
}

impl RunOptions {
    /// Lays out servers that take `server_cores_count` cores, on the cores of this machine.
    pub fn layout(&self, server_cores_count: usize) -> Result<Layout> {
        lay_out(&usable_cores()?, server_cores_count, self.load_core)
    }

    /// The objects of every size.
    pub fn size_classes(&self) -> Vec<SizeClass> {
        let class = |size_bytes: &usize| SizeClass {
            size_bytes: *size_bytes,
            objects: make_objects(*size_bytes, self.objects),
        };
        self.sizes.iter().map(class).collect()
    }

    /// The plan of `suite` by these options.
    pub fn plan(
        &self,
        suite: &'static str,
        reference: &'static str,
        layout: &Layout,
    ) -> MatrixPlan {
        MatrixPlan {
            suite,
            reference,
            connections: self.connections.clone(),
            rounds: self.rounds,
            warm_up: Duration::from_millis(self.warm_up_ms),
            measured: Duration::from_millis(self.burst_ms),
            discard: self.discard,
            load_core: layout.load_core,
        }
    }

    /// Facts of a run by these options.
    pub fn facts(&self, layout: &Layout) -> Vec<(String, String)> {
        [
            ("server_cores", format!("{:?}", layout.server_cores)),
            ("load_core", layout.load_core.to_string()),
            ("burst_ms", self.burst_ms.to_string()),
            ("warm_up_ms", self.warm_up_ms.to_string()),
            ("bodies", if self.discard { "discarded" } else { "copied" }.to_owned()),
            ("objects_of_each_size", self.objects.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// All objects of `classes`, for the servers' folder.
pub fn all_objects(classes: &[SizeClass]) -> Vec<Object> {
    classes.iter().flat_map(|class| class.objects.iter().cloned()).collect()
}

/// Lays out servers that take so many cores, and the load on the last one.
pub fn lay_out_on_this_machine(server_cores_count: usize) -> Result<Layout> {
    lay_out(&usable_cores()?, server_cores_count, None)
}

fn lay_out(usable: &[usize], count: usize, load_core: Option<usize>) -> Result<Layout> {
    let wanted = count + usize::from(load_core.is_none());
    if count == 0 || usable.len() < wanted {
        return Err(Error::Failed(format!(
            "{count} server cores and one for the load do not fit on {} usable cores: \
             take fewer shards, or let them share with --load-core",
            usable.len()
        )));
    }
    let last = *usable.last().expect("at least one core is wanted");
    let load_core = load_core.unwrap_or(last);
    Ok(Layout { server_cores: usable[..count].to_vec(), load_core })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_takes_the_last_core_and_servers_the_first() {
        let layout = lay_out(&[0, 1, 2], 1, None).expect("fits");
        assert_eq!(layout, Layout { server_cores: vec![0], load_core: 2 });
    }

    #[test]
    fn sharing_a_core_must_be_asked_for() {
        assert!(lay_out(&[0, 1], 2, None).is_err());
        let layout = lay_out(&[0, 1], 2, Some(1)).expect("asked for");
        assert_eq!(layout, Layout { server_cores: vec![0, 1], load_core: 1 });
        assert!(lay_out(&[0], 0, None).is_err());
    }
}
