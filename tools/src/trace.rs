//! `nilas trace record`: what clients read of a running node, written down as it comes, for `cargo perf replay`. Objects
//! are numbered in the order of their first reads, so that nothing of a trace says what they were.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::admin::NodeArguments;

#[cfg(test)]
mod tests;

/// How often the node is asked. It keeps 65,536 reads for us meanwhile.
const FETCH_INTERVAL: Duration = Duration::from_millis(250);

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct RecordArguments {
    /// The file to write; one that is there is refused.
    file: PathBuf,
    /// Seconds to record; until it is interrupted by default.
    #[arg(long)]
    seconds: Option<u64>,
    #[command(flatten)]
    node: NodeArguments,
}

impl RecordArguments {
    /// Records; what was recorded, in words.
    ///
    /// # Errors
    /// What the node or the file said, in words. What was recorded by then is in the file.
    pub async fn carry_out(self) -> Result<String, String> {
        let port = self.node.port()?;
        let name = self.file.display().to_string();
        let file = File::create_new(&self.file).map_err(|error| format!("{name}: {error}"))?;
        let mut recording = Recording::new(BufWriter::new(file));
        let recorder = recorder_number();
        let end = until_end(self.seconds);
        tokio::pin!(end);
        let mut is_over = false;
        loop {
            let (lines, lost) = port.fetch_trace(recorder).await?;
            recording.take(&lines, lost).map_err(|error| format!("{name}: {error}"))?;
            if is_over {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(FETCH_INTERVAL) => {}
                () = &mut end => is_over = true,
            }
        }
        Ok(format!("{name}: {}", recording.told()))
    }
}

/// So many seconds, where there are any, or until it is interrupted.
async fn until_end(seconds: Option<u64>) {
    let interrupted = tokio::signal::ctrl_c();
    match seconds {
        Some(seconds) => tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
            _ = interrupted => {}
        },
        // Where it cannot be interrupted well, it is ended otherwise.
        None if interrupted.await.is_err() => std::future::pending().await,
        None => {}
    }
}

/// Another one each time.
fn recorder_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// A trace that is being written.
struct Recording<W> {
    out: W,
    has_begun: bool,
    numbers: BTreeMap<u64, u64>,
    reads: u64,
    lost: u64,
}

impl<W: Write> Recording<W> {
    fn new(out: W) -> Recording<W> {
        Recording { out, has_begun: false, numbers: BTreeMap::new(), reads: 0, lost: 0 }
    }

    /// Writes what was fetched, so that it is there whatever comes.
    fn take(&mut self, lines: &str, lost: u64) -> std::io::Result<()> {
        let mut lines = lines.lines();
        let columns = lines.next().unwrap_or_default();
        if !std::mem::replace(&mut self.has_begun, true) {
            writeln!(self.out, "{columns}")?;
        }
        for line in lines {
            let Some((object, rest)) = line.split_once(',') else { continue };
            let Ok(object) = object.parse() else { continue };
            let next = self.numbers.len() as u64;
            let number = *self.numbers.entry(object).or_insert(next);
            writeln!(self.out, "{number},{rest}")?;
            self.reads += 1;
        }
        self.lost += lost;
        self.out.flush()
    }

    fn told(&self) -> String {
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {lost} more were lost, for they came faster than they were fetched"),
        };
        format!("{} reads of {} objects{lost}", self.reads, self.numbers.len())
    }
}
