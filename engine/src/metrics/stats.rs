//! The same numbers as the Prometheus page, as JSON, with quantiles instead of buckets. Made on the
//! asker's thread, like the page; see `family` for what each number means.

use serde_json::{Map, Value, json};

use super::Metrics;
use super::cell::Cell;
use super::family::{LOOKUP_TIERS, ceiling};
use super::label::{
    DiskCount, Failure, FillEnd, JournalCount, Operation, OriginEvent, PurgeKind, Resource,
    StatusClass, Tier, WriteAllocation,
};
use super::shard::ShardCells;
use crate::origin::OriginSnapshot;

/// Everything that is counted.
pub fn stats_json(metrics: &Metrics, origin: Option<&OriginSnapshot>) -> Value {
    let total = |cell: fn(&ShardCells) -> &Cell| metrics.total(|shard| cell(shard).get());
    json!({
        "cache": {
            "hits": by_tier(metrics, &LOOKUP_TIERS, |shard| &shard.hits),
            "misses": by_tier(metrics, &LOOKUP_TIERS, |shard| &shard.misses),
            "evictions": by_tier(metrics, &LOOKUP_TIERS, |shard| &shard.evictions),
            "fills_begun": total(|shard| &shard.fills_begun),
            "fills_ended": by_label(FillEnd::ALL.iter().map(|how| {
                (how.label(), metrics.total(|shard| shard.fills_ended[how.index()].get()))
            })),
            "filled_bytes": total(|shard| &shard.filled_bytes),
            "purges": by_label(PurgeKind::ALL.iter().map(|kind| {
                (kind.label(), metrics.total(|shard| shard.purges[kind.index()].get()))
            })),
            "write_allocations": by_label(WriteAllocation::ALL.iter().map(|how| {
                (how.label(), metrics.total(|shard| shard.write_allocations[how.index()].get()))
            })),
            "mappings_installed": total(|shard| &shard.mappings_installed),
            "mappings_invalidated": total(|shard| &shard.mappings_invalidated),
        },
        "disk": by_label(DiskCount::ALL.iter().map(|what| {
            (what.label(), metrics.total(|shard| shard.disk[what.index()].get()))
        })),
        "journal": by_label(JournalCount::ALL.iter().map(|what| {
            (what.label(), metrics.total(|shard| shard.journal[what.index()].get()))
        })),
        "clients": {
            "sent_bytes": by_tier(metrics, Tier::ALL, |shard| &shard.sent_bytes),
            "received_bytes": total(|shard| &shard.received_bytes),
            "connections_opened": total(|shard| &shard.connections_opened),
            "connections_closed": total(|shard| &shard.connections_closed),
            "requests": requests(metrics),
            "latencies": latencies(metrics),
        },
        "failures": by_label(Failure::ALL.iter().map(|kind| {
            (kind.label(), metrics.total(|shard| shard.failures[kind.index()].get()))
        })),
        "origin_events": by_label(OriginEvent::ALL.iter().map(|event| {
            (event.label(), metrics.origin_events(*event))
        })),
        "disk_failing": metrics.cache_device().is_failing(),
        "disk_files_lost": metrics.cache_device().files_lost(),
        "origin_breaker_open": metrics.is_breaker_open(),
        "shards": metrics.shards().iter().map(|shard| one_shard(shard)).collect::<Vec<_>>(),
        "origin": origin.map(origin_json),
    })
}

fn by_label(entries: impl Iterator<Item = (&'static str, u64)>) -> Value {
    Value::Object(entries.map(|(label, number)| (label.to_owned(), json!(number))).collect())
}

fn by_tier(
    metrics: &Metrics,
    tiers: &[Tier],
    cells: fn(&ShardCells) -> &[Cell; Tier::COUNT],
) -> Value {
    by_label(
        tiers
            .iter()
            .map(|tier| (tier.label(), metrics.total(|shard| cells(shard)[tier.index()].get()))),
    )
}

fn requests(metrics: &Metrics) -> Value {
    let one = |operation: &Operation| {
        let classes = StatusClass::ALL.iter();
        let counts = classes.map(|class| (class.label(), metrics.requests(*operation, *class)));
        (operation.label().to_owned(), by_label(counts.filter(|(_, count)| *count > 0)))
    };
    Value::Object(Operation::ALL.iter().map(one).collect::<Map<_, _>>())
}

fn latencies(metrics: &Metrics) -> Vec<Value> {
    let told = metrics.latencies().into_iter().map(|(operation, tier, latency)| {
        json!({
            "operation": operation.label(),
            "tier": tier.label(),
            "count": latency.count(),
            "mean_us": latency.sum_ns / latency.count().max(1) / 1000,
            "p50_us": latency.quantile_us(500),
            "p90_us": latency.quantile_us(900),
            "p99_us": latency.quantile_us(990),
            "p999_us": latency.quantile_us(999),
        })
    });
    told.collect()
}

fn one_shard(shard: &ShardCells) -> Value {
    let resources = Resource::ALL.iter().map(|resource| {
        let numbers = json!({
            "used": shard.used[resource.index()].get(),
            "ceiling": ceiling(shard, *resource),
        });
        (resource.label().to_owned(), numbers)
    });
    json!({
        "connections_opened": shard.connections_opened.get(),
        "connections_closed": shard.connections_closed.get(),
        "leases": shard.leases.get(),
        "exchange_calls": shard.exchange_calls.get(),
        "resources": resources.collect::<Map<_, _>>(),
    })
}

fn origin_json(origin: &OriginSnapshot) -> Value {
    let operations = origin.operations.iter().map(|it| {
        let numbers = json!({
            "requests": it.requests,
            "failures": it.failures,
            "answers_4xx": it.answers_4xx,
            "answers_5xx": it.answers_5xx,
            "received_bytes": it.bytes_received,
            "sent_bytes": it.bytes_sent,
            "first_byte_us_total": it.first_byte_micros_total,
        });
        (it.operation.label().to_owned(), numbers)
    });
    json!({
        "requests": origin.requests(),
        "received_bytes": origin.bytes_received(),
        "in_flight": origin.in_flight,
        "operations": operations.collect::<Map<_, _>>(),
    })
}
