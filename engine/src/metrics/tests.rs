//! The Prometheus page is read back by a small checker of its grammar, and the JSON agrees with it.

use nilas_base::HashMap;

use super::*;
use crate::origin::OriginCounters;

const NODE: NodeFacts = NodeFacts { is_ready: true, start_time_s: 1_700_000_000, audit: None };

fn busy_metrics() -> Metrics {
    let (metrics, writers) = Metrics::new(2);
    for (number, counters) in writers.iter().enumerate() {
        counters.hit(Tier::Data, 4096);
        counters.miss(Tier::Metadata);
        counters.sent(Tier::Origin, 10);
        counters.received(7);
        counters.fill_begun();
        counters.fill_ended(FillEnd::Complete, 65_536);
        counters.mapping_installed();
        counters.mappings_invalidated(3);
        counters.evicted(Tier::Data, 2);
        counters.connection_opened();
        counters.connection_closed();
        counters.leased(4);
        counters.exchange_call();
        counters.failure(Failure::Refused);
        counters.request(Operation::GetObject, 206, Tier::Data, 12_000);
        counters.request(Operation::GetObject, 206, Tier::Data, 40_000_000);
        counters.request(Operation::HeadObject, 404, Tier::Origin, 900_000_000_000);
        counters.in_use(Resource::DataBytes, 1000 + number as u64);
        counters.ceiling(Resource::DataBytes, 2000);
        counters.ceiling(Resource::Connections, 64);
    }
    metrics
}

