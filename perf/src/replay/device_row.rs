//! One line of the record of the replay suite with a cache device, and its table. Its ratio, which later records are
//! compared by, is of bytes from the origin to bytes that were wanted.

use std::fmt::Write;

use super::device::DeviceTally;
use crate::record::{RecordRow, number, plain};

/// What one node made of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    /// `replay-device`.
    pub suite: String,
    /// Nilas's version.
    pub version: String,
    /// The trace's name.
    pub trace: String,
    /// `cache.eviction`.
    pub eviction: String,
    /// `disk.admission`.
    pub admission: String,
    /// `disk.carry_over`.
    pub carry_over: String,
    /// Memory, in hundredths of the bytes that the trace reads of.
    pub share: u64,
    /// The device's area for data, in the same.
    pub device_share: u64,
    /// What became of the reads.
    pub tally: DeviceTally,
}

impl RecordRow for DeviceRow {
    const COLUMNS: &'static str = "suite,version,trace,eviction,admission,carry_over,share,\
device_share,requests,origin_reads,device_reads,bytes,origin_bytes,device_bytes,origin_requests,\
fetched_bytes,written_bytes,admitted_bytes";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.trace, &self.eviction, &self.admission];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let DeviceRow { carry_over, share, device_share, tally, .. } = self;
        let _ = write!(text, "{},{share},{device_share}", plain(carry_over));
        let DeviceTally { requests, origin_reads, device_reads, bytes, .. } = tally;
        let _ = write!(text, ",{requests},{origin_reads},{device_reads},{bytes}");
        let DeviceTally { origin_bytes, device_bytes, origin_requests, .. } = tally;
        let _ = write!(text, ",{origin_bytes},{device_bytes},{origin_requests}");
        let DeviceTally { fetched_bytes, written_bytes, admitted_bytes, .. } = tally;
        let _ = writeln!(text, ",{fetched_bytes},{written_bytes},{admitted_bytes}");
    }

    fn from_fields(fields: &[&str]) -> Result<DeviceRow, String> {
        let name = |place: usize| fields[place].to_owned();
        Ok(DeviceRow {
            suite: name(0),
            version: name(1),
            trace: name(2),
            eviction: name(3),
            admission: name(4),
            carry_over: name(5),
            share: number(fields[6])?,
            device_share: number(fields[7])?,
            tally: DeviceTally {
                requests: number(fields[8])?,
                origin_reads: number(fields[9])?,
                device_reads: number(fields[10])?,
                bytes: number(fields[11])?,
                origin_bytes: number(fields[12])?,
                device_bytes: number(fields[13])?,
                origin_requests: number(fields[14])?,
                fetched_bytes: number(fields[15])?,
                written_bytes: number(fields[16])?,
                admitted_bytes: number(fields[17])?,
            },
        })
    }

    fn name(&self) -> String {
        let DeviceRow { suite, trace, eviction, admission, carry_over, share, .. } = self;
        let device = self.device_share;
        format!("{suite} {trace}, {eviction}, {admission}, {carry_over}, {share} % and {device} %")
    }

    fn ratio(&self) -> f64 {
        self.tally.origin_bytes as f64 / self.tally.bytes.max(1) as f64
    }
}

/// The rows as a Markdown table.
pub fn device_table(rows: &[DeviceRow]) -> String {
    let mut text =
        "| trace | memory, device, % of what is read | eviction | admission | carry-over \
        | reads from memory, device, origin, % | bytes from memory, device, origin, % \
        | origin requests | MiB admitted | MiB written | by served | by admitted |\n\
        |---|---|---|---|---|---|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let DeviceRow {
            trace, share, device_share, eviction, admission, carry_over, tally, ..
        } = row;
        let reads = thirds(tally.requests, tally.device_reads, tally.origin_reads);
        let bytes = thirds(tally.bytes, tally.device_bytes, tally.origin_bytes);
        let _ = write!(text, "| {trace} | {share}, {device_share} | {eviction} | {admission} ");
        let _ = write!(text, "| {carry_over} | {reads} | {bytes} | {} ", tally.origin_requests);
        let (admitted, written) = (tally.admitted_bytes >> 20, tally.written_bytes >> 20);
        let (by_served, by_admitted) = (tally.written_by_served(), tally.amplification());
        let _ = writeln!(text, "| {admitted} | {written} | {by_served:.3} | {by_admitted:.2} |");
    }
    text
}

/// The shares of memory, the device and the origin, in hundredths.
fn thirds(all: u64, device: u64, origin: u64) -> String {
    let share = |part: u64| 100.0 * part as f64 / all.max(1) as f64;
    let memory = all - device - origin;
    format!("{:.1}, {:.1}, {:.1}", share(memory), share(device), share(origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let tally = DeviceTally {
            requests: 10,
            origin_reads: 2,
            device_reads: 3,
            bytes: 1000,
            origin_bytes: 100,
            device_bytes: 200,
            origin_requests: 4,
            fetched_bytes: 150,
            written_bytes: 3 << 20,
            admitted_bytes: 2 << 20,
        };
        let row = DeviceRow {
            suite: "replay-device".to_owned(),
            version: "1".to_owned(),
            trace: "loop".to_owned(),
            eviction: "lru".to_owned(),
            admission: "always".to_owned(),
            carry_over: "never".to_owned(),
            share: 5,
            device_share: 20,
            tally,
        };
        let record = Record { facts: Vec::new(), rows: vec![row] };
        assert_eq!(Record::from_csv(&record.to_csv()).expect("it is a record"), record);
        let table = device_table(&record.rows);
        assert!(table.contains("| 50.0, 30.0, 20.0 | 70.0, 20.0, 10.0 | 4 | 2 | 3 |"), "{table}");
    }
}
