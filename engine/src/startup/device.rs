//! The cache device: what a start would do with it, and the start itself. What is on it and whether it can be used is
//! judged by `nilas_shards::device`; here it is put into words, once, where somebody reads them.

use std::path::Path;

use nilas_shards::Finding;
use nilas_shards::device::{
    Access, Content, DeviceError, DeviceProblem, DeviceProspect, Fresh, OpenDevice, check_device,
    open_device,
};
use nilas_shards::disk::{AreaKind, Superblock};

use super::fatal;
use crate::config::{Config, size_text};
use crate::origin::OriginSettings;

/// Looks at the device, where one is configured; makes and changes nothing.
pub(super) fn probe(config: &Config) -> Option<Finding> {
    let plan = config.device_plan()?;
    if let OriginSettings::LocalDirectory(local) = &config.origin.settings {
        let served = served_as_object(&plan.path, &local.path);
        if served.is_some() {
            return served;
        }
    }
    check_device(&plan).err().map(|error| refused(&error))
}

/// What a start would do with the device, a sentence; `None` without one, or where it could not be used.
pub(super) fn prospect(config: &Config) -> Option<String> {
    let found = check_device(&config.device_plan()?).ok()?;
    let DeviceProspect { path, superblock, content, access } = &found;
    let done = match content {
        Content::Kept => "keep what is on".to_owned(),
        Content::Fresh(Fresh::New) => "lay out".to_owned(),
        Content::Fresh(why) => format!("lay out anew, since {why},"),
    };
    let layout = layout_text(superblock);
    Some(format!("{done} {} ({layout}), {}", path.display(), access_text(access)))
}

/// Opens the device, where one is configured, and says in the log what became of it.
///
/// # Errors
/// It cannot be used, and the node must not start without it.
pub fn open_cache_device(config: &Config) -> Result<Option<OpenDevice>, DeviceError> {
    let Some(plan) = config.device_plan() else { return Ok(None) };
    let device = open_device(&plan)?;
    let OpenDevice { path, superblock, content, access, .. } = &device;
    let path = path.display();
    let (layout, access) = (layout_text(superblock), access_text(access));
    match content {
        Content::Kept => tracing::info!("the cache device {path} is kept ({layout}), {access}"),
        Content::Fresh(Fresh::New) => {
            tracing::info!("the cache device {path} is laid out ({layout}), {access}");
        }
        Content::Fresh(why) => tracing::warn!(
            "the cache device {path} is laid out anew and empty ({layout}), {access}: {why}"
        ),
    }
    if device.is_mended {
        tracing::warn!(
            "one copy of the superblock of the cache device {path} was damaged, and is written anew from the other"
        );
    }
    if device.is_discarded {
        tracing::info!("what was on the cache device {path} before was discarded");
    }
    warn_of_weakness(&device);
    Ok(Some(device))
}

fn warn_of_weakness(device: &OpenDevice) {
    let path = device.path.display();
    if let Access::Buffered(why) = &device.access {
        tracing::warn!(
            "The cache device {path} is used through the page cache: {why}. What it holds takes the machine's memory, \
             too, beside the budgets. Name a directory on ext4 or xfs, or a block device."
        );
    }
    if !device.is_preallocated {
        tracing::warn!(
            "The cache device {path} has no place of its own on its disk, since the filesystem has no fallocate. The \
             disk may be found full while the node serves. Name a directory on ext4 or xfs, or a block device."
        );
    }
}

fn refused(error: &DeviceError) -> Finding {
    let DeviceError { path, problem } = error;
    let cure = match problem {
        DeviceProblem::Missing => format!("{} Or set disk.path.", error.cure()),
        _ => error.cure(),
    };
    fatal(
        format!("The cache device {} {problem}.", path.display()),
        "The node does not start without the device that it was given.",
        cure,
    )
}

