//! The families of the Prometheus page: what each cell is called, and what it means. Nothing is
//! counted here; see `shard` for the cells and `exposition` for the format.

use super::Metrics;
use super::catalog;
use super::cell::Cell;
use super::disk;
use super::exposition::{Exposition, Family, Labels};
use super::histogram::HistogramSnapshot;
use super::label::{
    Failure, FillEnd, Operation, OriginEvent, PurgeKind, Resource, StatusClass, Tier,
    WriteAllocation,
};
use super::shard::ShardCells;
use crate::audit::AuditCounts;
use crate::catalog::CatalogSnapshot;
use crate::origin::{LATENCY_BOUNDS_MICROS, OperationSnapshot, OriginSnapshot};

/// Tiers that answer lookups.
pub(super) const LOOKUP_TIERS: [Tier; 3] = [Tier::Data, Tier::Metadata, Tier::Mapping];

/// The node's own numbers, beside those of shards and origin.
#[derive(Clone, Copy, Debug)]
pub struct NodeFacts {
    /// Whether requests are served.
    pub is_ready: bool,
    /// When the node began, seconds since 1970-01-01 UTC.
    pub start_time_s: u64,
    /// What became of the audit's records, where there is a file for them.
    pub audit: Option<AuditCounts>,
}

/// The whole page.
pub fn prometheus_text(
    metrics: &Metrics,
    origin: Option<&OriginSnapshot>,
    catalogs: &[CatalogSnapshot],
    node: NodeFacts,
) -> String {
    let mut page = Exposition::default();
    write_node(&mut page, node);
    let shards = Shards(metrics);
    shards.write_cache(&mut page);
    disk::write(metrics, &mut page);
    shards.write_work(&mut page);
    shards.write_origin_events(&mut page);
    shards.write_requests(&mut page);
    shards.write_ceilings(&mut page);
    if let Some(origin) = origin {
        write_origin(&mut page, origin);
        write_origin_latency(&mut page, origin);
    }
    catalog::write(&mut page, catalogs);
    page.into_text()
}

fn write_node(page: &mut Exposition, node: NodeFacts) {
    page.gauge("nilas_build_info", "The node's version; always one.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge("nilas_ready", "One while requests are served, else zero.")
        .sample(&[], u8::from(node.is_ready));
    page.gauge("nilas_start_time_seconds", "When the node began, in seconds since 1970-01-01 UTC.")
        .sample(&[], node.start_time_s);
    let Some(audit) = node.audit else { return };
    page.counter("nilas_audit_written_total", "Records written to the audit file.")
        .sample(&[], audit.written);
    let help =
        "Records that are not in the audit file, by why: too many waited, or no write worked.";
    let mut lost = page.counter("nilas_audit_lost_total", help);
    lost.sample(&[("reason", "dropped")], audit.dropped);
    lost.sample(&[("reason", "failed")], audit.failed);
}

struct Shards<'a>(&'a Metrics);

