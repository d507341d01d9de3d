//! What a node says of itself on its admin port's Prometheus page: how often it has asked its origin,
//! which proves that a warm figure was warm, and the sum of any other family.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Doing, Error, Result};

const ORIGIN_REQUESTS: &str = "nilas_origin_requests_total";
/// A page is shorter, and comes sooner.
const PAGE_BYTES_MAX: u64 = 4 << 20;
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Requests to the origin so far, by the node whose admin port is `admin`.
pub(super) fn origin_requests(admin: SocketAddr) -> Result<u64> {
    Ok(sum_of(admin, ORIGIN_REQUESTS)? as u64)
}

/// The sum of a family's samples, of the node whose admin port is `admin`.
pub(super) fn sum_of(admin: SocketAddr, family: &str) -> Result<f64> {
    let mut page = String::new();
    let mut stream = TcpStream::connect(admin).doing("connecting to the admin port")?;
    stream.set_read_timeout(Some(ANSWER_MAX)).doing("limiting a wait")?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")
        .and_then(|()| stream.take(PAGE_BYTES_MAX).read_to_string(&mut page))
        .doing("reading the admin port's page")?;
    sum_on(&page, family)
}

fn sum_on(page: &str, family: &str) -> Result<f64> {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(family)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())
    });
    let numbers: Option<Vec<f64>> = samples.collect();
    match numbers {
        Some(numbers) if !numbers.is_empty() => Ok(numbers.iter().sum()),
        _ => Err(Error::Answer(format!("the admin port's page has no {family}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_summed_over_its_labels() {
        let page = "HTTP/1.1 200 OK\r\n\r\n# TYPE nilas_origin_requests_total counter\n\
                    nilas_origin_requests_total{operation=\"get\"} 40\n\
                    nilas_origin_requests_total{operation=\"head\"} 2\n\
                    nilas_origin_requests_total_other 9\n\
                    nilas_seconds 0.25\n";
        let sum = sum_on(page, ORIGIN_REQUESTS).expect("there");
        assert!((sum - 42.0).abs() < f64::EPSILON, "{sum}");
        let sum = sum_on(page, "nilas_seconds").expect("there");
        assert!((sum - 0.25).abs() < f64::EPSILON, "{sum}");
    }

    #[test]
    fn a_page_without_the_family_proves_nothing() {
        assert!(sum_on("HTTP/1.1 401 Unauthorized\r\n\r\n", ORIGIN_REQUESTS).is_err());
        let page = "nilas_origin_requests_total{operation=\"get\"} many\n";
        assert!(sum_on(page, ORIGIN_REQUESTS).is_err());
    }
}