/// A file below a bucket's directory is an object, and everybody who may read the bucket may read it.
fn served_as_object(device: &Path, origin: &Path) -> Option<Finding> {
    let (device, origin) = (device.canonicalize().ok()?, origin.canonicalize().ok()?);
    let is_in_bucket = device.starts_with(&origin) && device != origin;
    is_in_bucket.then(|| {
        fatal(
            format!("disk.path {} is a bucket of origin.path, or in one.", device.display()),
            "The cache device would be served as an object.",
            "Set disk.path to a directory outside of origin.path.".to_owned(),
        )
    })
}

fn layout_text(superblock: &Superblock) -> String {
    let bytes = |kind| {
        let areas = superblock.areas.iter().filter(|area| area.kind == kind);
        size_text(areas.map(|area| area.length).sum())
    };
    format!(
        "{}: {} for data, {} for metadata, {} for mappings, in segments of {}",
        size_text(superblock.device_bytes),
        bytes(AreaKind::Data),
        bytes(AreaKind::Metadata),
        bytes(AreaKind::Mappings),
        size_text(u64::from(superblock.segment_bytes))
    )
}

fn access_text(access: &Access) -> String {
    match access {
        Access::Direct => "with O_DIRECT".to_owned(),
        Access::Buffered(why) => format!("through the page cache, since {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Inputs, Order, load};

    fn config(arguments: &[String]) -> Config {
        let arguments = ["--shards=1", "--cache.block_bytes=1MiB", "--disk.data_bytes=20MiB"]
            .into_iter()
            .chain(["--disk.metadata_bytes=16MiB", "--disk.mapping_bytes=8MiB"])
            .map(str::to_owned)
            .chain(arguments.iter().cloned());
        let inputs = Inputs { arguments: arguments.collect(), ..Inputs::default() };
        match load(&inputs) {
            Ok(Order::Run { config, .. }) => *config,
            other => panic!("it is right: {other:?}"),
        }
    }

    fn flag(name: &str, path: &Path) -> String {
        format!("--{name}={}", path.display())
    }

    #[test]
    fn a_check_says_what_a_start_then_does() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let config = config(&[flag("disk.path", folder.path())]);
        assert_eq!(probe(&config), None);
        let told = prospect(&config).expect("it could be used");
        let layout =
            "(44MiB: 18MiB for data, 16MiB for metadata, 8MiB for mappings, in segments of 2MiB)";
        assert!(told.starts_with("lay out ") && told.contains(layout), "{told}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
        let device = open_cache_device(&config).expect("it can be used").expect("it is configured");
        assert!(told.contains(&device.path.display().to_string()), "{told}");
        let refusal = probe(&config).expect("it is in use").to_string();
        assert!(refusal.contains("is used by another process"), "{refusal}");
        drop(device);
        let told = prospect(&config).expect("it could be used");
        assert!(told.starts_with("keep what is on "), "{told}");
    }

    #[test]
    fn a_missing_directory_is_told_with_its_cure() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let missing = folder.path().join("missing");
        let config = config(&[flag("disk.path", &missing)]);
        let told = probe(&config).expect("it is missing").to_string();
        for part in ["missing does not exist. The node does not start", "mkdir -p", "disk.path"] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
        assert_eq!(prospect(&config), None);
        open_cache_device(&config).expect_err("it is missing");
        assert!(!missing.exists());
    }

    #[test]
    fn a_device_is_never_an_object_of_the_local_origin() {
        let origin = tempfile::tempdir().expect("a temporary directory can be made");
        let bucket = origin.path().join("bucket");
        std::fs::create_dir(&bucket).expect("it can be made");
        let origin_flag = flag("origin.path", origin.path());
        let told = probe(&config(&[flag("disk.path", &bucket), origin_flag.clone()]));
        let told = told.expect("it is a bucket").to_string();
        assert!(told.contains("would be served as an object"), "{told}");
        assert_eq!(probe(&config(&[flag("disk.path", origin.path()), origin_flag])), None);
    }
}
