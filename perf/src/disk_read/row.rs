//! One line of the record of the disk-read suite, and its table. Its ratio, which later records are
//! compared by, is of the node to fio, or to the node itself when it does nothing else.

use std::fmt::Write;

use crate::record::{RecordRow, number, plain};

/// What the node did of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskReadRow {
    /// `disk-read`.
    pub suite: String,
    /// Nilas's version.
    pub version: String,
    /// Of what kind.
    pub what: String,
    /// What the next two figures are.
    pub unit: String,
    /// fio's, or the node's alone.
    pub reference: f64,
    /// The node's.
    pub nilas: f64,
    /// The second by the first, burst by burst.
    pub ratio: f64,
    /// Processor time of the server, µs a request, or a MiB where it fills; 0 where it was not asked.
    pub server_us: f64,
    /// The median latency, µs.
    pub p50_us: f64,
    /// The 99th percentile, µs.
    pub p99_us: f64,
    /// The part of the time in which the load's thread ran: near 1, it was the bottleneck.
    pub client_busy: f64,
}

/// What is aimed at.
enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn of(row: &DiskReadRow) -> Option<Aim> {
        match row.what.as_str() {
            "hits of 64 KiB" => Some(Aim::AtLeast(0.85)),
            "hits of 4 KiB" | "fills" => Some(Aim::AtLeast(0.7)),
            "written" => Some(Aim::AtMost(1.3)),
            "p99 while filling" => Some(Aim::AtMost(2.0)),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Aim::AtLeast(ratio) => format!("≥ {ratio}"),
            Aim::AtMost(ratio) => format!("≤ {ratio}"),
        }
    }

    fn is_met(&self, ratio: f64) -> bool {
        match self {
            Aim::AtLeast(least) => ratio >= *least,
            Aim::AtMost(most) => ratio <= *most,
        }
    }
}

impl RecordRow for DiskReadRow {
    const COLUMNS: &'static str =
        "suite,version,what,unit,reference,nilas,ratio,server_us,p50_us,p99_us,client_busy";

    fn write_to(&self, text: &mut String) {
        let names = [&self.suite, &self.version, &self.what, &self.unit];
        names.iter().for_each(|name| text.push_str(&(plain(name) + ",")));
        let _ = write!(text, "{:.2},{:.2},{:.3}", self.reference, self.nilas, self.ratio);
        let _ = write!(text, ",{:.2},{:.1},{:.1}", self.server_us, self.p50_us, self.p99_us);
        let _ = writeln!(text, ",{:.2}", self.client_busy);
    }

    fn from_fields(fields: &[&str]) -> Result<DiskReadRow, String> {
        let figure = |at: usize| number(fields[at]);
        Ok(DiskReadRow {
            suite: fields[0].to_owned(),
            version: fields[1].to_owned(),
            what: fields[2].to_owned(),
            unit: fields[3].to_owned(),
            reference: figure(4)?,
            nilas: figure(5)?,
            ratio: figure(6)?,
            server_us: figure(7)?,
            p50_us: figure(8)?,
            p99_us: figure(9)?,
            client_busy: figure(10)?,
        })
    }

    fn name(&self) -> String {
        format!("{} {}", self.suite, self.what)
    }

    /// Records are compared by what is worse the more of it there is.
    fn ratio(&self) -> f64 {
        match Aim::of(self) {
            Some(Aim::AtLeast(_)) => 1.0 / self.ratio,
            _ => self.ratio,
        }
    }
}

/// The rows as a Markdown table.
pub fn disk_read_table(rows: &[DiskReadRow]) -> String {
    let mut text =
        "| what | unit | fio, or idle | nilas | ratio | aim | server, µs | p50, µs | p99, µs \
                    | load busy |\n|---|---|---:|---:|---:|---|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let DiskReadRow { what, unit, reference, nilas, ratio, .. } = row;
        let aim = Aim::of(row).map_or(String::new(), |aim| aim.text());
        let _ =
            write!(text, "| {what} | {unit} | {reference:.1} | {nilas:.1} | {ratio:.2} | {aim} ");
        let DiskReadRow { server_us, p50_us, p99_us, client_busy, .. } = row;
        let _ = write!(text, "| {server_us:.1} | {p50_us:.0} | {p99_us:.0} ");
        let _ = writeln!(text, "| {client_busy:.2} |");
    }
    text
}

/// The aims that are missed, in words.
pub fn missed_aims(rows: &[DiskReadRow]) -> Option<String> {
    let missed: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let aim = Aim::of(row)?;
            let (what, ratio) = (&row.what, row.ratio);
            (!aim.is_met(ratio)).then(|| format!("{what}: {ratio:.2}, aim {}", aim.text()))
        })
        .collect();
    (!missed.is_empty()).then(|| format!("aims missed: {}", missed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, ratio: f64) -> DiskReadRow {
        DiskReadRow {
            suite: "disk-read".to_owned(),
            version: "1".to_owned(),
            what: what.to_owned(),
            unit: "requests/s".to_owned(),
            ratio,
            ..DiskReadRow::default()
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let mut text = String::new();
        let written = DiskReadRow { server_us: 20.5, p99_us: 900.0, ..row("fills", 0.75) };
        written.write_to(&mut text);
        let fields: Vec<&str> = text.trim_end().split(',').collect();
        assert_eq!(fields.len(), DiskReadRow::COLUMNS.split(',').count());
        assert_eq!(DiskReadRow::from_fields(&fields), Ok(written));
    }

    #[test]
    fn what_grows_when_it_becomes_worse_is_what_records_are_compared_by() {
        assert!(row("fills", 0.5).ratio() > row("fills", 0.6).ratio());
        assert!(row("written", 1.2).ratio() > row("written", 1.1).ratio());
    }

    #[test]
    fn aims_bind_from_their_own_side() {
        let rows = [row("fills", 0.71), row("written", 1.29), row("p99 while filling", 2.5)];
        assert_eq!(missed_aims(&rows[..2]), None);
        let missed = missed_aims(&rows).expect("one");
        assert_eq!(missed, "aims missed: p99 while filling: 2.50, aim ≤ 2");
    }
}
