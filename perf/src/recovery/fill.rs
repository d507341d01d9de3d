//! Fills a device as a cache is that has been used for long: all segments hold records but the two
//! that reclaim keeps free, and the last is half full.

use nilas_base::Rng;
use nilas_shards::area::{AreaStore, Offered};
use nilas_shards::store::BlockId;

use super::Filling;
use super::device::{CacheDevice, Stores};
use crate::error::{Error, Result};

/// The usual name of a file of a table takes about so many bytes of a block's identity.
const IDENTITY: [u8; 120] = [b'k'; 120];
/// Segments that are left free: with fewer, reclaim begins.
const FREE: u64 = 2;

/// Fills all shards' areas, then stops them or lets them die.
pub fn fill(device: &CacheDevice) -> Result<()> {
    let filled = device.on_shards(|stores, number, _| fill_shard(device, stores, number))?;
    match filled.into_iter().find(|is_filled| !is_filled) {
        Some(_) => Err(Error::Failed("the device was not filled: it refuses writes".to_owned())),
        None => Ok(()),
    }
}

fn fill_shard(device: &CacheDevice, stores: &Stores, number: u16) -> bool {
    let filling = device.filling;
    let mut records = Records::new(filling, number);
    let area = stores.of(filling);
    stores.reactor.block_on(async {
        stores.metadata.recover().await;
        stores.data.recover().await;
        let usage = area.usage();
        let segment_bytes = u64::from(stores.segment_bytes);
        while area.usage().used_bytes + FREE * segment_bytes < usage.area_bytes {
            if !records.write(area).await {
                return false;
            }
        }
        let record_pages_bytes = records.bytes.len() as u64 + (4 << 10);
        for _ in 0..segment_bytes / record_pages_bytes / 2 {
            if !records.write(area).await {
                return false;
            }
        }
        match filling {
            Filling::DataKilled => area.flush().await,
            Filling::Data | Filling::Metadata => {
                stores.metadata.close().await;
                stores.data.close().await;
            }
        }
        true
    })
}

/// Records of blocks that nobody has named yet.
struct Records {
    rng: Rng,
    bytes: Vec<u8>,
}

impl Records {
    fn new(filling: Filling, shard: u16) -> Records {
        let mut rng = Rng::from_seed(u64::from(shard) + 1);
        let words = (0..filling.record_bytes() / 8).map(|_| rng.next_u64().to_le_bytes());
        let bytes = words.collect::<Vec<_>>().concat();
        Records { rng, bytes }
    }

    /// Writes the next; whether the device takes it.
    async fn write(&mut self, area: &AreaStore) -> bool {
        let mut version = [0; 16];
        version[..8].copy_from_slice(&self.rng.next_u64().to_le_bytes());
        version[8..].copy_from_slice(&self.rng.next_u64().to_le_bytes());
        let block = BlockId { version, index: 0 };
        loop {
            match area.offer(block, &IDENTITY, 0, &[&self.bytes]) {
                Offered::Taken | Offered::Held => return true,
                Offered::Busy => area.room().await,
                Offered::Refused => return false,
            }
        }
    }
}
