//! Where the bytes of a question's answer go: cut at block borders, each piece is offered to the
//! block's owner, who takes it unless it has it, or fetches it, or has no room. Readers find the
//! bytes there as they arrive. Pieces that nobody takes are not read from the origin to the end.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use nilas_base::ByteRange;
use tokio::sync::mpsc;

use super::plan::FIRST_BODY_BYTES_MAX;
use crate::call::{AdoptCall, BlockWant, Call};
use crate::mapping::{Mapping, StoreClass};
use crate::origin::{AnswerBody, Signer};
use crate::shard::Shard;

/// Chunks that wait between the answer's body and a block's owner.
const CHUNKS_WAITING_MAX: usize = 2;

/// A piece of the object that an owner waits for.
struct Taken {
    range: ByteRange,
    owner: mpsc::Sender<Bytes>,
}

/// Offers the body, which holds `range` of the object, to the owners of its blocks; returns when
/// all have decided, so that whoever asks them now finds the bytes announced.
pub async fn spread(
    shard: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    signer: &Signer,
    (range, body): (ByteRange, AnswerBody),
) {
    let mut taken = Vec::new();
    for piece in pieces(shard, mapping, range) {
        taken.extend(offer(shard, mapping, signer, piece).await);
    }
    if !taken.is_empty() {
        shard.spawn(pour(Rc::clone(shard), body, range.start, taken));
    }
}

/// The whole sectors of `range`, cut at the borders of blocks and stores; the object's end counts as a sector's.
fn pieces(shard: &Shard, mapping: &Mapping, range: ByteRange) -> Vec<(StoreClass, ByteRange)> {
    let mut pieces = Vec::new();
    let mut rest = range;
    while !rest.is_empty() && rest.start - range.start < FIRST_BODY_BYTES_MAX {
        let (class, part) = mapping.first_of_a_class(rest);
        let index = shard.geometry.block_index(part.start);
        let block = shard.geometry.block_range(index, mapping.length);
        let end = block.end.min(part.end);
        let sectors = whole_sectors(shard, mapping, (class, ByteRange::new(part.start, end)));
        pieces.extend(sectors.map(|sectors| (class, sectors)));
        rest.start = end;
    }
    pieces
}

/// The whole sectors of a part of a block; where the object ends, one does. Where its tail begins within a sector of
/// data, that sector is left to its readers: pieces do not overlap.
fn whole_sectors(
    shard: &Shard,
    mapping: &Mapping,
    (class, part): (StoreClass, ByteRange),
) -> Option<ByteRange> {
    let sector_bytes = shard.settings.sector_bytes(class);
    let start = part.start.next_multiple_of(sector_bytes);
    let end = match part.end == mapping.length {
        true => part.end,
        false => part.end / sector_bytes * sector_bytes,
    };
    (start < end).then(|| ByteRange::new(start, end))
}

async fn offer(
    shard: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    signer: &Signer,
    (class, piece): (StoreClass, ByteRange),
) -> Option<Taken> {
    let (owner, bytes) = mpsc::channel(CHUNKS_WAITING_MAX);
    let index = shard.geometry.block_index(piece.start);
    let block_start = u64::from(index) * shard.geometry.block_bytes;
    let want = BlockWant {
        mapping: Arc::clone(mapping),
        index,
        range: ByteRange::new(piece.start - block_start, piece.end - block_start),
        class,
        is_own: false,
        signer: signer.clone(),
    };
    let to = shard.geometry.owner(mapping.home_hash, index);
    let call = Box::new(Call::Adopt(AdoptCall { want, bytes: Some(bytes) }));
    match *shard.call(to, call).await {
        Call::Adopt(AdoptCall { bytes: None, .. }) => Some(Taken { range: piece, owner }),
        _ => None,
    }
}

/// Pours the body into the pieces. Owners notice by the closed channel when it breaks off.
async fn pour(shard: Rc<Shard>, mut body: AnswerBody, start: u64, taken: Vec<Taken>) {
    let mut at = start;
    let mut taken = taken.into_iter().peekable();
    while taken.peek().is_some() {
        let Some(Ok(chunk)) = shard.origin.next(&mut body).await else { return };
        let chunk_range = ByteRange::new(at, at + chunk.len() as u64);
        at = chunk_range.end;
        while let Some(piece) = taken.peek() {
            if let Some(part) = piece.range.intersection(chunk_range) {
                let offset = (part.start - chunk_range.start) as usize;
                let bytes = chunk.slice(offset..offset + part.len() as usize);
                // An owner that went away no longer wants it.
                let _ = piece.owner.send(bytes).await;
            }
            if piece.range.end > chunk_range.end {
                break;
            }
            taken.next();
        }
    }
}
