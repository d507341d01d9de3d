//! From settings to an origin, wrapped as it is used: counted, and slowed where that is asked for.

use std::sync::Arc;

use nilas_base::Clock;

use super::{Latency, LentKeys, LocalDirectory, Observed, Origin, OriginSettings, S3Relay};

/// Why there is no origin: the cause and the cure, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OriginSetupError(String);

/// Makes the origin that `settings` describe. A directory must be there and writable; an S3 endpoint
/// is not asked yet, see [`Origin::probe`]. What it is read with in the node's own name may be lent.
pub fn build(
    settings: &OriginSettings,
    clock: &Clock,
    lent: &LentKeys,
) -> Result<Arc<dyn Origin>, OriginSetupError> {
    let origin: Arc<dyn Origin> = match settings {
        OriginSettings::S3(settings) => {
            let relay = S3Relay::new(settings, clock.clone()).map_err(OriginSetupError)?;
            Arc::new(relay.with_lent(lent.clone()))
        }
        OriginSettings::LocalDirectory(settings) => {
            let directory = LocalDirectory::open(&settings.path, clock.clone());
            let directory = Arc::new(directory.map_err(OriginSetupError)?);
            if settings.first_byte_latency.is_zero() {
                directory
            } else {
                Arc::new(Latency::new(directory, settings.first_byte_latency))
            }
        }
    };
    Ok(Arc::new(Observed::new(origin, clock.clone())))
}
