//! The log: to standard error, quiet by default, for people or as JSON lines. Other crates' lines
//! never go below warnings, whatever the level: at debug they tell of headers and signatures.

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::config::{LogConfig, LogFormat};

/// Our own crates' lines begin with this.
const OWN_TARGETS: [&str; 4] = ["nilas_engine", "nilas_shards", "nilas_net", "nilas_server"];

/// Starts the log of this process. Later calls change nothing.
pub fn start_log(config: &LogConfig) {
    // A second start finds the first one's log in place, which is what it wants.
    let _ = tracing::subscriber::set_global_default(subscriber(config, std::io::stderr));
}

fn subscriber<W>(config: &LogConfig, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let others = config.level.min(LevelFilter::WARN);
    let targets = Targets::new()
        .with_default(others)
        .with_targets(OWN_TARGETS.map(|target| (target, config.level)));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    match config.format {
        LogFormat::Human => {
            Box::new(tracing_subscriber::registry().with(lines.with_filter(targets)))
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            Box::new(tracing_subscriber::registry().with(lines.with_filter(targets)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no test panics while it writes").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(level: LevelFilter, format: LogFormat) -> String {
        let page = Page::default();
        let writer = page.clone();
        let config = LogConfig { level, format, audit_file: None };
        let log = subscriber(&config, move || writer.clone());
        tracing::subscriber::with_default(log, || {
            tracing::error!(target: "nilas_engine::node", shard = 1, "own error");
            tracing::info!(target: "nilas_engine::node", "own info");
            tracing::debug!(target: "hyper::proto", "other debug");
            tracing::warn!(target: "hyper::proto", "other warning");
        });
        let bytes = page.0.lock().expect("nobody writes any more").clone();
        String::from_utf8(bytes).expect("lines are UTF-8")
    }

    #[test]
    fn the_log_is_quiet_by_default() {
        let text = written(LevelFilter::WARN, LogFormat::Human);
        assert!(text.contains("own error") && text.contains("other warning"), "{text}");
        assert!(!text.contains("own info"), "{text}");
    }

    #[test]
    fn other_crates_tell_no_details_at_any_level() {
        let text = written(LevelFilter::TRACE, LogFormat::Human);
        assert!(text.contains("own info") && !text.contains("other debug"), "{text}");
        let text = written(LevelFilter::ERROR, LogFormat::Human);
        assert!(!text.contains("other warning"), "{text}");
    }

    #[test]
    fn json_lines_are_json() {
        let text = written(LevelFilter::INFO, LogFormat::Json);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["message"], "own error");
        assert_eq!(lines[0]["shard"], 1);
    }
}
