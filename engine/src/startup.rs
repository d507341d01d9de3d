//! Start-up: what the machine must have before the node is built, the log, generated credentials,
//! and the lines that connect engines. Every finding says cause, consequence and cure.
//! Nothing here serves; `nilas-server` calls these in order, and then starts the node.

mod audit;
mod check;
pub mod connect;
mod device;
mod directory;
mod generate;
mod log;
mod memory;
mod port;
mod unix_socket;

use std::fmt;
use std::path::Path;

use nilas_shards::{Finding, ProbeReport, Severity};

pub use check::check;
pub use device::open_cache_device;
pub use generate::{generate_credential, random_bytes};
pub use log::start_log;

use crate::config::Config;
use crate::origin::OriginSettings;

/// The node cannot start: at least one finding is fatal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Everything that was found.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fatal = self.findings.iter().filter(|finding| finding.severity == Severity::Fatal);
        for (index, finding) in fatal.enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Asks the machine for everything that `config` needs. A local directory that nobody named is
/// created; nothing else is changed.
pub fn probe(config: &Config) -> Result<ProbeReport, Refusal> {
    let mut findings: Vec<Finding> = Vec::new();
    if let OriginSettings::LocalDirectory(local) = &config.origin.settings {
        findings.extend(directory::probe(&local.path, config.origin.create_directory).err());
    }
    findings.extend(device::probe(config));
    findings.extend(port::probe("server.listen", "--listen", config.server.listen).err());
    findings.extend(config.server.unix_socket.as_ref().and_then(unix_socket::probe));
    findings.extend(port::probe("server.admin", "--server.admin", config.server.admin).err());
    findings.extend(config.log.audit_file.as_deref().and_then(audit::probe));
    findings.extend(config.auth.credentials_file.as_deref().and_then(exposed));
    let tables = &config.tables;
    let tables_bytes = match config.catalogs.is_empty() {
        true => 0,
        false => tables.memory_bytes.saturating_add(tables.footer_bytes),
    };
    let shards = config.server.shard_count;
    findings.extend(memory::probe(&config.cache, &config.limits, tables_bytes, shards));
    let shards = nilas_shards::probe(config.server.ring, usize::from(config.server.shard_count));
    match shards {
        Ok(report) if !findings.iter().any(|finding| finding.severity == Severity::Fatal) => {
            findings.extend(report.findings);
            Ok(ProbeReport { ring: report.ring, findings })
        }
        Ok(report) => {
            findings.extend(report.findings);
            Err(Refusal { findings })
        }
        Err(error) => {
            findings.push(error.0);
            Err(Refusal { findings })
        }
    }
}

fn exposed(path: &Path) -> Option<Finding> {
    let cause = crate::config::exposure(path)?;
    let consequence = "Whoever has an account on this machine has these credentials, too.";
    Some(warning(format!("{cause}."), consequence, "Change its mode so.".to_owned()))
}

fn fatal(cause: String, consequence: &str, cure: String) -> Finding {
    let consequence = consequence.to_owned();
    Finding { cause, consequence, cure, severity: Severity::Fatal }
}

fn warning(cause: String, consequence: &str, cure: String) -> Finding {
    let consequence = consequence.to_owned();
    Finding { cause, consequence, cure, severity: Severity::Warning }
}
