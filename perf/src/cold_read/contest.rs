//! One link's contest: the origin, the node before it, and where the link has no latency nginx's
//! slice cache before it, read in turns. The node runs on and meets names it has not seen; the slice
//! cache begins anew each time, so that it never has to make room.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use nilas_base::Clock;

use super::ground::{Ground, Turn};
use super::origin;

use super::reader::{Prepared, Reading, read_all};
use super::workload::{Ask, Form, Workload};
use super::{ColdReadOptions, DIRECT, NILAS, SLICE, SUITE};
use crate::error::Result;
use crate::latency::Latencies;
use crate::link::Link;
use crate::processor::usable_cores;
use crate::request::{Access, range_request};
use crate::server::{NodeOrigin, NodePlan, Server, start_node, start_origin, start_slice_cache};
use crate::statistic::{median, minimum, paired_ratio};
use crate::time_row::TimeRow;

/// The servers before one origin, and what has been seen of them.
#[derive(Debug)]
pub struct Contest<'a> {
    link: Link,
    ground: &'a Ground,
    memory_folder: PathBuf,
    cores: Vec<usize>,
    origin: Server,
    node: Server,
    contenders: Vec<Contender>,
    turns: usize,
}

#[derive(Debug)]
struct Contender {
    name: &'static str,
    version: String,
    samples: Vec<Sample>,
}

/// One reading of a workload through one server.
#[derive(Debug)]
struct Sample {
    reading: Reading,
    cpu_seconds: f64,
    origin_bytes_ratio: f64,
}

impl<'a> Contest<'a> {
    /// Starts the origin behind `link`, and the node.
    pub fn open(options: &ColdReadOptions, link: Link, ground: &'a Ground) -> Result<Contest<'a>> {
        let cores = usable_cores()?;
        let origin = start_origin(ground.root(), link, &cores)?;
        let node = start_node(&NodePlan {
            binary: options.server_binary.clone(),
            origin: NodeOrigin::S3(origin.address),
            cores: cores.clone(),
            shards: options.shards,
            ring: options.ring.clone(),
            data_bytes: options.data_bytes.clone(),
            flags: Vec::new(),
            config: String::new(),
        })?;
        let names =
            if link.latency_ms == 0 { &[DIRECT, NILAS, SLICE][..] } else { &[DIRECT, NILAS] };
        let contender =
            |name: &&'static str| Contender { name, version: String::new(), samples: Vec::new() };
        let contenders = names.iter().map(contender).collect();
        let memory_folder = options.memory_folder.clone();
        Ok(Contest { link, ground, memory_folder, cores, origin, node, contenders, turns: 0 })
    }

    /// One round: each server reads the workload once.
    pub fn play(
        &mut self,
        workload: &Workload,
        is_kept: bool,
        progress: &mut dyn Write,
    ) -> Result<()> {
        for place in 0..self.contenders.len() {
            self.turns += 1;
            let turn = self.ground.turn(workload, self.turns)?;
            let slice = match self.contenders[place].name {
                SLICE => {
                    Some(start_slice_cache(self.origin.address, &self.memory_folder, &self.cores)?)
                }
                _ => None,
            };
            let server = match self.contenders[place].name {
                DIRECT => &self.origin,
                _ => slice.as_ref().unwrap_or(&self.node),
            };
            let sample = self.read(server, workload, &turn)?;
            let (seconds, name) = (sample.reading.elapsed.as_secs_f64(), server.name);
            // A progress line that cannot be written is no reason to lose the run.
            let _ = writeln!(progress, "  {name}: {seconds:.3} s");
            let version = server.version.clone();
            let contender = &mut self.contenders[place];
            contender.version = version;
            if is_kept {
                contender.samples.push(sample);
            }
        }
        Ok(())
    }

    fn read(&self, server: &Server, workload: &Workload, turn: &Turn<'_>) -> Result<Sample> {
        let stages = prepare((&server.access, server.address), workload, turn)?;
        let sent_before = origin::sent_bytes(self.origin.address)?;
        let time_before = server.processor_time()?;
        let reading = read_all(server.address, &stages, workload.connections)?;
        // The origin's threads have ended by then, and are not seen.
        let cpu_ns = match server.name {
            DIRECT => 0,
            _ => server.processor_time()?.since_ns(&time_before),
        };
        let sent = origin::sent_bytes(self.origin.address)?.saturating_sub(sent_before);
        Ok(Sample {
            reading,
            cpu_seconds: cpu_ns as f64 / 1e9,
            origin_bytes_ratio: sent as f64 / workload.bytes() as f64,
        })
    }

    /// The rows of what has been kept of `workload`.
    pub fn take_rows(&mut self, workload: &Workload) -> Vec<TimeRow> {
        let reference = if self.link.latency_ms == 0 { SLICE } else { DIRECT };
        let taken: Vec<(&str, String, Vec<Sample>)> = self
            .contenders
            .iter_mut()
            .map(|it| (it.name, it.version.clone(), std::mem::take(&mut it.samples)))
            .collect();
        let of_reference = taken.iter().find(|(name, ..)| *name == reference);
        let reference_seconds = seconds(&of_reference.expect("the reference takes part").2);
        let row = |(name, version, samples): &(&str, String, Vec<Sample>)| TimeRow {
            suite: SUITE.to_owned(),
            server: (*name).to_owned(),
            version: version.clone(),
            link: self.link.name(),
            reference: reference.to_owned(),
            ..sum_up(workload, samples, &reference_seconds)
        };
        taken.iter().map(row).collect()
    }
}

/// The requests as they are sent to a server, signed where it wants it.
fn prepare(
    (access, address): (&Access, SocketAddr),
    workload: &Workload,
    turn: &Turn<'_>,
) -> Result<Vec<Vec<Prepared>>> {
    let wall = Clock::system().wall();
    let prepare_one = |ask: &Ask| {
        let Ask { file, form, range } = *ask;
        let (status, header) = match form {
            Form::Whole => (200, None),
            Form::Last => (206, Some(format!("bytes=-{}", range.len()))),
            Form::FromTo => (206, Some(format!("bytes={}-{}", range.start, range.end - 1))),
        };
        let path = turn.path(file);
        let place = (address, path.as_str());
        let request = range_request(access, place, header.as_deref(), wall)?;
        let content = workload.files[file].clone();
        Ok(Prepared { name: path, request, status, range, content })
    };
    let prepare_stage = |stage: &Vec<Ask>| stage.iter().map(prepare_one).collect();
    workload.stages.iter().map(prepare_stage).collect()
}

fn seconds(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.reading.elapsed.as_secs_f64()).collect()
}