impl Shards<'_> {
    fn by_tier(
        &self,
        page: &mut Exposition,
        (name, help): (&'static str, &str),
        tiers: &[Tier],
        cells: fn(&ShardCells) -> &[Cell; Tier::COUNT],
    ) {
        let mut family = page.counter(name, help);
        for tier in tiers {
            let total = self.0.total(|shard| cells(shard)[tier.index()].get());
            family.sample(&[("tier", tier.label())], total);
        }
    }

    fn total(&self, page: &mut Exposition, name: &'static str, help: &str, cell: CellOf) {
        let total = self.0.total(|shard| cell(shard).get());
        page.counter(name, help).sample(&[], total);
    }

    fn by_shard(&self, page: &mut Exposition, name: &'static str, help: &str, cell: CellOf) {
        let mut family = page.counter(name, help);
        for (number, shard) in self.0.shards().iter().enumerate() {
            family.sample(&[("shard", &number.to_string())], cell(shard).get());
        }
    }

    fn write_cache(&self, page: &mut Exposition) {
        let hits = ("nilas_cache_hits_total", "Lookups that a tier answered.");
        self.by_tier(page, hits, &LOOKUP_TIERS, |shard| &shard.hits);
        let misses = ("nilas_cache_misses_total", "Lookups that a tier could not answer.");
        self.by_tier(page, misses, &LOOKUP_TIERS, |shard| &shard.misses);
        let sent = ("nilas_sent_bytes_total", "Body bytes sent to clients, by their source.");
        self.by_tier(page, sent, Tier::ALL, |shard| &shard.sent_bytes);
        let evictions = ("nilas_evictions_total", "Blocks or mappings evicted to make room.");
        self.by_tier(page, evictions, &LOOKUP_TIERS, |shard| &shard.evictions);
    }

    fn write_work(&self, page: &mut Exposition) {
        let help = "Body bytes received from clients.";
        self.total(page, "nilas_received_bytes_total", help, |it| &it.received_bytes);
        self.total(page, "nilas_fills_begun_total", "Fills begun.", |it| &it.fills_begun);
        let mut ended = page.counter("nilas_fills_ended_total", "Fills ended, by how.");
        for how in FillEnd::ALL {
            let total = self.0.total(|shard| shard.fills_ended[how.index()].get());
            ended.sample(&[("how", how.label())], total);
        }
        let help = "Bytes that fills brought into the cache.";
        self.total(page, "nilas_filled_bytes_total", help, |it| &it.filled_bytes);
        let help = "Uploads that were to populate the cache, by what became of that.";
        let mut allocations = page.counter("nilas_write_allocations_total", help);
        for how in WriteAllocation::ALL {
            let total = self.0.total(|shard| shard.write_allocations[how.index()].get());
            allocations.sample(&[("how", how.label())], total);
        }
        let help = "Mappings installed.";
        self.total(page, "nilas_mappings_installed_total", help, |it| &it.mappings_installed);
        let help = "Mappings dropped by writes, deletes and purges.";
        self.total(page, "nilas_mappings_invalidated_total", help, |it| &it.mappings_invalidated);
        let mut purges = page.counter("nilas_purges_total", "Purges, by how much they named.");
        for kind in PurgeKind::ALL {
            let total = self.0.total(|shard| shard.purges[kind.index()].get());
            purges.sample(&[("scope", kind.label())], total);
        }
        let help = "Leases on cache memory that sends have taken.";
        self.total(page, "nilas_leases_total", help, |it| &it.leases);
        let help = "Calls between shards, those to oneself included.";
        self.total(page, "nilas_exchange_calls_total", help, |it| &it.exchange_calls);
        let help = "Client connections accepted.";
        self.by_shard(page, "nilas_connections_opened_total", help, |it| &it.connections_opened);
        let help = "Client connections closed, by either side.";
        self.by_shard(page, "nilas_connections_closed_total", help, |it| &it.connections_closed);
        let mut failures = page.counter("nilas_failures_total", "Failures, by kind.");
        for kind in Failure::ALL {
            let total = self.0.total(|shard| shard.failures[kind.index()].get());
            failures.sample(&[("kind", kind.label())], total);
        }
    }

    fn write_origin_events(&self, page: &mut Exposition) {
        let help = "Retries, hedges, resumes and turns of the circuit breaker, by kind.";
        let mut events = page.counter("nilas_origin_events_total", help);
        for event in OriginEvent::ALL {
            events.sample(&[("kind", event.label())], self.0.origin_events(*event));
        }
        let help = "One while the origin fails and is left alone, else zero.";
        page.gauge("nilas_origin_breaker_open", help)
            .sample(&[], u8::from(self.0.is_breaker_open()));
    }

    fn write_requests(&self, page: &mut Exposition) {
        let mut requests = page.counter("nilas_requests_total", "Requests answered.");
        for operation in Operation::ALL {
            for status in StatusClass::ALL {
                let total = self.0.requests(*operation, *status);
                if total > 0 {
                    let labels: Labels<'_> =
                        &[("operation", operation.label()), ("status", status.label())];
                    requests.sample(labels, total);
                }
            }
        }
        let help = "From a request's head to the last byte of its answer, by operation and source.";
        let mut latencies = page.histogram("nilas_request_duration_seconds", help);
        for (operation, tier, latency) in self.0.latencies() {
            let labels: Labels<'_> = &[("operation", operation.label()), ("tier", tier.label())];
            latencies.histogram_us(labels, &latency.octaves(), latency.count(), latency.sum_ns);
        }
    }

    fn write_ceilings(&self, page: &mut Exposition) {
        let (bytes, counts): (Vec<Resource>, Vec<Resource>) =
            Resource::ALL.iter().partition(|resource| resource.is_bytes());
        let family = page.gauge("nilas_used_bytes", "Bytes in use, by resource and shard.");
        self.by_resource(family, &bytes, |shard, it| Some(shard.used[it.index()].get()));
        let family = page.gauge(
            "nilas_ceiling_bytes",
            "The most that may be used of memory, and with disk_* of the cache device.",
        );
        self.by_resource(family, &bytes, ceiling);
        let family = page.gauge("nilas_used", "Things in use, by resource and shard.");
        self.by_resource(family, &counts, |shard, it| Some(shard.used[it.index()].get()));
        let family = page.gauge("nilas_ceiling", "The most of them that may be in use.");
        self.by_resource(family, &counts, ceiling);
    }

    fn by_resource(
        &self,
        mut family: Family<'_>,
        resources: &[Resource],
        number: fn(&ShardCells, Resource) -> Option<u64>,
    ) {
        for resource in resources {
            let thing = resource.label().trim_end_matches("_bytes");
            for (shard_number, shard) in self.0.shards().iter().enumerate() {
                if let Some(number) = number(shard, *resource) {
                    let shard = shard_number.to_string();
                    family.sample(&[("resource", thing), ("shard", &shard)], number);
                }
            }
        }
    }
}

