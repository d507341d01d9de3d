//! Traces of lakehouses that never were, from seeds: planners and dashboards that come back to the same
//! footers and columns, and scans that read tables through once.

use nilas_base::{ByteRange, Rng};

use super::trace::{Request, Trace};

/// Bytes of a column chunk of one row group; a file has as many as it has columns.
const CHUNK_BYTES: u64 = 512 << 10;
const COLUMNS: u64 = 16;
/// Bytes of a file's footer, at its end.
const FOOTER_BYTES: u64 = 64 << 10;
/// Bytes of a file.
pub const FILE_BYTES: u64 = COLUMNS * CHUNK_BYTES + FOOTER_BYTES;

/// Workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Dashboards alone: a few columns of a few files, again and again, the popular ones most.
    Dashboards,
    /// The same, while scans read all columns of the whole table once each.
    DashboardsAndScans,
    /// The same scan again and again, of more than the cache holds.
    Loop,
    /// Files that are written, read much, and less each time as new ones come.
    NewFiles,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 4] =
        [Workload::Dashboards, Workload::DashboardsAndScans, Workload::Loop, Workload::NewFiles];

    fn name(self) -> &'static str {
        match self {
            Workload::Dashboards => "dashboards",
            Workload::DashboardsAndScans => "dashboards and scans",
            Workload::Loop => "loop",
            Workload::NewFiles => "new files",
        }
    }

    /// A trace of `reads` reads at least, of a table of so many files; the same from the same seed.
    pub fn generate(self, seed: u64, files: u64, reads: usize) -> Trace {
        let mut writer = Writer { rng: Rng::from_seed(seed), requests: Vec::new() };
        while writer.requests.len() < reads {
            match self {
                Workload::Dashboards => writer.dashboard(files),
                Workload::DashboardsAndScans if writer.rng.chance(1, files * 4) => {
                    writer.scan(0..files);
                }
                Workload::DashboardsAndScans => writer.dashboard(files),
                Workload::Loop => writer.scan(0..files),
                Workload::NewFiles => writer.newest(files, reads),
            }
        }
        Trace { name: self.name().to_owned(), requests: writer.requests }
    }
}

struct Writer {
    rng: Rng,
    requests: Vec<Request>,
}

impl Writer {
    /// One question of a dashboard: the footer and two columns of one file.
    fn dashboard(&mut self, files: u64) {
        let file = self.popular(files);
        self.footer(file);
        for _ in 0..2 {
            let column = self.popular(COLUMNS);
            self.column(file, column);
        }
    }

    fn scan(&mut self, files: std::ops::Range<u64>) {
        for file in files {
            self.footer(file);
            (0..COLUMNS).for_each(|column| self.column(file, column));
        }
    }

    /// A question about one of the newest files; which those are moves on as the trace does.
    fn newest(&mut self, files: u64, reads: usize) {
        let newest = files + self.requests.len() as u64 * files / reads as u64;
        let age = self.popular(files);
        self.footer(newest - age);
        let column = self.popular(COLUMNS);
        self.column(newest - age, column);
    }

    /// A number below `bound`, the small ones more often: each is drawn about as often as its own
    /// reciprocal says.
    fn popular(&mut self, bound: u64) -> u64 {
        let reach = self.rng.below(bound) + 1;
        self.rng.below(reach)
    }

    fn footer(&mut self, file: u64) {
        self.read(file, ByteRange::new(FILE_BYTES - FOOTER_BYTES, FILE_BYTES));
    }

    fn column(&mut self, file: u64, column: u64) {
        self.read(file, ByteRange::new(column * CHUNK_BYTES, (column + 1) * CHUNK_BYTES));
    }

    fn read(&mut self, object: u64, range: ByteRange) {
        self.requests.push(Request { object, length: FILE_BYTES, range });
    }
}

/// Files of a table of so many bytes.
pub fn files_of(table_bytes: u64) -> u64 {
    (table_bytes / FILE_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_trace_and_every_read_lies_in_its_object() {
        for workload in Workload::ALL {
            let trace = workload.generate(7, 20, 3000);
            assert_eq!(trace, workload.generate(7, 20, 3000));
            assert!(trace.requests.len() >= 3000);
            let is_within = |it: &Request| !it.range.is_empty() && it.range.end <= it.length;
            assert!(trace.requests.iter().all(is_within), "{workload:?}");
        }
    }

    #[test]
    fn popular_files_are_read_more_often() {
        let trace = Workload::Dashboards.generate(1, 100, 30_000);
        let reads = |files: std::ops::Range<u64>| {
            trace.requests.iter().filter(|it| files.contains(&it.object)).count()
        };
        assert!(reads(0..20) > 3 * reads(80..100), "{} {}", reads(0..20), reads(80..100));
    }
}
