//! One link's contest: the origin and the node before it, written to in turns.

use std::io::Write;

use super::form::{Body, Form};
use super::uploader::write_all;
use super::{DIRECT, NILAS, SUITE, UploadOptions};
use crate::error::Result;
use crate::latency::Latencies;
use crate::link::Link;
use crate::processor::usable_cores;
use crate::record::RecordRow;
use crate::server::{Server, start_node, start_upload_origin};
use crate::statistic::{median, minimum, paired_ratio};
use crate::time_row::TimeRow;

/// The servers, and what is written.
#[derive(Debug)]
pub struct Contest<'a> {
    options: &'a UploadOptions,
    link: Link,
    content: Body,
    /// The origin first: the node stands before it.
    servers: [Server; 2],
    turns: usize,
}

/// One upload through one server.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    cpu_seconds: f64,
}

impl<'a> Contest<'a> {
    /// Starts the origin behind `link`, and the node.
    pub fn open(options: &'a UploadOptions, link: Link) -> Result<Contest<'a>> {
        let cores = usable_cores()?;
        let origin = start_upload_origin(link, false, &cores)?;
        let node = start_node(&options.node(origin.address, &cores))?;
        let content = Body::seeded(options.mebibytes << 20);
        Ok(Contest { options, link, content, servers: [origin, node], turns: 0 })
    }

    /// All rounds of one form: its rows.
    pub fn play(&mut self, form: Form, progress: &mut dyn Write) -> Result<Vec<TimeRow>> {
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..self.options.warm_up_rounds + self.options.rounds {
            for (place, samples) in samples.iter_mut().enumerate() {
                let sample = self.write(form, place)?;
                if round >= self.options.warm_up_rounds {
                    samples.push(sample);
                }
            }
        }
        let reference = seconds(&samples[0]);
        let row = |place: usize| self.sum_up(form, place, &samples[place], &reference);
        let rows: Vec<TimeRow> = (0..self.servers.len()).map(row).collect();
        for row in &rows {
            // A progress line that cannot be written is no reason to lose the run.
            let _ = writeln!(progress, "{}: {:.2} × direct", row.name(), row.time_ratio);
        }
        Ok(rows)
    }

    fn write(&mut self, form: Form, place: usize) -> Result<Sample> {
        self.turns += 1;
        let server = &self.servers[place];
        let key = format!("upload-{}.parquet", self.turns);
        let stages = form.prepare(server.address, &key, &self.content)?;
        let before = server.processor_time()?;
        let elapsed = write_all(server.address, &stages, form.connections())?;
        let cpu_ns = server.processor_time()?.since_ns(&before);
        // The origin's threads have ended by then, and are not seen.
        let cpu_seconds = if server.name == DIRECT { 0.0 } else { cpu_ns as f64 / 1e9 };
        Ok(Sample { seconds: elapsed.as_secs_f64(), cpu_seconds })
    }

    fn sum_up(&self, form: Form, place: usize, samples: &[Sample], reference: &[f64]) -> TimeRow {
        let server = &self.servers[place];
        let seconds = seconds(samples);
        let mut latencies = Latencies::new();
        for second in &seconds {
            latencies.record(std::time::Duration::from_secs_f64(*second));
        }
        let cpu: Vec<f64> = samples.iter().map(|sample| sample.cpu_seconds).collect();
        TimeRow {
            suite: SUITE.to_owned(),
            server: if place == 0 { DIRECT } else { NILAS }.to_owned(),
            version: server.version.clone(),
            link: self.link.name(),
            workload: form.name().to_owned(),
            connections: form.connections(),
            rounds: samples.len(),
            bytes: self.content.as_slice().len() as u64,
            requests: 1,
            seconds_min: minimum(&seconds).unwrap_or(0.0),
            seconds_median: median(&seconds).unwrap_or(0.0),
            p50_ms: latencies.quantile_us(0.5) / 1000.0,
            p99_ms: latencies.quantile_us(0.99) / 1000.0,
            cpu_seconds: median(&cpu).unwrap_or(0.0),
            origin_bytes_ratio: 1.0,
            reference: DIRECT.to_owned(),
            time_ratio: paired_ratio(&seconds, reference).unwrap_or(0.0),
        }
    }
}

fn seconds(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.seconds).collect()
}
