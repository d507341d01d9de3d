//! Facts of the machine that a figure needs to be read with: date, cores, kernel, processor.
//! No name, address or path of the machine: records are public.

use nilas_base::{Clock, UnixMillis};

use crate::processor::usable_cores;

const DAY_MS: u64 = 86_400_000;

/// The facts, in the order they are recorded.
pub fn machine_facts(clock: &Clock) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let cores = usable_cores().map_or(0, |cores| cores.len());
    vec![
        fact("date_utc", utc_text(clock.wall())),
        fact("cores", cores.to_string()),
        fact("cpu_model", cpu_model(&read("/proc/cpuinfo"))),
        fact("kernel", kernel_version(&read("/proc/sys/kernel/osrelease"))),
        fact("load_average_before", first_word(&read("/proc/loadavg"))),
    ]
}

/// `2026-01-31T235959Z`: sorts by time, and may stand in a file's name.
pub fn utc_text(wall: UnixMillis) -> String {
    let (year, month, day) = civil_date(wall.0 / DAY_MS);
    let second = wall.0 % DAY_MS / 1000;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of the `days`-th day after 1970-01-01 (Hinnant's `civil_from_days`).
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn cpu_model(cpuinfo: &str) -> String {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned())
}

/// The version without a builder's suffix, which says nothing of the kernel.
fn kernel_version(release: &str) -> String {
    first_word(release.split('-').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc_text(UnixMillis(0)), "1970-01-01T000000Z");
        assert_eq!(utc_text(UnixMillis(951_782_399_999)), "2000-02-28T235959Z");
        assert_eq!(utc_text(UnixMillis(951_782_400_000)), "2000-02-29T000000Z");
        assert_eq!(utc_text(UnixMillis(1_798_761_599_000)), "2026-12-31T235959Z");
    }

    #[test]
    fn the_kernel_is_its_version_alone() {
        assert_eq!(kernel_version("6.18.44-some-builder\n"), "6.18.44");
        assert_eq!(kernel_version(""), "unknown");
    }

    #[test]
    fn the_processor_is_named_as_it_names_itself() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n";
        assert_eq!(cpu_model(cpuinfo), "Some CPU @ 2 GHz");
        assert_eq!(cpu_model(""), "unknown");
    }
}
