//! fio, the measure of the disk: one job on one core, past the page cache, as deep as the node's load.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nilas_base::{MIB, Rng};
use serde_json::Value;

use crate::error::{Doing, Error, Result};
use crate::object::random_bytes;
use crate::processor::spawn_on;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Reads here and there.
    RandomRead,
    /// Writes from front to back.
    Write,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct FioJob {
    pub(super) direction: Direction,
    pub(super) file: PathBuf,
    pub(super) block_bytes: u64,
    pub(super) depth: usize,
    /// The part of the file that is used, from its first byte.
    pub(super) bytes: u64,
    pub(super) core: usize,
    pub(super) runtime: Duration,
}

/// What fio says of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) operations_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// Its version, which also says whether it is there.
pub(super) fn version() -> Result<String> {
    let said = Command::new("fio").arg("--version").output();
    let said = said.map_err(|error| Error::Server {
        server: "fio".to_owned(),
        cause: format!("cannot be run ({error}): install it, on Debian with `apt-get install fio`"),
    })?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

impl FioJob {
    /// Writes all of the file once, with bytes as random as those of the objects, whatever a disk makes of others.
    pub(super) fn lay_out(&self) -> Result<()> {
        use std::io::Write;
        let mut rng = Rng::from_seed(self.bytes);
        let mut file = std::fs::File::create(&self.file).doing("making fio's file")?;
        for _ in 0..self.bytes / MIB {
            let piece = random_bytes(&mut rng, MIB as usize);
            file.write_all(&piece).doing("writing fio's file")?;
        }
        file.sync_all().doing("writing fio's file")
    }

    /// Runs it.
    pub(super) fn run(&self) -> Result<Said> {
        let name = match self.direction {
            Direction::RandomRead => "randread",
            Direction::Write => "write",
        };
        let mut command = Command::new("fio");
        command.args(["--name=nilas", "--direct=1", "--ioengine=io_uring", "--output-format=json"]);
        command.args(["--time_based", "--randrepeat=0", "--norandommap"]);
        command.arg(format!("--rw={name}")).arg(format!("--bs={}", self.block_bytes));
        command.arg(format!("--iodepth={}", self.depth)).arg(format!("--size={}", self.bytes));
        command.arg(format!("--runtime={}ms", self.runtime.as_millis()));
        command.arg(format!("--filename={}", self.file.display()));
        if self.direction == Direction::RandomRead {
            command.arg("--readonly");
        }
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let output = spawn_on(&[self.core], &mut command)?;
        let output = output.wait_with_output().doing("waiting for fio")?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Server { server: "fio".to_owned(), cause: complaint });
        }
        said(&String::from_utf8_lossy(&output.stdout), self.direction)
    }
}

fn said(text: &str, direction: Direction) -> Result<Said> {
    let side = if direction == Direction::Write { "write" } else { "read" };
    let number = |field: &str| {
        let start = text.find('{')?;
        let value: Value = serde_json::from_str(&text[start..]).ok()?;
        value["jobs"][0][side][field].as_f64()
    };
    match (number("iops"), number("bw_bytes")) {
        (Some(operations_per_second), Some(bytes_per_second)) => {
            Ok(Said { operations_per_second, bytes_per_second })
        }
        _ => Err(Error::Answer(format!("fio does not say how fast it was: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_says_is_read_whatever_it_says_before() {
        let text = r#"fio: a note
{"jobs": [{"read": {"iops": 12.5, "bw_bytes": 800}, "write": {"iops": 0, "bw_bytes": 0}}]}"#;
        let read = said(text, Direction::RandomRead).expect("it is there");
        assert_eq!(read, Said { operations_per_second: 12.5, bytes_per_second: 800.0 });
        assert!(said("fio: no", Direction::Write).is_err());
    }
}
