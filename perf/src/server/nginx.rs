//! nginx, serving the objects as static files: the rival that every figure is a ratio to.
//! Its settings are those it is fastest with for this work; see docs/BENCHMARKS.md.

use std::path::Path;
use std::process::Command;

use super::{Launch, Server, free_address, server_folder};
use crate::error::{Doing, Error, Result};
use crate::request::Access;

/// Starts nginx on the files under `root`, with one worker for each of `cores`.
pub fn start_nginx(root: &Path, cores: &[usize]) -> Result<Server> {
    let version = nginx_version()?;
    let folder = server_folder()?;
    let address = free_address()?;
    let config = folder.path().join("nginx.conf");
    let text = nginx_config(root, folder.path(), address.port(), cores);
    std::fs::write(&config, text).doing("writing nginx's configuration")?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(&config).args(["-e", "stderr"]);
    let access = Access::Open;
    let launch = Launch { name: "nginx", version, address, access, admin: None, command, folder };
    Server::launch(launch, cores)
}

fn nginx_version() -> Result<String> {
    let output = Command::new("nginx").arg("-v").output().map_err(|error| Error::Server {
        server: "nginx".to_owned(),
        cause: format!(
            "cannot be run ({error}): apt-get install --no-install-recommends nginx-light"
        ),
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let version = said.rsplit("nginx/").next().unwrap_or_default();
    Ok(version.split_whitespace().next().unwrap_or_default().to_owned())
}

fn nginx_config(root: &Path, folder: &Path, port: u16, cores: &[usize]) -> String {
    let (root, folder) = (root.display(), folder.display());
    format!(
        "daemon off;
worker_processes {workers};
worker_cpu_affinity {masks};
error_log stderr warn;
pid {folder}/nginx.pid;
events {{
    worker_connections 1024;
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush off;
    tcp_nodelay on;
    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {root};
    }}
}}
",
        workers = cores.len(),
        masks = cores.iter().map(|core| core_mask(*core)).collect::<Vec<_>>().join(" "),
    )
}

/// nginx's way to name a core: a binary number, core 0 its last digit.
fn core_mask(core: usize) -> String {
    format!("1{}", "0".repeat(core))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_pinned_to_each_core() {
        let config = nginx_config(Path::new("/files"), Path::new("/folder"), 8080, &[0, 2]);
        assert!(config.contains("worker_processes 2;\nworker_cpu_affinity 1 100;\n"));
        assert!(config.contains("listen 127.0.0.1:8080;\n        root /files;"));
    }
}
