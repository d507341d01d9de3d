//! The files that the origin stands on, in memory. Each reading gives them names of its own, which
//! no cache has seen.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::workload::Workload;
use crate::error::{Doing, Result};
use crate::object::BUCKET;

/// The name of the turn between readings.
const NO_TURN: &str = "rests";

/// A folder with the files of all workloads.
#[derive(Debug)]
pub struct Ground {
    folder: TempDir,
}

/// A workload's files under the names of one turn; dropping it ends the turn.
#[derive(Debug)]
pub struct Turn<'a> {
    ground: &'a Ground,
    workload: &'a Workload,
    name: String,
}

impl Ground {
    /// Writes the files of all workloads into a new folder in `memory_folder`.
    pub fn lay(memory_folder: &Path, workloads: &[Workload]) -> Result<Ground> {
        let builder = tempfile::Builder::new().prefix("nilas-perf-").tempdir_in(memory_folder);
        let folder = builder.doing("making the origin's folder")?;
        std::fs::create_dir(folder.path().join(BUCKET)).doing("making the bucket's folder")?;
        let ground = Ground { folder };
        for workload in workloads {
            for (number, content) in workload.files.iter().enumerate() {
                content.write_to(&ground.file(&key(workload, NO_TURN, number)))?;
            }
        }
        Ok(ground)
    }

    /// The folder whose folders are buckets.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The files of `workload` under names for turn `number`.
    pub fn turn<'a>(&'a self, workload: &'a Workload, number: usize) -> Result<Turn<'a>> {
        let turn = Turn { ground: self, workload, name: format!("turn{number}") };
        self.rename(workload, NO_TURN, &turn.name).doing("renaming the origin's files")?;
        Ok(turn)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(key)
    }

    fn rename(&self, workload: &Workload, before: &str, after: &str) -> std::io::Result<()> {
        for number in 0..workload.files.len() {
            let from = self.file(&key(workload, before, number));
            std::fs::rename(from, self.file(&key(workload, after, number)))?;
        }
        Ok(())
    }
}

impl Turn<'_> {
    /// The path of the workload's `number`-th file on every server.
    pub fn path(&self, number: usize) -> String {
        format!("/{BUCKET}/{}", key(self.workload, &self.name, number))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // If it fails the next turn does, and says so.
        let _ = self.ground.rename(self.workload, &self.name, NO_TURN);
    }
}

fn key(workload: &Workload, turn: &str, number: usize) -> String {
    format!("{}-{turn}-{number}.parquet", workload.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_has_names_of_its_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let workloads = [Workload::object(1000)];
        let ground = Ground::lay(folder.path(), &workloads).expect("a writable folder");
        for number in 0..2 {
            let turn = ground.turn(&workloads[0], number).expect("no turn is open");
            assert_eq!(turn.path(0), format!("/perf/object-turn{number}-0.parquet"));
            assert!(ground.root().join(turn.path(0).trim_start_matches('/')).exists());
            assert!(ground.turn(&workloads[0], 7).is_err(), "one at a time");
        }
    }
}