/// Samples by `name{labels}`, after checking what the format and Prometheus's own lint demand.
fn checked(page: &str) -> HashMap<String, f64> {
    let mut samples: HashMap<String, f64> = HashMap::default();
    let mut family: Option<(String, String)> = None;
    let mut helped = String::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a name and a text");
            assert!(!text.is_empty() && name.starts_with("nilas_"), "{line}");
            helped = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert_eq!(name, helped, "HELP and TYPE go together");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = Some((name.to_owned(), kind.to_owned()));
        } else {
            let (family, kind) = family.as_ref().expect("samples follow their family's head");
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("split gives one part at least");
            let suffix = name.strip_prefix(family.as_str()).expect("samples are of their family");
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

#[test]
fn the_page_parses_and_tells_what_was_counted() {
    let page = prometheus_text(&busy_metrics(), None, &[], NODE);
    let samples = checked(&page);
    let expected = [
        ("nilas_ready", 1.0),
        ("nilas_cache_hits_total{tier=\"data\"}", 2.0),
        ("nilas_cache_misses_total{tier=\"metadata\"}", 2.0),
        ("nilas_sent_bytes_total{tier=\"data\"}", 8192.0),
        ("nilas_sent_bytes_total{tier=\"origin\"}", 20.0),
        ("nilas_fills_ended_total{how=\"complete\"}", 2.0),
        ("nilas_filled_bytes_total", 131_072.0),
        ("nilas_mappings_invalidated_total", 6.0),
        ("nilas_requests_total{operation=\"get_object\",status=\"2xx\"}", 4.0),
        ("nilas_requests_total{operation=\"head_object\",status=\"4xx\"}", 2.0),
        ("nilas_failures_total{kind=\"refused\"}", 2.0),
        ("nilas_used_bytes{resource=\"data\",shard=\"1\"}", 1001.0),
        ("nilas_ceiling_bytes{resource=\"data\",shard=\"0\"}", 2000.0),
        ("nilas_ceiling{resource=\"connections\",shard=\"1\"}", 64.0),
        ("nilas_connections_opened_total{shard=\"0\"}", 1.0),
    ];
    for (series, value) in expected {
        assert_eq!(samples.get(series).copied(), Some(value), "{series}");
    }
    let unset = "nilas_ceiling{resource=\"mappings\",shard=\"0\"}";
    assert!(!samples.contains_key(unset), "a ceiling that nobody set is not told as zero");
}

#[test]
fn a_device_and_its_journal_are_told_of_where_there_is_one() {
    let (metrics, writers) = Metrics::new(2);
    let page = prometheus_text(&metrics, None, &[], NODE);
    assert!(!page.contains("nilas_disk_") && !page.contains("nilas_journal_"), "there is none");
    for (number, shard) in (1..).zip(&writers) {
        shard.ceiling(Resource::DiskDataBytes, 1 << 30);
        shard.in_use(Resource::DiskMappingBytes, 4096);
        shard.disk_so_far(DiskCount::RecoverySegments, 10 * number);
        shard.disk_so_far(DiskCount::RecoveryUnsealed, 1);
        shard.disk_so_far(DiskCount::RecoveryDamaged, number);
        shard.disk_so_far(DiskCount::RecoveryRecords, 100);
        shard.disk_so_far(DiskCount::RecoveryMicros, 250_000 * number);
        shard.journal_so_far(JournalCount::Entries, 5 * number);
        shard.journal_so_far(JournalCount::Syncs, 2);
        shard.journal_so_far(JournalCount::Checkpoints, 3);
        shard.journal_so_far(JournalCount::Replayed, 7);
    }
    writers[1].journal_so_far(JournalCount::Failed, 1);
    writers[0].disk_is_recovered();
    let tell = |metrics| checked(&prometheus_text(metrics, None, &[], NODE));
    let samples = tell(&metrics);
    assert_eq!(samples["nilas_disk_recovered"], 0.0);
    assert_eq!(samples["nilas_disk_recovery_seconds"], 0.0, "it has not ended");
    writers[1].disk_is_recovered();
    let samples = tell(&metrics);
    for (series, value) in [
        ("nilas_disk_recovered", 1.0),
        ("nilas_disk_recovery_seconds", 0.5),
        ("nilas_disk_recovery_segments{kind=\"all\"}", 30.0),
        ("nilas_disk_recovery_segments{kind=\"unsealed\"}", 2.0),
        ("nilas_disk_recovery_segments{kind=\"damaged\"}", 3.0),
        ("nilas_disk_recovery_records", 200.0),
        ("nilas_journal_used_bytes", 8192.0),
        ("nilas_journal_entries_total", 15.0),
        ("nilas_journal_syncs_total", 4.0),
        ("nilas_journal_checkpoints_total", 6.0),
        ("nilas_journal_failed", 1.0),
        ("nilas_journal_damaged", 0.0),
        ("nilas_journal_replayed_entries", 14.0),
    ] {
        assert_eq!(samples.get(series).copied(), Some(value), "{series}");
    }
}

#[test]
fn histograms_are_cumulative_and_end_with_their_count() {
    let page = prometheus_text(&busy_metrics(), None, &[], NODE);
    let samples = checked(&page);
    let labels = "operation=\"get_object\",tier=\"data\"";
    let bucket = |border: &str| {
        samples[&format!("nilas_request_duration_seconds_bucket{{{labels},le=\"{border}\"}}")]
    };
    assert_eq!(bucket("0.000008"), 0.0);
    assert_eq!(bucket("0.000016"), 2.0);
    assert_eq!(bucket("0.065536"), 4.0);
    assert_eq!(bucket("+Inf"), 4.0);
    assert_eq!(samples[&format!("nilas_request_duration_seconds_count{{{labels}}}")], 4.0);
    let long = "operation=\"head_object\",tier=\"origin\"";
    let last = format!("nilas_request_duration_seconds_bucket{{{long},le=\"67.108864\"}}");
    assert_eq!(samples[&last], 0.0, "what is longer than the last border is in +Inf only");
}

#[test]
fn an_idle_node_has_a_page_too() {
    let (metrics, _writers) = Metrics::new(1);
    let origin = OriginCounters::default().snapshot();
    checked(&prometheus_text(&metrics, Some(&origin), &[], NODE));
    assert_eq!(stats_json(&metrics, Some(&origin))["origin"]["requests"], 0);
}

#[test]
fn the_json_tells_the_same() {
    let stats = stats_json(&busy_metrics(), None);
    assert_eq!(stats["cache"]["hits"]["data"], 2);
    assert_eq!(stats["clients"]["requests"]["get_object"]["2xx"], 4);
    assert_eq!(stats["shards"][1]["resources"]["data_bytes"]["used"], 1001);
    let latency = &stats["clients"]["latencies"][0];
    assert_eq!(latency["count"], 4);
    assert_eq!(latency["p50_us"], 12);
}

#[test]
fn counters_are_read_while_they_are_written() {
    let (metrics, mut writers) = Metrics::new(1);
    let counters = writers.pop().expect("one shard was asked for");
    let writer = std::thread::spawn(move || (0..100_000).for_each(|_| counters.hit(Tier::Data, 1)));
    let hits = |metrics: &Metrics| metrics.total(|it| it.hits[Tier::Data.index()].get());
    let mut before = 0;
    while !writer.is_finished() {
        let now = hits(&metrics);
        assert!(now >= before, "a counter never falls");
        before = now;
    }
    writer.join().expect("the writer does not panic");
    assert_eq!(hits(&metrics), 100_000);
}

#[test]
fn a_catalogs_numbers_stand_under_its_name() {
    use crate::catalog::CatalogSnapshot;
    let catalog = CatalogSnapshot {
        name: "lake".into(),
        last_success: Some(nilas_base::UnixMillis(1_700_000_000_000)),
        ..CatalogSnapshot::default()
    };
    let samples = checked(&prometheus_text(&busy_metrics(), None, &[catalog], NODE));
    let success = "nilas_catalog_last_success_seconds{catalog=\"lake\"}";
    assert_eq!(samples[success], 1_700_000_000.0);
    assert_eq!(samples["nilas_catalog_tables{catalog=\"lake\"}"], 0.0);
    assert_eq!(samples["nilas_catalog_hints_total{catalog=\"lake\",end=\"taken\"}"], 0.0);
}