/// A ceiling of zero is one that nobody set.
pub(super) fn ceiling(shard: &ShardCells, resource: Resource) -> Option<u64> {
    Some(shard.ceilings[resource.index()].get()).filter(|ceiling| *ceiling > 0)
}

type CellOf = fn(&ShardCells) -> &Cell;

fn write_origin(page: &mut Exposition, origin: &OriginSnapshot) {
    type NumberOf = fn(&OperationSnapshot) -> u64;
    let families: [(&'static str, &str, NumberOf); 4] = [
        ("nilas_origin_requests_total", "Requests to the origin.", |it| it.requests),
        (
            "nilas_origin_failures_total",
            "Requests to the origin without an answer, and answers that broke off.",
            |it| it.failures,
        ),
        ("nilas_origin_received_bytes_total", "Body bytes from the origin.", |it| {
            it.bytes_received
        }),
        ("nilas_origin_sent_bytes_total", "Body bytes to the origin.", |it| it.bytes_sent),
    ];
    for (name, help, number) in families {
        let mut family = page.counter(name, help);
        for operation in &origin.operations {
            family.sample(&[("operation", operation.operation.label())], number(operation));
        }
    }
    let mut errors = page.counter("nilas_origin_errors_total", "Error answers of the origin.");
    for it in &origin.operations {
        for (status, count) in [("4xx", it.answers_4xx), ("5xx", it.answers_5xx)] {
            errors.sample(&[("operation", it.operation.label()), ("status", status)], count);
        }
    }
    page.gauge("nilas_origin_in_flight", "Requests at the origin whose answer has not ended.")
        .sample(&[], origin.in_flight);
}

fn write_origin_latency(page: &mut Exposition, origin: &OriginSnapshot) {
    let help = "From a request to the head of the origin's answer.";
    let mut family = page.histogram("nilas_origin_first_byte_seconds", help);
    for it in origin.operations.iter().filter(|it| it.requests > 0) {
        let mut below = 0;
        let borders: Vec<(u64, u64)> = LATENCY_BOUNDS_MICROS
            .iter()
            .zip(&it.first_byte)
            .map(|(border, count)| {
                below += count;
                (*border, below)
            })
            .collect();
        let count = it.first_byte.iter().sum();
        let sum_ns = it.first_byte_micros_total.saturating_mul(1000);
        family.histogram_us(&[("operation", it.operation.label())], &borders, count, sum_ns);
    }
}

impl Metrics {
    /// A number summed over all shards.
    pub fn total(&self, number: impl Fn(&ShardCells) -> u64) -> u64 {
        self.shards().iter().map(|shard| number(shard)).sum()
    }

    /// How often something happened at the origin, over all shards.
    pub fn origin_events(&self, event: OriginEvent) -> u64 {
        self.total(|shard| shard.origin_events[event.index()].get())
    }

    /// Whether the origin is left alone now: the shards share one breaker, and whichever sees it
    /// open or close counts that.
    pub fn is_breaker_open(&self) -> bool {
        let closed = self.origin_events(OriginEvent::BreakerClosed);
        self.origin_events(OriginEvent::BreakerOpened) > closed
    }

    /// Whether there is a cache device.
    pub fn has_disk(&self) -> bool {
        self.shards().iter().any(|shard| ceiling(shard, Resource::DiskDataBytes).is_some())
    }

    /// Whether the start still looks through it; what was not found yet is asked of the origin.
    pub fn is_recovering(&self) -> bool {
        self.has_disk() && self.shards().iter().any(|shard| shard.disk_recovered.get() == 0)
    }

    /// Requests answered, over all shards.
    pub fn requests(&self, operation: Operation, status: StatusClass) -> u64 {
        self.total(|shard| shard.requests[operation.index()][status.index()].get())
    }

    /// The latencies of every operation and tier that has any, over all shards.
    pub fn latencies(&self) -> Vec<(Operation, Tier, HistogramSnapshot)> {
        let mut latencies = Vec::new();
        for operation in Operation::ALL {
            for tier in Tier::ALL {
                let mut snapshot = HistogramSnapshot::default();
                for shard in self.shards() {
                    shard.latencies[operation.index()][tier.index()].add_to(&mut snapshot);
                }
                if snapshot.count() > 0 {
                    latencies.push((*operation, *tier, snapshot));
                }
            }
        }
        latencies
    }
}