/// A row whose names are still empty.
fn sum_up(workload: &Workload, samples: &[Sample], reference_seconds: &[f64]) -> TimeRow {
    let mut latencies = Latencies::new();
    samples.iter().for_each(|sample| latencies.add(&sample.reading.latencies));
    let seconds = seconds(samples);
    let of_each = |figure: fn(&Sample) -> f64| samples.iter().map(figure).collect::<Vec<f64>>();
    TimeRow {
        suite: String::new(),
        server: String::new(),
        version: String::new(),
        link: String::new(),
        workload: workload.name.to_owned(),
        connections: workload.connections,
        rounds: samples.len(),
        bytes: workload.bytes(),
        requests: workload.requests(),
        seconds_min: minimum(&seconds).unwrap_or(0.0),
        seconds_median: median(&seconds).unwrap_or(0.0),
        p50_ms: latencies.quantile_us(0.5) / 1000.0,
        p99_ms: latencies.quantile_us(0.99) / 1000.0,
        cpu_seconds: median(&of_each(|sample| sample.cpu_seconds)).unwrap_or(0.0),
        origin_bytes_ratio: median(&of_each(|sample| sample.origin_bytes_ratio)).unwrap_or(0.0),
        reference: String::new(),
        time_ratio: paired_ratio(&seconds, reference_seconds).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    const LATENCY_MS: u64 = 20;

    /// An origin in a thread that ends with the tests.
    fn origin_on(root: &Path, connection_rate: Option<u64>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (root, link) = (root.to_owned(), Link { latency_ms: LATENCY_MS, connection_rate });
        std::thread::spawn(move || origin::serve(&listener, &root, link));
        address
    }

    fn read(workload: &Workload, rate: Option<u64>, damage: &str) -> Result<(Reading, u64)> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ground = Ground::lay(folder.path(), std::slice::from_ref(workload))?;
        let address = origin_on(ground.root(), rate);
        let turn = ground.turn(workload, 0)?;
        if !damage.is_empty() {
            let path = ground.root().join(turn.path(0).trim_start_matches('/'));
            let mut bytes = std::fs::read(&path).expect("a file of the ground");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            bytes.truncate(bytes.len() - usize::from(damage == "short"));
            std::fs::write(&path, bytes).expect("a file of the ground");
        }
        let stages = prepare((&Access::Open, address), workload, &turn)?;
        let reading = read_all(address, &stages, workload.connections)?;
        Ok((reading, origin::sent_bytes(address)?))
    }

    #[test]
    fn the_origin_sends_what_is_asked_for_and_each_answer_late() {
        let workload = Workload::ranges(8 << 20, 4);
        let (reading, sent_bytes) = read(&workload, None, "").expect("an honest origin");
        assert_eq!(sent_bytes, workload.bytes());
        assert_eq!(reading.latencies.count(), workload.requests() as u64);
        assert!(reading.latencies.quantile_us(0.0) >= LATENCY_MS as f64 * 999.0);
        assert!(reading.elapsed >= Duration::from_millis(LATENCY_MS * 3), "a stage after another");
    }

    #[test]
    fn a_connection_is_no_faster_than_its_link() {
        let (reading, _) = read(&Workload::object(4 << 20), Some(20_000_000), "").expect("slow");
        assert!(reading.elapsed >= Duration::from_millis(190), "{:?}", reading.elapsed);
    }

    #[test]
    fn wrong_bytes_and_a_wrong_length_end_the_reading() {
        for damage in ["wrong", "short"] {
            let outcome = read(&Workload::object(10), None, damage);
            assert!(matches!(outcome, Err(Error::Answer(_))), "{damage}");
        }
    }

    fn sample(milliseconds: u64) -> Sample {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(30));
        let elapsed = Duration::from_millis(milliseconds);
        let reading = Reading { elapsed, latencies };
        Sample { reading, cpu_seconds: 0.5, origin_bytes_ratio: 1.0 }
    }

    #[test]
    fn a_row_sums_up_its_rounds_beside_the_reference() {
        let workload = Workload::object(1 << 20);
        let samples = [sample(1000), sample(3000), sample(1100)];
        let row = sum_up(&workload, &samples, &[2.0, 3.0, 1.0]);
        assert_eq!((row.rounds, row.requests, row.bytes), (3, 1, 1 << 20));
        assert_eq!((row.seconds_min, row.seconds_median, row.time_ratio), (1.0, 1.1, 1.0));
        assert!((row.p50_ms - 30.0).abs() < 0.1);
    }
}
