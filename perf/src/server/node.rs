//! `nilas-server` with a local-directory origin on the same files that its rivals serve. Every
//! object is warm before a figure is taken; the origin is asked only then.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, Server, free_address, server_folder};
use crate::error::{Doing, Error, Result};
use crate::request::{Access, Credential};

/// What the node is to be.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// The program; built for release when there is none.
    pub binary: Option<PathBuf>,
    /// The origin's folder.
    pub root: PathBuf,
    /// One shard for each.
    pub cores: Vec<usize>,
    /// `auto`, `io_uring` or `epoll`.
    pub ring: String,
}

/// Starts the node by `plan`.
pub fn start_node(plan: &NodePlan) -> Result<Server> {
    let binary = match &plan.binary {
        Some(binary) => binary.clone(),
        None => build_node()?,
    };
    let version = node_version(&binary)?;
    let folder = server_folder()?;
    let address = free_address()?;
    let admin = free_address()?;
    let credential = Credential::for_measurement();
    let config = folder.path().join("nilas.toml");
    let text = node_config(plan, address, admin, &credential);
    std::fs::write(&config, text).doing("writing the node's configuration")?;
    let mut command = Command::new(binary);
    // No variable of this terminal may configure what is measured.
    command.env_clear().arg("--config").arg(&config);
    let access = Access::Signed(credential);
    let admin = Some(admin);
    let launch = Launch { name: "nilas", version, address, access, admin, command, folder };
    Server::launch(launch, &plan.cores)
}

fn node_config(
    plan: &NodePlan,
    address: SocketAddr,
    admin: SocketAddr,
    credential: &Credential,
) -> String {
    let (root, ring, shards) = (plan.root.display(), &plan.ring, plan.cores.len());
    let Credential { access_key, secret_key } = credential;
    format!(
        "[server]
listen = \"{address}\"
admin = \"{admin}\"
shards = {shards}
ring = \"{ring}\"

[origin]
kind = \"local\"
path = \"{root}\"

[[credentials]]
access_key = \"{access_key}\"
secret_key = \"{secret_key}\"

[cache]
mutable_ttl = \"1h\"
"
    )
}

/// Builds the node for release beside this program and says where it is.
fn build_node() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "nilas-engine", "--bin", "nilas-server"])
        .args(["--manifest-path", manifest])
        .status()
        .doing("building nilas-server")?;
    if !status.success() {
        return Err(failed("its build for release failed"));
    }
    let program = std::env::current_exe().doing("finding this program")?;
    let target = program.parent().and_then(Path::parent);
    Ok(target.ok_or_else(|| failed("no build folder"))?.join("release/nilas-server"))
}

fn node_version(binary: &Path) -> Result<String> {
    let output = Command::new(binary)
        .arg("--version")
        .output()
        .map_err(|error| failed(&format!("cannot be run ({error})")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.split_whitespace().last().unwrap_or("unknown").to_owned())
}

fn failed(cause: &str) -> Error {
    Error::Server { server: "nilas".to_owned(), cause: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_shard_for_each_core() {
        let plan = NodePlan {
            binary: None,
            root: "/files".into(),
            cores: vec![0, 1],
            ring: "io_uring".to_owned(),
        };
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let credential = Credential::for_measurement();
        let config = node_config(&plan, address(9000), address(9001), &credential);
        assert!(config.contains("listen = \"127.0.0.1:9000\"\nadmin = \"127.0.0.1:9001\"\n"));
        assert!(config.contains("shards = 2\nring = \"io_uring\"\n"));
        assert!(config.contains("path = \"/files\"\n"));
    }
}
