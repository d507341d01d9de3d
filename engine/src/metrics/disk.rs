//! The families of the cache device and of the journal of mappings on it, which a node without a device
//! does not have. Nothing is counted here; see `shard` for the cells.

use super::Metrics;
use super::exposition::Exposition;
use super::label::{DiskCount, JournalCount, Resource};

/// Writes them, where there is a device.
pub(super) fn write(metrics: &Metrics, page: &mut Exposition) {
    if !metrics.has_disk() {
        return;
    }
    let count = |what: DiskCount| metrics.total(|shard| shard.disk[what.index()].get());
    for (what, name, help) in FAMILIES {
        page.counter(name, help).sample(&[], count(what));
    }
    let help = "What the cache device did not do as it should, by kind.";
    let mut faults = page.counter("nilas_disk_faults_total", help);
    for what in FAULTS {
        faults.sample(&[("kind", what.label())], count(what));
    }
    let device = metrics.cache_device();
    faults.sample(&[("kind", "file_lost")], device.files_lost());
    let help =
        "One from the cache device's first fault until it has worked for a minute without another.";
    page.gauge("nilas_disk_failing", help).sample(&[], u8::from(device.is_failing()));
    write_recovery(metrics, page);
    write_journal(metrics, page);
}

fn write_recovery(metrics: &Metrics, page: &mut Exposition) {
    let count = |what: DiskCount| metrics.total(|shard| shard.disk[what.index()].get());
    let help = "One when all that the cache device held at the start has been found.";
    page.gauge("nilas_disk_recovered", help).sample(&[], u8::from(!metrics.is_recovering()));
    let help = "How long the start has looked through the cache device, the slowest shard; zero until it ends.";
    let micros = |shard: &super::ShardCells| shard.disk[DiskCount::RecoveryMicros.index()].get();
    let slowest = metrics.shards().iter().map(|shard| micros(shard)).max().unwrap_or(0);
    let is_known = u64::from(!metrics.is_recovering());
    page.gauge("nilas_disk_recovery_seconds", help).sample(&[], (slowest * is_known) as f64 / 1e6);
    let help =
        "Segments that the start has looked at: all, such as were read through, and damaged ones.";
    let mut segments = page.gauge("nilas_disk_recovery_segments", help);
    for (kind, what) in [
        ("all", DiskCount::RecoverySegments),
        ("unsealed", DiskCount::RecoveryUnsealed),
        ("damaged", DiskCount::RecoveryDamaged),
    ] {
        segments.sample(&[("kind", kind)], count(what));
    }
    let help = "Records that the start has found.";
    page.gauge("nilas_disk_recovery_records", help).sample(&[], count(DiskCount::RecoveryRecords));
}

fn write_journal(metrics: &Metrics, page: &mut Exposition) {
    let count = |what: JournalCount| metrics.total(|shard| shard.journal[what.index()].get());
    let help = "Bytes that the journals of mappings take of their areas.";
    let bytes = metrics.total(|shard| shard.used[Resource::DiskMappingBytes.index()].get());
    page.gauge("nilas_journal_used_bytes", help).sample(&[], bytes);
    for (what, name, help) in JOURNAL_FAMILIES {
        page.counter(name, help).sample(&[], count(what));
    }
    let help = "Journals of mappings that cannot be written any more: until the next start, nothing more outlives the node.";
    page.gauge("nilas_journal_failed", help).sample(&[], count(JournalCount::Failed));
    let help = "Journals of mappings of which nothing was believed at the start.";
    page.gauge("nilas_journal_damaged", help).sample(&[], count(JournalCount::Damaged));
    let help = "Entries that the start has found in the journals of mappings.";
    page.gauge("nilas_journal_replayed_entries", help).sample(&[], count(JournalCount::Replayed));
}

const FAMILIES: [(DiskCount, &str, &str); 9] = [
    (DiskCount::Hits, "nilas_disk_hits_total", "Reads that the cache device answered."),
    (DiskCount::ReadBytes, "nilas_disk_read_bytes_total", "Bytes read from the cache device."),
    (
        DiskCount::WrittenBytes,
        "nilas_disk_written_bytes_total",
        "Bytes written to the cache device.",
    ),
    (
        DiskCount::Refused,
        "nilas_disk_refused_total",
        "Runs of bytes that were not kept on the cache device, for want of a buffer, a segment or memory.",
    ),
    (
        DiskCount::Unadmitted,
        "nilas_disk_unadmitted_total",
        "Runs of bytes that disk.admission did not let onto the cache device.",
    ),
    (
        DiskCount::AdmittedBytes,
        "nilas_disk_admitted_bytes_total",
        "Bytes from the origin that were let onto the cache device, as far as there was room for them.",
    ),
    (
        DiskCount::Evictions,
        "nilas_disk_evictions_total",
        "Records that left the cache device to make room.",
    ),
    (DiskCount::Reclaimed, "nilas_disk_segments_reclaimed_total", "Segments that were emptied."),
    (
        DiskCount::CarriedBytes,
        "nilas_disk_carried_bytes_total",
        "Bytes that were carried over from segments that were emptied.",
    ),
];

const FAULTS: [DiskCount; 8] = [
    DiskCount::Damaged,
    DiskCount::DamagedSegments,
    DiskCount::ReadFailures,
    DiskCount::ReadTimeouts,
    DiskCount::WriteFailures,
    DiskCount::JournalTimeouts,
    DiskCount::JournalFailures,
    DiskCount::JournalsFull,
];

const JOURNAL_FAMILIES: [(JournalCount, &str, &str); 5] = [
    (JournalCount::Entries, "nilas_journal_entries_total", "Entries appended to the journals."),
    (
        JournalCount::Dropped,
        "nilas_journal_dropped_entries_total",
        "Entries that found no room in a journal's queue.",
    ),
    (JournalCount::Batches, "nilas_journal_batches_total", "Batches of entries written."),
    (JournalCount::Syncs, "nilas_journal_syncs_total", "Syncs of the journals."),
    (
        JournalCount::Checkpoints,
        "nilas_journal_checkpoints_total",
        "Checkpoints that have ended: what was live was appended anew, and the rest forgotten.",
    ),
];
