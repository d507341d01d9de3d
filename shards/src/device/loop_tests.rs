//! A real block device, on a loop device where one can be made: what was on it is discarded when it is laid out, and
//! nothing when it is kept.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use nilas_base::MIB;

use super::{Content, DevicePlan, Fresh, open_device};

const DEVICE_BYTES: u64 = 64 * MIB;

/// A loop device over a file of a test; let go when it is dropped.
struct Loop {
    device: PathBuf,
    image: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// One that is full of bytes behind a blank head; nothing where this machine makes none.
    fn full() -> Option<Loop> {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let image = folder.path().join("image");
        let file = fs::File::create(&image).expect("a file");
        file.set_len(DEVICE_BYTES).expect("any length");
        for at in (MIB..DEVICE_BYTES).step_by(MIB as usize) {
            file.write_all_at(&[0x5a; MIB as usize], at).expect("the disk has room");
        }
        file.sync_all().expect("a file can be synced");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().ok()?;
        let device = PathBuf::from(String::from_utf8(made.stdout).ok()?.trim());
        made.status.success().then_some(Loop { device, image, _folder: folder })
    }

    fn plan(&self) -> DevicePlan {
        DevicePlan {
            path: self.device.clone(),
            shards: 1,
            data_bytes: 16 * MIB,
            metadata_bytes: 8 * MIB,
            mapping_bytes: 4 * MIB,
            block_bytes: MIB / 2,
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// Bytes of the disk that a file takes.
fn place_bytes(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").blocks() * 512
}

#[test]
fn what_was_on_a_block_device_is_discarded_when_it_is_laid_out_and_never_later() {
    let Some(raw) = Loop::full() else { return };
    let before = place_bytes(&raw.image);
    assert!(before >= DEVICE_BYTES - MIB, "{before}");
    let plan = raw.plan();
    let opened = open_device(&plan).expect("its head is blank");
    assert_eq!(opened.content, Content::Fresh(Fresh::New));
    let areas = opened.superblock.device_bytes - MIB;
    if !opened.is_discarded {
        // Its filesystem punches no holes.
        return;
    }
    opened.file.as_std().expect("it is a real one").sync_all().expect("it can be synced");
    let after = place_bytes(&raw.image);
    assert!(after <= before - areas + MIB, "{before} bytes before, {after} after");
    assert!(after >= DEVICE_BYTES - areas - 2 * MIB, "what is behind the areas is nobody's");
    let at = opened.superblock.areas[0].offset;
    let file = opened.file.as_std().expect("it is a real one").try_clone().expect("a descriptor");
    drop(opened);
    let plain = fs::OpenOptions::new().write(true).open(&raw.device).expect("it is there");
    plain.write_all_at(&[7; MIB as usize], at).expect("it can be written");
    plain.sync_all().expect("it can be synced");
    drop((plain, file));
    let again = open_device(&plan).expect("it is ours");
    assert_eq!((again.content, again.is_discarded), (Content::Kept, false));
    let mut kept = vec![0; MIB as usize];
    drop(again);
    let plain = fs::File::open(&raw.device).expect("it is there");
    plain.read_exact_at(&mut kept, at).expect("it can be read");
    assert!(kept.iter().all(|byte| *byte == 7), "what is kept is not discarded");
}
