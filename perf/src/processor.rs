//! Processor time and placement: which cores a server or the load may use, and what a process
//! has used so far, read from `/proc/<pid>/task/*/schedstat` (nanoseconds, not clock ticks).

use std::fs;
use std::process::{Child, Command};

use nilas_base::{HashMap, KIB};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Doing, Error, Result};

/// Child processes read of one process; nginx with one worker has one.
const CHILDREN_MAX: usize = 64;

/// The cores this process may use, ascending.
pub fn usable_cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).doing("asking which cores are usable")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Moves the calling thread to `cores`.
pub fn pin_to(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set).doing(format!("moving a thread to cores {cores:?}"))
}

/// Starts `command` on `cores`. A thread is moved there to start it, because a child inherits
/// the cores of the thread that made it, before it has threads of its own.
pub fn spawn_on(cores: &[usize], command: &mut Command) -> Result<Child> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                pin_to(cores)?;
                let program = command.get_program().to_string_lossy().into_owned();
                command.spawn().doing(format!("starting {program}"))
            })
            .join()
            .expect("starting a child does not panic")
    })
}

/// Processor time by thread, nanoseconds: one moment of one server.
#[derive(Clone, Debug, Default)]
pub struct ProcessorTime(HashMap<u32, u64>);

impl ProcessorTime {
    /// What `process` and its children have used by now.
    pub fn of_server(process: u32) -> Result<ProcessorTime> {
        let mut times = ProcessorTime::default();
        times.add_process(process)?;
        for child in children(process)? {
            // A child may end between being listed and being read; the server itself may not.
            let _ = times.add_process(child);
        }
        Ok(times)
    }

    /// What the calling thread has used by now.
    pub fn of_this_thread() -> Result<u64> {
        let time = nilas_shards::processor_time().doing("asking for a thread's processor time")?;
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds used since `earlier`; a thread that ended in between is not counted.
    pub fn since_ns(&self, earlier: &ProcessorTime) -> u64 {
        self.0
            .iter()
            .map(|(thread, now)| now.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0)))
            .sum()
    }

    fn add_process(&mut self, process: u32) -> Result<()> {
        let threads = fs::read_dir(format!("/proc/{process}/task"))
            .doing(format!("listing the threads of process {process}"))?;
        for thread in threads.flatten() {
            let Some(number) = thread.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if let Ok(line) = fs::read_to_string(thread.path().join("schedstat")) {
                self.0.insert(number, parse_schedstat(&line)?);
            }
        }
        Ok(())
    }
}

/// The most memory that `process` has held, bytes: `VmHWM`.
pub fn resident_bytes_max(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(path).doing("reading a server's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let kibibytes = kibibytes.ok_or_else(|| Error::Failed("no VmHWM of a server".to_owned()))?;
    Ok(kibibytes * KIB)
}

/// Bytes that `process` has sent to disks: `write_bytes`, to the moment.
pub fn written_bytes(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/io");
    let counts = fs::read_to_string(path).doing("reading what a server has written")?;
    let line = counts.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    let bytes = line.and_then(|line| line.trim().parse().ok());
    bytes.ok_or_else(|| Error::Failed("no write_bytes of a server".to_owned()))
}

fn children(process: u32) -> Result<Vec<u32>> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))
        .doing(format!("listing the children of process {process}"))?;
    Ok(listed.split_whitespace().take(CHILDREN_MAX).filter_map(|pid| pid.parse().ok()).collect())
}

fn parse_schedstat(line: &str) -> Result<u64> {
    line.split_whitespace()
        .next()
        .and_then(|used_ns| used_ns.parse().ok())
        .ok_or_else(|| Error::Failed("this kernel keeps no schedstat: no time to compare".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_gives_its_first_number() {
        assert_eq!(parse_schedstat("123456 789 10\n").expect("well formed"), 123_456);
        assert!(parse_schedstat("\n").is_err());
    }

    #[test]
    fn time_is_counted_by_thread_and_new_threads_whole() {
        let earlier = ProcessorTime([(1, 100), (2, 50)].into_iter().collect());
        let later = ProcessorTime([(1, 160), (3, 7)].into_iter().collect());
        assert_eq!(later.since_ns(&earlier), 67);
    }

    #[test]
    fn this_process_is_seen_to_use_time() {
        let before = ProcessorTime::of_server(std::process::id()).expect("own threads are seen");
        let mut sum = 0_u64;
        for number in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        let after = ProcessorTime::of_server(std::process::id()).expect("own threads are seen");
        assert!(after.since_ns(&before) > 0);
    }

    #[test]
    fn a_child_starts_on_the_cores_it_is_given() {
        let core = usable_cores().expect("a mask")[0];
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(std::process::Stdio::piped());
        let child = spawn_on(&[core], &mut command).expect("cat is everywhere");
        let output = child.wait_with_output().expect("cat ends");
        let status = String::from_utf8(output.stdout).expect("text");
        let line = format!("Cpus_allowed_list:\t{core}\n");
        assert!(status.contains(&line), "{status}");
    }
}
