//! Many large uploads at once, to an origin that throws them away: the node's memory is that of its
//! budgets, not of the uploads. Who is told to slow down tries again, as every SDK does.

use std::io::Write;
use std::time::Duration;

use nilas_base::{Clock, GIB, MIB};

use super::form::{Body, unsigned_head};
use super::uploader::Uploader;
use super::{NILAS, UploadOptions};
use crate::error::{Error, Result};
use crate::link::Link;
use crate::processor::usable_cores;
use crate::server::{NodePlan, Server, start_node, start_upload_origin};

/// 256 MiB in all, with 160 MiB for data: what `docs/OPERATIONS.md` calls the budget.
const FLAGS: [&str; 3] =
    ["--cache.metadata_bytes=32MiB", "--cache.mapping_bytes=16MiB", "--limits.buffer_bytes=48MiB"];
const BUDGET_BYTES: u64 = 256 * MIB;
/// What `docs/OPERATIONS.md` promises beside the budgets.
const OVERHEAD_BYTES_MAX: u64 = 64 * MIB;
const UPLOAD_BYTES: u64 = GIB;
const PIECE_BYTES: u64 = MIB;
/// How often an upload is begun at most.
const TRIES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(500);

/// Runs the flood; its facts, or an error when the node's memory went over its ceiling.
pub fn measure(options: &UploadOptions, progress: &mut dyn Write) -> Result<Vec<(String, String)>> {
    let cores = usable_cores()?;
    let origin = start_upload_origin(Link::NONE, true, &cores)?;
    let flags = FLAGS.map(str::to_owned).to_vec();
    let node = start_node(&NodePlan { flags, ..options.node(origin.address, &cores) })?;
    let clock = Clock::system();
    let began = clock.now();
    write_side_by_side(&node, options.flood)?;
    let seconds = clock.now().since(began).as_secs_f64();
    let resident_bytes = node.resident_bytes_max()?;
    let (uploads, mebibytes) = (options.flood, resident_bytes / MIB);
    // A progress line that cannot be written is no reason to lose the run.
    let _ = writeln!(
        progress,
        "{NILAS}, {uploads} uploads of 1 GiB at once: {seconds:.1} s, {mebibytes} MiB at most"
    );
    if resident_bytes > BUDGET_BYTES + OVERHEAD_BYTES_MAX {
        let ceiling = (BUDGET_BYTES + OVERHEAD_BYTES_MAX) / MIB;
        return Err(Error::Failed(format!("{mebibytes} MiB are over the ceiling, {ceiling} MiB")));
    }
    let facts = [
        ("flood_uploads", uploads.to_string()),
        ("flood_seconds", format!("{seconds:.1}")),
        ("flood_resident_mib_max", mebibytes.to_string()),
    ];
    Ok(facts.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

fn write_side_by_side(node: &Server, uploads: usize) -> Result<()> {
    let piece = Body::seeded(PIECE_BYTES as usize);
    let piece = piece.as_slice();
    std::thread::scope(|scope| {
        let write = |number: usize| {
            let key = format!("flood-{number}.parquet");
            let head = unsigned_head(node.address, &key, UPLOAD_BYTES)?;
            let count = (UPLOAD_BYTES / PIECE_BYTES) as usize;
            let send = || Uploader::open(node.address)?.send_repeated(&head, piece, count);
            for _ in 1..TRIES_MAX {
                match send() {
                    Ok(()) => return Ok(()),
                    Err(_) => std::thread::park_timeout(PAUSE),
                }
            }
            send()
        };
        let threads: Vec<_> = (0..uploads).map(|n| scope.spawn(move || write(n))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })
}
