//! nginx: serving the objects as static files, the rival of every warm figure, or as a cache of slices
//! before an origin, the rival of cold ones. Its settings are those it is fastest with for this work;
//! see docs/BENCHMARKS.md.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Launch, Server, free_address, server_folder};
use crate::error::{Doing, Error, Result};
use crate::request::Access;

/// Starts nginx on the files under `root`, with one worker for each of `cores`.
pub fn start_nginx(root: &Path, cores: &[usize]) -> Result<Server> {
    let masks = cores.iter().map(|core| core_mask(*core)).collect::<Vec<_>>().join(" ");
    let workers = format!("worker_processes {};\nworker_cpu_affinity {masks};", cores.len());
    let files = format!(
        "    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    server {{
        listen {LISTEN};
        root {};
    }}
",
        root.display()
    );
    launch("nginx", cores, &Config { workers, http: files })
}

/// Starts nginx as a cache before `origin`, in slices, each a file in `memory_folder`. Its settings
/// are those it is fastest with; see docs/BENCHMARKS.md.
pub fn start_slice_cache(
    origin: SocketAddr,
    memory_folder: &Path,
    cores: &[usize],
) -> Result<Server> {
    let cache = tempfile::Builder::new()
        .prefix("nilas-perf-")
        .permissions(std::fs::Permissions::from_mode(0o777))
        .tempdir_in(memory_folder)
        .doing("making the slice cache's folder")?;
    let workers = format!("worker_processes {};", cores.len());
    let http = slice_cache(origin, cache.path());
    let mut server = launch("nginx-slice", cores, &Config { workers, http })?;
    server.keep(cache);
    Ok(server)
}

/// Where the address goes that the server gets.
const LISTEN: &str = "%listen%";

/// What differs between one nginx and another.
struct Config {
    workers: String,
    http: String,
}

fn launch(name: &'static str, cores: &[usize], config: &Config) -> Result<Server> {
    let version = nginx_version()?;
    let folder = server_folder()?;
    let address = free_address()?;
    let path = folder.path().join("nginx.conf");
    let text = nginx_config(config, folder.path(), address);
    std::fs::write(&path, text).doing("writing nginx's configuration")?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(&path).args(["-e", "stderr"]);
    let access = Access::Open;
    Server::launch(Launch { name, version, address, access, admin: None, command, folder }, cores)
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

fn nginx_config(config: &Config, folder: &Path, address: SocketAddr) -> String {
    let Config { workers, http } = config;
    let (http, folder) = (http.replace(LISTEN, &address.to_string()), folder.display());
    format!(
        "daemon off;
{workers}
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
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{http}}}
"
    )
}

/// nginx's way to name a core: a binary number, core 0 its last digit.
fn core_mask(core: usize) -> String {
    format!("1{}", "0".repeat(core))
}

fn slice_cache(origin: SocketAddr, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "    proxy_cache_path {folder} keys_zone=slices:16m max_size=64g inactive=1h
                     use_temp_path=off;
    upstream origin {{
        server {origin};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {LISTEN};
        location / {{
            slice 1m;
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Range $slice_range;
            proxy_cache slices;
            proxy_cache_key $uri$slice_range;
            proxy_cache_valid 200 206 1h;
            proxy_buffers 32 16k;
            proxy_busy_buffers_size 128k;
        }}
    }}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_stands_where_nginx_is_to_listen() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let http = slice_cache(SocketAddr::from(([127, 0, 0, 1], 80)), Path::new("/cache"));
        let config = Config { workers: "worker_processes 2;".to_owned(), http };
        let text = nginx_config(&config, Path::new("/folder"), address);
        assert!(text.contains("worker_processes 2;\nerror_log"));
        assert!(text.contains("proxy_cache_path /cache ") && text.contains("server 127.0.0.1:80;"));
        assert!(text.contains("listen 127.0.0.1:8080;\n") && !text.contains(LISTEN));
    }

    #[test]
    fn a_core_is_named_by_its_place_in_a_mask() {
        assert_eq!((core_mask(0), core_mask(2)), ("1".to_owned(), "100".to_owned()));
    }
}
