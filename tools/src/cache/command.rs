//! `nilas inspect` and `nilas cache`: their flags, what they print and how they exit.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::device::{CacheDevice, Sharing};
use super::inspect::{Subject, inspect};
use super::text::{inspection_text, verification_text};
use super::verify::{Verdict, bytes_of, verify};
use crate::progress::Progress;

/// What is to be shown of which device.
#[derive(Args, Debug)]
pub struct InspectArguments {
    /// The node's cache directory, the file nilas.cache in it, or its block device.
    path: PathBuf,
    /// Shows the segments of the data and metadata areas.
    #[arg(long, conflicts_with_all = ["segment", "block"])]
    segments: bool,
    /// Only this area, by its number.
    #[arg(long, value_name = "NUMBER")]
    area: Option<u16>,
    /// Shows the records of this segment of an area, and checks them.
    #[arg(long, value_name = "NUMBER", requires = "area", conflicts_with = "block")]
    segment: Option<u32>,
    /// Shows where a block lies: its version in hex, or VERSION:INDEX.
    #[arg(long, value_name = "HEX", value_parser = parse_block)]
    block: Option<WantedBlock>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A version, and one of its blocks or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WantedBlock {
    version: [u8; 16],
    index: Option<u32>,
}

/// What is to be done with a cache device.
#[derive(Args, Debug)]
pub struct CacheArguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Reads all that a stopped node has on its cache device, and checks every page. Exits with 0 when all is whole,
    /// 1 when something is damaged, 2 when something cannot be read.
    Verify(VerifyArguments),
}

#[derive(Args, Debug)]
struct VerifyArguments {
    /// The node's cache directory, the file nilas.cache in it, or its block device.
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// What a command has to say, and how it exits.
#[derive(Debug)]
pub struct Told {
    /// To be printed.
    pub text: String,
    /// The exit code.
    pub code: u8,
}

/// The exit code of a device that cannot be read.
pub const CODE_UNREAD: u8 = 2;

impl InspectArguments {
    /// Does it; gives the text to print.
    pub fn carry_out(&self) -> Result<String, String> {
        let device = CacheDevice::open(&self.path, Sharing::Shared)?;
        let inspection = inspect(&device, self.subject())?;
        Ok(match self.json {
            true => json_text(&inspection),
            false => inspection_text(&inspection),
        })
    }

    fn subject(&self) -> Subject {
        let area = self.area;
        match (self.segment.zip(area), self.block) {
            (Some((segment, area)), _) => Subject::Records { area, segment },
            (None, Some(WantedBlock { version, index })) => Subject::Block { version, index, area },
            (None, None) if self.segments || area.is_some() => Subject::Segments { area },
            (None, None) => Subject::Superblock,
        }
    }
}

impl CacheArguments {
    /// Does it.
    ///
    /// # Errors
    /// The device cannot be read at all: the command exits with [`CODE_UNREAD`].
    pub fn carry_out(&self) -> Result<Told, String> {
        let Task::Verify(VerifyArguments { path, json }) = &self.task;
        let device = CacheDevice::open(path, Sharing::Alone)?;
        let mut progress = Progress::on_terminal(bytes_of(&device));
        let verification = verify(&device, &mut |bytes_done| progress.tell(bytes_done));
        drop(progress);
        let text = match json {
            true => json_text(&verification),
            false => verification_text(&verification),
        };
        let code = match verification.verdict {
            Verdict::Whole => 0,
            Verdict::Damaged => 1,
            Verdict::Unread => CODE_UNREAD,
        };
        Ok(Told { text, code })
    }
}

fn json_text(facts: &impl Serialize) -> String {
    serde_json::to_string_pretty(facts).expect("facts have names for keys")
}

fn parse_block(text: &str) -> Result<WantedBlock, String> {
    let (version, index) = match text.split_once(':') {
        Some((version, index)) => (version, Some(index)),
        None => (text, None),
    };
    let mut bytes = [0; 16];
    hex::decode_to_slice(version, &mut bytes)
        .map_err(|_| "a block's version is 32 hexadecimal digits".to_owned())?;
    let index = index.map(|index| index.parse().map_err(|_| format!("{index:?} is no number")));
    Ok(WantedBlock { version: bytes, index: index.transpose()? })
}
