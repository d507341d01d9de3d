//! The upload suite: the same bytes written straight to an origin and through `nilas-server`, in
//! turns, in the ways that clients write; and, asked for, many large uploads at once, whose memory is
//! the node's. The aims are ratios of time in the same run. The ways are in `form`.

mod contest;
mod flood;
mod form;
mod origin;
mod uploader;

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum as _;

use crate::error::Result;
use crate::link::Link;
use crate::server::{NodeOrigin, NodePlan};
use crate::time_row::{TimeOutcome, TimeRow};

pub use origin::serve_uploads;

use self::contest::Contest;
pub use self::form::Form;

/// The suite's name.
pub const SUITE: &str = "upload";
const DIRECT: &str = "direct";
const NILAS: &str = "nilas";

/// The node writes as fast as 0.8 and 0.97 times the origin itself.
const NEAR_AIM: f64 = 1.0 / 0.8;
const FAR_AIM: f64 = 1.0 / 0.97;

/// Options of the suite.
#[derive(Clone, Debug, clap::Args)]
pub struct UploadOptions {
    /// MiB of each upload.
    #[arg(long, default_value_t = 64)]
    pub mebibytes: usize,
    /// Rounds that are kept.
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Rounds before them.
    #[arg(long, default_value_t = 2)]
    pub warm_up_rounds: usize,
    /// Shards of nilas-server.
    #[arg(long, default_value_t = 1)]
    pub shards: usize,
    /// nilas-server's ring: auto, io_uring or epoll.
    #[arg(long, default_value = "io_uring")]
    pub ring: String,
    /// The nilas-server to measure; built for release by default.
    #[arg(long)]
    pub server_binary: Option<PathBuf>,
    /// Links to measure, by their place: 0 is no latency, 1 is latency, 2 is latency and a rate.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2])]
    pub links: Vec<usize>,
    /// Ways to write; all by default.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Form::value_variants().to_vec())]
    pub forms: Vec<Form>,
    /// Then so many uploads of 1 GiB at once, to an origin that throws them away; none by default.
    #[arg(long, default_value_t = 0)]
    pub flood: usize,
}

impl UploadOptions {
    fn node(&self, origin: std::net::SocketAddr, cores: &[usize]) -> NodePlan {
        NodePlan {
            binary: self.server_binary.clone(),
            origin: NodeOrigin::S3(origin),
            cores: cores.to_vec(),
            shards: self.shards,
            ring: self.ring.clone(),
            data_bytes: "160MiB".to_owned(),
            flags: Vec::new(),
            config: String::new(),
        }
    }
}

/// The highest ratio of time aimed at for `row`, if there is one.
pub fn aim(row: &TimeRow) -> Option<f64> {
    if row.suite != SUITE || row.server != NILAS {
        return None;
    }
    let [near, far, store] = Link::measured_names();
    match &row.link {
        link if *link == near => Some(NEAR_AIM),
        link if *link == far || *link == store => Some(FAR_AIM),
        _ => None,
    }
}

/// Runs the suite; one line a link, form and server goes to `progress`.
pub fn measure(options: &UploadOptions, progress: &mut dyn Write) -> Result<TimeOutcome> {
    let mut rows = Vec::new();
    for link in Link::measured(&options.links)? {
        let mut contest = Contest::open(options, link)?;
        for form in &options.forms {
            rows.extend(contest.play(*form, progress)?);
        }
    }
    let mut facts = vec![
        ("shards".to_owned(), options.shards.to_string()),
        ("ring".to_owned(), options.ring.clone()),
    ];
    if options.flood > 0 {
        facts.extend(flood::measure(options, progress)?);
    }
    Ok(TimeOutcome { suite: SUITE, facts, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_row::tests::row;

    #[test]
    fn only_the_node_has_aims() {
        let of = |server: &str, link: &str| {
            aim(&TimeRow { suite: SUITE.to_owned(), ..row(server, link, "unsigned", 1.0) })
        };
        let [near, far, store] = Link::measured_names();
        assert_eq!(of(NILAS, &near), Some(NEAR_AIM));
        assert_eq!(of(NILAS, &far), Some(FAR_AIM));
        assert_eq!(of(NILAS, &store), Some(FAR_AIM));
        assert_eq!(of(DIRECT, &near), None);
    }
}
