//! How often a node has asked its origin, read from its admin port's Prometheus page: the proof
//! that a warm figure was warm. Only that one counter is read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Doing, Error, Result};

const COUNTER: &str = "nilas_origin_requests_total";
/// A page is shorter, and comes sooner.
const PAGE_BYTES_MAX: u64 = 4 << 20;
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Requests to the origin so far, by the node whose admin port is `admin`.
pub(super) fn origin_requests(admin: SocketAddr) -> Result<u64> {
    let mut page = String::new();
    let mut stream = TcpStream::connect(admin).doing("connecting to the admin port")?;
    stream.set_read_timeout(Some(ANSWER_MAX)).doing("limiting a wait")?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")
        .and_then(|()| stream.take(PAGE_BYTES_MAX).read_to_string(&mut page))
        .doing("reading the admin port's page")?;
    sum_counter(&page)
}

fn sum_counter(page: &str) -> Result<u64> {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(COUNTER)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())
    });
    let numbers: Option<Vec<u64>> = samples.collect();
    match numbers {
        Some(numbers) if !numbers.is_empty() => Ok(numbers.iter().sum()),
        _ => Err(Error::Answer(format!("the admin port's page has no {COUNTER}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_summed_over_its_labels() {
        let page = "HTTP/1.1 200 OK\r\n\r\n# TYPE nilas_origin_requests_total counter\n\
                    nilas_origin_requests_total{operation=\"get\"} 40\n\
                    nilas_origin_requests_total{operation=\"head\"} 2\n\
                    nilas_origin_requests_total_other 9\n";
        assert_eq!(sum_counter(page).expect("there"), 42);
    }

    #[test]
    fn a_page_without_the_counter_proves_nothing() {
        assert!(sum_counter("HTTP/1.1 401 Unauthorized\r\n\r\n").is_err());
        assert!(sum_counter("nilas_origin_requests_total{operation=\"get\"} many\n").is_err());
    }
}
