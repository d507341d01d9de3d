//! Memory: the budgets and the fixed overhead against what the control group and the machine
//! allow. More than the hard limit is refused, because the kernel would kill the node under load;
//! more than is free now is a warning.

use std::path::{Path, PathBuf};

use nilas_base::MIB;
use nilas_shards::Finding;

use super::{fatal, warning};
use crate::config::{CacheConfig, LimitsConfig, size_text};

/// What the process needs beside the budgets: code, stacks, control runtime, origin connections,
/// and what the allocator keeps. Measured as `docs/OPERATIONS.md` tells.
const PROCESS_OVERHEAD_BYTES: u64 = 48 * MIB;
/// What a shard needs beside its share of the budgets: its ring's buffers and its pools.
const SHARD_OVERHEAD_BYTES: u64 = 8 * MIB;
/// What a connection needs: its task, and a head that has not ended.
const CONNECTION_OVERHEAD_BYTES: u64 = 20 << 10;
/// Control groups between this one and the root.
const GROUP_DEPTH_MAX: usize = 64;

/// Compares the budgets with this machine.
pub(super) fn probe(
    cache: &CacheConfig,
    limits: &LimitsConfig,
    tables_bytes: u64,
    shard_count: u16,
) -> Option<Finding> {
    let needed = needed_bytes(cache, limits, shard_count).saturating_add(tables_bytes);
    judge(needed, &Memory::of(Path::new("/")))
}

fn needed_bytes(cache: &CacheConfig, limits: &LimitsConfig, shard_count: u16) -> u64 {
    let budgets =
        [cache.data_bytes, cache.metadata_bytes, cache.mapping_bytes, limits.buffer_bytes];
    let connections = limits.connections_per_shard_max as u64;
    let shard_bytes = SHARD_OVERHEAD_BYTES + connections * CONNECTION_OVERHEAD_BYTES;
    let overhead = PROCESS_OVERHEAD_BYTES + shard_bytes * u64::from(shard_count);
    budgets.into_iter().fold(overhead, u64::saturating_add)
}

/// What there is; `None` where the kernel does not say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Memory {
    total_bytes: Option<u64>,
    available_bytes: Option<u64>,
    /// The least limit of this control group and those above it.
    group_limit_bytes: Option<u64>,
}

impl Memory {
    /// What the files below `root` say.
    fn of(root: &Path) -> Memory {
        let facts = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        Memory {
            total_bytes: meminfo_bytes(&facts, "MemTotal:"),
            available_bytes: meminfo_bytes(&facts, "MemAvailable:"),
            group_limit_bytes: group_limit_bytes(root),
        }
    }
}

fn judge(needed_bytes: u64, memory: &Memory) -> Option<Finding> {
    let needed = rounded(needed_bytes);
    let sum = "cache.data_bytes, cache.metadata_bytes, cache.mapping_bytes, limits.buffer_bytes, \
               with [[catalog]] tables.memory_bytes and tables.footer_bytes, and the node's own overhead (limits.connections_per_shard_max counts)";
    let lower = "Lower cache.data_bytes or cache.metadata_bytes";
    if let Some(limit) = memory.group_limit_bytes.filter(|limit| needed_bytes > *limit) {
        return Some(fatal(
            format!("{sum} come to {needed}, but the control group allows {}.", rounded(limit)),
            "The kernel would kill the node once its cache fills.",
            format!("{lower}, or raise the container's memory limit."),
        ));
    }
    if let Some(total) = memory.total_bytes.filter(|total| needed_bytes > *total) {
        return Some(fatal(
            format!("{sum} come to {needed}, but the machine has {}.", rounded(total)),
            "The kernel would kill the node once its cache fills.",
            format!("{lower}."),
        ));
    }
    let available = memory.available_bytes.filter(|available| needed_bytes > *available)?;
    Some(warning(
        format!("{sum} come to {needed}, but {} are free now.", rounded(available)),
        "The machine may swap or kill a process once the cache fills.",
        format!("{lower}, or stop what else runs here."),
    ))
}

/// Whole MiB: enough to choose a budget by.
fn rounded(bytes: u64) -> String {
    size_text(bytes.div_ceil(MIB).saturating_mul(MIB))
}

fn meminfo_bytes(facts: &str, name: &str) -> Option<u64> {
    let line = facts.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Both versions of control groups are looked at, each from this process's group up to the root
/// of what is mounted; in a container that is the container's own group.
fn group_limit_bytes(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => least_limit(&root.join("sys/fs/cgroup"), group, "memory.max"),
            "memory" => {
                least_limit(&root.join("sys/fs/cgroup/memory"), group, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min()
}

fn least_limit(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let group: PathBuf = mount.join(group.trim_start_matches('/'));
    group
        .ancestors()
        .take(GROUP_DEPTH_MAX)
        .take_while(|directory| directory.starts_with(mount))
        // Without a limit version 2 says `max`, version 1 a number that no machine has.
        .filter_map(|directory| std::fs::read_to_string(directory.join(file)).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilas_base::GIB;
    use nilas_shards::Severity;

    fn machine(files: &[(&str, &str)]) -> Memory {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            std::fs::write(path, text).expect("it can be written");
        }
        Memory::of(root.path())
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let memory = machine(&[
            ("proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   4194304 kB\n"),
            ("proc/self/cgroup", "0::/pod/node\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pod/node/memory.max", "max\n"),
        ]);
        let expected = Memory {
            total_bytes: Some(8 * GIB),
            available_bytes: Some(4 * GIB),
            group_limit_bytes: Some(GIB),
        };
        assert_eq!(memory, expected);
    }

    #[test]
    fn version_one_control_groups_are_read_in_and_out_of_a_container() {
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        let memory = machine(&[("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n"), limit]);
        assert_eq!(memory.group_limit_bytes, Some(GIB / 2));
    }

    #[test]
    fn a_machine_that_says_nothing_stops_nobody() {
        assert_eq!(machine(&[]), Memory::default());
        assert_eq!(judge(u64::MAX, &Memory::default()), None);
    }

    #[test]
    fn budgets_beyond_a_limit_are_refused_and_beyond_the_free_memory_warned_of() {
        let memory = |group_limit_bytes| Memory {
            total_bytes: Some(8 * GIB),
            available_bytes: Some(2 * GIB),
            group_limit_bytes,
        };
        let cases = [
            (GIB, None, None),
            (3 * GIB, None, Some((Severity::Warning, "2GiB are free now"))),
            (9 * GIB, None, Some((Severity::Fatal, "the machine has 8GiB"))),
            (2 * GIB, Some(GIB), Some((Severity::Fatal, "the control group allows 1GiB"))),
            (u64::MAX / 2, Some(GIB), Some((Severity::Fatal, "the control group allows 1GiB"))),
        ];
        for (needed, group_limit, expected) in cases {
            let finding = judge(needed, &memory(group_limit));
            assert_eq!(
                finding.as_ref().map(|it| it.severity),
                expected.map(|(severity, _)| severity),
                "{needed} {group_limit:?}"
            );
            if let (Some(finding), Some((_, part))) = (finding, expected) {
                assert!(finding.cause.contains(part), "{finding}");
                assert!(finding.cure.contains("cache.data_bytes"), "{finding}");
            }
        }
    }
}
