//! Places among the requests in flight at the origin: so many requests, and so much memory for the
//! bodies of their answers on their way. Taken in order; kept until an answer's body has ended.

use std::sync::Arc;

use http::Method;
use http::header::RANGE;
use nilas_net::range::{RangeForm, SingleRange, parse_range};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::port::PortLimits;
use super::{BODY_PART_BYTES_MAX, BODY_PARTS_MAX, OriginRequest};

/// What an answer's body holds at most on its way: the parts that wait, the one being received and
/// the one being read.
const BODY_BYTES_MAX: u64 = ((BODY_PARTS_MAX + 2) * BODY_PART_BYTES_MAX) as u64;
/// What the least answer is counted with.
const SMALL_BODY_BYTES: u64 = 16 << 10;
/// The grain in which memory is counted.
const UNIT_BYTES: u64 = 1 << 10;

/// All places; clones are the same ones.
#[derive(Clone, Debug)]
pub(super) struct Places {
    requests: Arc<Semaphore>,
    units: Arc<Semaphore>,
    units_max: u32,
}

/// One request's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    _request: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: PortLimits) -> Places {
        let units_max = u32::try_from(limits.bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        Places {
            requests: Arc::new(Semaphore::new(limits.in_flight_max)),
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
        }
    }

    /// Waits for a place, in turn, for a request whose answer's body is counted with so much.
    pub(super) async fn take(&self, body_bytes: u64) -> Place {
        let open = "the semaphores are never closed";
        let units = body_bytes.div_ceil(UNIT_BYTES).min(u64::from(self.units_max));
        let _request = Arc::clone(&self.requests).acquire_owned().await.expect(open);
        let _units = Arc::clone(&self.units).acquire_many_owned(units as u32).await.expect(open);
        Place { _request, _units }
    }

    /// Memory reserved, and the most that may be.
    pub(super) fn reserved_bytes(&self) -> (u64, u64) {
        let max = u64::from(self.units_max) * UNIT_BYTES;
        (max - self.units.available_permits() as u64 * UNIT_BYTES, max)
    }
}

/// What the answer's body may hold on its way.
pub(super) fn body_bytes(request: &OriginRequest) -> u64 {
    if request.method != Method::GET {
        return SMALL_BODY_BYTES;
    }
    let asked = match request.headers.get(RANGE).map(|range| parse_range(range.as_bytes())) {
        Some(RangeForm::Single(SingleRange::FromTo { first, last })) => {
            last.saturating_sub(first).saturating_add(1)
        }
        Some(RangeForm::Single(SingleRange::Last { length })) => length,
        _ => BODY_BYTES_MAX,
    };
    asked.clamp(SMALL_BODY_BYTES, BODY_BYTES_MAX)
}
