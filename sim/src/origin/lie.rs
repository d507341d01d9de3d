//! Heads that contradict themselves or their bodies: each can be caught by who compares what it says
//! with itself, with what was asked, or with what was known. A lie that nobody could catch is not told.

use std::rc::Rc;

use nilas_base::ByteRange;
use nilas_engine::origin::OriginRequest;

use super::read::Reading;
use super::{SimulatedOrigin, asker};
use crate::history::Asker;

/// The lies.
pub(super) enum Lie {
    /// The length says less or more than the range.
    LengthBesideRange,
    /// A range that ends before it starts, or beyond the object.
    ImpossibleRange,
    /// No range where a part follows.
    RangeMissing,
    /// No ETag.
    EtagMissing,
    /// An ETag that cannot be compared byte by byte.
    EtagWeak,
    /// The same bytes under a name that is not the object's.
    EtagAlias,
    /// Another range than was asked for, and honestly so.
    OtherRange,
    /// The object's current version, whatever version was asked for.
    MatchIgnored,
}

impl SimulatedOrigin {
    /// Turns an answer into a lie, where one fits.
    pub(super) fn tell_a_lie(self: &Rc<Self>, reading: &mut Reading, request: &OriginRequest) {
        let lie = match self.below(8) {
            0 => Lie::LengthBesideRange,
            1 => Lie::ImpossibleRange,
            2 => Lie::RangeMissing,
            3 => Lie::EtagMissing,
            4 => Lie::EtagWeak,
            5 => Lie::EtagAlias,
            6 => Lie::OtherRange,
            _ => Lie::MatchIgnored,
        };
        let is_read = matches!(reading.status, 200 | 206);
        match lie {
            Lie::MatchIgnored if reading.status == 412 && asker(request) == Asker::Fill => {
                super::read::serve_slice(reading, request);
            }
            // A client of its own is told the truth about what nobody can check for it.
            _ if !is_read || asker(request) == Asker::Client => {}
            Lie::EtagMissing => reading.etag = None,
            Lie::EtagWeak => reading.etag = reading.etag.take().map(|etag| format!("W/{etag}")),
            Lie::EtagAlias => {
                let mark = self.below(1000);
                let alias = |etag: String| format!("{}-{mark}\"", etag.trim_end_matches('"'));
                reading.etag = reading.etag.take().map(alias);
            }
            _ if reading.status == 206 => self.bend_range(&lie, reading),
            _ => {}
        }
    }

    fn bend_range(&self, lie: &Lie, reading: &mut Reading) {
        let (length, slice) = (reading.length, reading.slice);
        match lie {
            Lie::LengthBesideRange => {
                reading.announced = slice.len() + 1 + self.below(9);
                reading.is_lie = true;
            }
            Lie::ImpossibleRange => {
                let last = slice.end - 1;
                reading.content_range = Some(match self.below(2) {
                    0 => format!("bytes {}-{last}/{length}", last + 1),
                    _ => format!("bytes {}-{last}/{}", slice.start, slice.end - 1),
                });
                reading.is_lie = true;
            }
            Lie::RangeMissing => {
                reading.content_range = None;
                reading.is_lie = true;
            }
            _ => {
                let start = self.below(length);
                let slice = ByteRange::new(start, start + 1 + self.below(length - start));
                reading.slice = slice;
                reading.announced = slice.len();
                let last = slice.end - 1;
                reading.content_range = Some(format!("bytes {start}-{last}/{length}"));
            }
        }
    }
}
