//! The server's program: configuration, probes, the node, signals. It prints to standard output
//! what a person needs to connect, and to standard error what went wrong; the rest is the log's.
//! The main thread's runtime serves the admin port, so that neither shards nor origin share it.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::Clock;
use nilas_engine::admin::{AdminPort, AdminState, Lifecycle, NodeView, Phase};
use nilas_engine::config::{self, Config, Inputs, Order};
use nilas_engine::node::Node;
use nilas_engine::startup::{self, connect};
use nilas_shards::{ProbeReport, usable_cores};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals closer together are one: supervisors send it to the process and to its group.
const SIGNALS_APART_MIN: Duration = Duration::from_millis(200);

/// Why the program ends without having served to its end; the text is for standard error.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            complain(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Does what the command line asks; false where a check found something.
fn run() -> Result<bool, Failure> {
    match config::load(&inputs())? {
        Order::Help => print(&config::help_text()),
        Order::Reference => print(&config::reference_markdown()),
        Order::Version => print(&format!("nilas-server {}\n", env!("CARGO_PKG_VERSION"))),
        Order::Run { config, check_only: true } => {
            return Ok(startup::check(&config, &mut io::stdout().lock())?);
        }
        Order::Run { config, check_only: false } => serve(*config)?,
    }
    Ok(true)
}

fn inputs() -> Inputs {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    Inputs {
        arguments: std::env::args_os().skip(1).map(text).collect(),
        variables: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        cores: usable_cores().map_or(1, |cores| cores.len().max(1)),
    }
}

fn serve(mut config: Config) -> Result<(), Failure> {
    startup::start_log(&config.log);
    let report = startup::probe(&config)?;
    for finding in &report.findings {
        tracing::warn!("{finding}");
    }
    let is_generated = config.credentials.is_empty() && config.auth.credentials_file.is_none();
    if is_generated {
        config.credentials.push(startup::generate_credential()?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(live(config, report, is_generated));
    // An admin connection that is still open is not waited for.
    runtime.shutdown_background();
    served
}

/// A node's life, from the first signal handler to the last connection.
async fn live(config: Config, report: ProbeReport, is_generated: bool) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let lifecycle = Lifecycle::default();
    let state = AdminState::new(&config, lifecycle.clone(), Clock::system());
    let admin = AdminPort::bind(config.server.admin).await.map_err(|error| {
        format!("cannot listen on {} (server.admin): {error}", config.server.admin)
    })?;
    let admin_address = admin.address()?;
    tokio::spawn(admin.serve(Arc::clone(&state)));
    let (node, config) = start(config, report).await?;
    state.show(NodeView {
        metrics: node.metrics().clone(),
        origin: Arc::clone(node.origin()),
        catalogs: node.catalogs().clone(),
        tables: node.tables().clone(),
        purges: node.purges().clone(),
        audit: node.audit(),
        tracer: node.tracer().clone(),
        endpoint: node.endpoint(),
        ring: node.ring().name(),
    });
    lifecycle.advance(Phase::Ready);
    print(&welcome(&config, &node, admin_address, is_generated));
    signals.next().await;
    lifecycle.advance(Phase::Draining);
    let stopped = tokio::task::spawn_blocking(move || node.stop());
    tokio::select! {
        ended = stopped => Ok(ended?),
        second = second_signal() => {
            second?;
            Err("ended at once by a second signal".into())
        }
    }
}

async fn start(config: Config, report: ProbeReport) -> Result<(Node, Config), Failure> {
    // The start waits for threads; the admin port answers meanwhile.
    let started = tokio::task::spawn_blocking(move || {
        Node::start(&config, report.ring).map(|node| (node, config))
    });
    Ok(started.await??)
}

fn welcome(
    config: &Config,
    node: &Node,
    admin_address: std::net::SocketAddr,
    is_generated: bool,
) -> String {
    let mut text = format!(
        "Nilas {} serves S3 on {}\n  {} shards on {}, origin: {}\n  admin: http://{admin_address} \
         (/readyz, /metrics, /admin/stats)\n",
        env!("CARGO_PKG_VERSION"),
        connect::url(node.endpoint()),
        config.server.shard_count,
        node.ring(),
        node.origin().describe(),
    );
    if let Some(device) = node.device() {
        text.push_str(&format!("  cache device: {}\n", device.path.display()));
    }
    if let Some(socket) = &config.server.unix_socket {
        text.push_str(&format!("  Unix socket: {}\n", socket.path.display()));
    }
    if let (true, [credential]) = (is_generated, &config.credentials[..]) {
        let endpoint = connect::Endpoint {
            address: node.endpoint(),
            access_key: &credential.access_key,
            secret_key: credential.secret_key.expose(),
        };
        text.push_str(&format!(
            "  access key: {}\n  secret key: {}\n  Both are new at every start; configure \
             [[credentials]] to keep them.\n\n{}",
            endpoint.access_key,
            endpoint.secret_key,
            connect::text(endpoint),
        ));
    }
    text
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn second_signal() -> io::Result<()> {
    tokio::time::sleep(SIGNALS_APART_MIN).await;
    Signals::new()?.next().await;
    Ok(())
}

fn print(text: &str) {
    // A closed standard output is no reason not to serve.
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}

fn complain(problem: &impl Display) {
    // Nobody is left to tell where standard error is closed.
    let _ = writeln!(io::stderr(), "nilas-server: {problem}");
}
