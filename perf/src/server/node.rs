//! `nilas-server`, on the same files that its rivals serve: a local-directory origin where every
//! object is warm before a figure is taken, an origin that speaks S3 where none is.

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
    /// What it stands before.
    pub origin: NodeOrigin,
    /// The cores it may use.
    pub cores: Vec<usize>,
    /// Shards.
    pub shards: usize,
    /// `auto`, `io_uring` or `epoll`.
    pub ring: String,
    /// Memory for data, such as `1GiB`.
    pub data_bytes: String,
    /// Further flags.
    pub flags: Vec<String>,
    /// Further sections of its configuration.
    pub config: String,
}

/// The node's origin.
#[derive(Clone, Debug)]
pub enum NodeOrigin {
    /// A folder whose folders are buckets.
    Folder(PathBuf),
    /// What speaks S3 there; it may ignore the signatures.
    S3(SocketAddr),
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
    command.env_clear().arg("--config").arg(&config).args(&plan.flags);
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
    let NodePlan { ring, shards, data_bytes, config, .. } = plan;
    let origin = origin_config(&plan.origin);
    let Credential { access_key, secret_key } = credential;
    format!(
        "[server]
listen = \"{address}\"
admin = \"{admin}\"
shards = {shards}
ring = \"{ring}\"

[origin]
{origin}
[[credentials]]
access_key = \"{access_key}\"
secret_key = \"{secret_key}\"

[cache]
mutable_ttl = \"1h\"
data_bytes = \"{data_bytes}\"
{config}"
    )
}

fn origin_config(origin: &NodeOrigin) -> String {
    let Credential { access_key, secret_key } = Credential::for_measurement();
    match origin {
        NodeOrigin::Folder(root) => {
            format!("kind = \"local\"\npath = \"{}\"\n", root.display())
        }
        NodeOrigin::S3(address) => format!(
            "kind = \"s3\"
endpoint = \"http://{address}\"
access_key = \"{access_key}\"
secret_key = \"{secret_key}\"
"
        ),
    }
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

    fn config(origin: NodeOrigin) -> String {
        let plan = NodePlan {
            binary: None,
            origin,
            cores: vec![0, 1],
            shards: 2,
            ring: "io_uring".to_owned(),
            data_bytes: "3GiB".to_owned(),
            flags: Vec::new(),
            config: String::new(),
        };
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        node_config(&plan, address(9000), address(9001), &Credential::for_measurement())
    }

    #[test]
    fn the_node_is_told_its_plan() {
        let config = config(NodeOrigin::Folder("/files".into()));
        assert!(config.contains("listen = \"127.0.0.1:9000\"\nadmin = \"127.0.0.1:9001\"\n"));
        assert!(config.contains("shards = 2\nring = \"io_uring\"\n"));
        assert!(config.contains("kind = \"local\"\npath = \"/files\"\n\n[[credentials]]\n"));
        assert!(config.contains("data_bytes = \"3GiB\"\n"));
    }

    #[test]
    fn an_origin_that_speaks_s3_is_named_by_its_address() {
        let config = config(NodeOrigin::S3(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert!(config.contains("kind = \"s3\"\nendpoint = \"http://127.0.0.1:80\"\n"));
    }
}
