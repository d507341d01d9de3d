//! Opening, keeping, laying out anew and refusing, on files of a temporary directory; what is true of block devices
//! alone is tried on a file that is treated as one.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nilas_base::MIB;
use tempfile::{TempDir, tempdir, tempdir_in};

use super::target::{Kind, Target};
use super::*;
use crate::disk::{AreaKind, HEAD_BYTES, Unreadable};

/// More than any disk has.
const PEBIBYTE: u64 = 1 << 50;

fn folder() -> TempDir {
    tempdir().expect("a temporary directory can be made")
}

/// The least for one shard, twice that for two: small blocks, so that a segment has one MiB.
fn plan(path: &Path, shards: u16) -> DevicePlan {
    let budget = |kind| area_budget_min(kind, shards, MIB / 4);
    DevicePlan {
        path: path.to_owned(),
        shards,
        data_bytes: budget(AreaKind::Data),
        metadata_bytes: budget(AreaKind::Metadata),
        mapping_bytes: budget(AreaKind::Mappings),
        block_bytes: MIB / 4,
    }
}

fn open(plan: &DevicePlan) -> OpenDevice {
    open_device(plan).expect("it can be opened")
}

fn refusal(plan: &DevicePlan) -> DeviceProblem {
    let error = open_device(plan).expect_err("it is refused");
    assert!(error.cure().ends_with('.'), "{}", error.cure());
    error.problem
}

/// Opens it with a plan, lets it be spoilt, and opens it with the other plan.
fn reopened(before: &DevicePlan, spoil: impl FnOnce(&fs::File), after: &DevicePlan) -> OpenDevice {
    let first = open(before);
    let id = first.superblock.device;
    let (path, offset) = (first.path.clone(), first.superblock.areas[0].offset);
    drop(first);
    let file = plain(&path);
    file.write_all_at(b"old", offset).expect("it is open");
    spoil(&file);
    let second = open(after);
    let is_kept = second.content == Content::Kept;
    assert_eq!(second.superblock.device == id, is_kept, "a new layout has a new id");
    let again = read_superblock(&after.path).expect("it was laid out").1;
    assert_eq!(again, second.superblock);
    second
}

/// Through the page cache, so that any bytes can be read and written.
fn plain(path: &Path) -> fs::File {
    fs::File::options().read(true).write(true).open(path).expect("it was made")
}

fn flip(file: &fs::File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is that long");
    file.write_all_at(&[byte[0] ^ 1], at).expect("it is open");
}

/// Flips a bit in both copies of the superblock, so many bytes from their beginning.
fn flip_both(file: &fs::File, place: u64) {
    for at in Superblock::COPIES_AT {
        flip(file, at + place);
    }
}

#[test]
fn what_was_laid_out_is_kept_with_all_that_it_holds() {
    let folder = folder();
    let plan = plan(folder.path(), 2);
    let device = reopened(&plan, |_| (), &plan);
    assert_eq!(device.content, Content::Kept);
    let mut bytes = [0; 4096];
    let offset = device.superblock.place(AreaKind::Mappings, 0).expect("it is laid out").offset;
    plain(&device.path).read_exact_at(&mut bytes, offset).expect("it is that long");
    assert_eq!(&bytes[..3], b"old");
}

#[test]
fn a_new_device_is_a_file_of_its_users_alone_that_has_all_its_place() {
    let folder = folder();
    let device = open(&plan(folder.path(), 1));
    assert_eq!(device.content, Content::Fresh(Fresh::New));
    assert_eq!(device.path, folder.path().join("nilas.cache"));
    let facts = fs::metadata(&device.path).expect("it was made");
    assert_eq!(facts.mode() & 0o777, 0o600);
    assert_eq!(facts.len(), device.superblock.device_bytes);
    assert!(device.is_preallocated && facts.blocks() * 512 >= facts.len(), "{facts:?}");
}

#[test]
fn another_layout_is_an_empty_cache_and_the_reason_is_told() {
    let folder = folder();
    let one = plan(folder.path(), 1);
    let two = plan(folder.path(), 2);
    let why = |before, after| match reopened(before, |_| (), after).content {
        Content::Fresh(why) => why,
        Content::Kept => panic!("it was laid out otherwise"),
    };
    assert_eq!(why(&one, &two), Fresh::Shards { had: 1, wanted: 2 });
    let more = DevicePlan { data_bytes: two.data_bytes + 2 * MIB, ..two.clone() };
    assert_eq!(why(&two, &more), Fresh::Budgets);
    assert_eq!(why(&more, &two), Fresh::Budgets);
    let halved = DevicePlan { block_bytes: two.block_bytes / 2, ..two.clone() };
    let blocks = |had: u32, wanted: u32| Fresh::Blocks { had: had << 10, wanted: wanted << 10 };
    assert_eq!(why(&two, &halved), blocks(256, 128), "segments are as long as before");
    assert_eq!(why(&halved, &two), blocks(128, 256));
    let longer = DevicePlan { block_bytes: MIB, ..two.clone() };
    let longer = DevicePlan {
        data_bytes: area_budget_min(AreaKind::Data, 2, MIB),
        metadata_bytes: area_budget_min(AreaKind::Metadata, 2, MIB),
        mapping_bytes: area_budget_min(AreaKind::Mappings, 2, MIB),
        ..longer
    };
    assert_eq!(why(&two, &longer), blocks(256, 1024));
    let large = DevicePlan {
        data_bytes: 16 * two.data_bytes,
        metadata_bytes: 16 * two.metadata_bytes,
        mapping_bytes: 16 * two.mapping_bytes,
        ..two.clone()
    };
    let is_longer = |why| matches!(why, Fresh::Segments { had, wanted } if had < wanted);
    assert!(is_longer(why(&two, &large)));
    let device = reopened(&longer, |_| (), &one);
    let length = fs::metadata(&device.path).expect("it is there").len();
    assert_eq!(length, device.superblock.device_bytes, "what is no longer needed is given back");
}

#[test]
fn a_damaged_copy_of_the_superblock_is_mended_from_the_other() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    for (damaged, other) in [(0, 1), (1, 0)] {
        let [damaged, other] = [damaged, other].map(|copy: usize| Superblock::COPIES_AT[copy]);
        let device = reopened(&plan, |file| flip(file, damaged + 20), &plan);
        assert_eq!((device.content, device.is_mended), (Content::Kept, true));
        drop(device);
        let device = reopened(&plan, |_| (), &plan);
        assert_eq!((device.content, device.is_mended), (Content::Kept, false));
        drop(device);
        let device = reopened(&plan, |file| flip(file, other + 20), &plan);
        assert_eq!(device.content, Content::Kept, "the first was mended");
    }
}

#[test]
fn a_superblock_damaged_twice_is_an_empty_cache() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let device = reopened(&plan, |file| flip_both(file, 20), &plan);
    let why = Fresh::Unreadable(Unreadable::Checksum);
    assert_eq!(device.content, Content::Fresh(why));
    assert_eq!(why.to_string(), "its superblock cannot be used: its checksum does not hold");
}

#[test]
fn an_older_version_of_the_format_is_an_empty_cache() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let device = reopened(&plan, |file| flip_both(file, 8), &plan);
    assert_eq!(device.content, Content::Fresh(Fresh::Unreadable(Unreadable::Version(0))));
}

#[test]
fn a_newer_version_of_the_format_is_refused_and_left_as_it_is() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let path = open(&plan).path;
    // One more in the version's upper byte. What else is newer cannot be known, so that no checksum is looked at.
    flip_both(&plain(&path), 8 + 1);
    for other_copy in [0, 1] {
        let before = fs::read(&path).expect("it is there");
        assert!(matches!(refusal(&plan), DeviceProblem::Newer(257)));
        let error = check_device(&plan).expect_err("it is of a newer program");
        assert!(error.cure().contains("newer version"), "{}", error.cure());
        assert!(fs::read(&path).expect("it is there") == before);
        // Where one copy is damaged, the other speaks for itself.
        flip(&plain(&path), Superblock::COPIES_AT[other_copy]);
        assert!(matches!(refusal(&plan), DeviceProblem::Newer(257)), "{other_copy}");
        flip(&plain(&path), Superblock::COPIES_AT[other_copy]);
    }
}

#[test]
fn a_file_of_somebody_elses_is_refused_and_left_as_it_is() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let path = folder.path().join("nilas.cache");
    for content in [&b"text"[..], &[7; 3 << 20]] {
        fs::write(&path, content).expect("it can be written");
        for error in [check_device(&plan).map(drop), open_device(&plan).map(drop)] {
            let error = error.expect_err("it is somebody's");
            assert!(matches!(error.problem, DeviceProblem::ForeignFile), "{error}");
            assert!(error.cure().contains("remove it"), "{}", error.cure());
        }
        assert!(fs::read(&path).expect("it is there") == content);
    }
}

#[test]
fn a_truncated_file_is_an_empty_cache_of_full_length() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    for (length, why) in [
        (3 * MIB, Fresh::Short),
        // The second copy is gone, the first is whole or not.
        (Superblock::COPY_BYTES as u64, Fresh::Short),
        (100, Fresh::Unreadable(Unreadable::Checksum)),
        (0, Fresh::New),
    ] {
        let shorten = |file: &fs::File| file.set_len(length).expect("it can be shortened");
        let device = reopened(&plan, shorten, &plan);
        assert_eq!(device.content, Content::Fresh(why), "cut at {length}");
        let length = fs::metadata(&device.path).expect("it is there").len();
        assert_eq!(length, device.superblock.device_bytes);
    }
}

#[test]
fn a_file_with_holes_gets_its_place_before_it_is_kept() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let hole = |file: &fs::File| {
        let bytes = file.metadata().expect("it is open").len();
        file.set_len(HEAD_BYTES).and_then(|()| file.set_len(bytes)).expect("it can be cut");
    };
    let device = reopened(&plan, hole, &plan);
    assert_eq!(device.content, Content::Kept);
    let facts = fs::metadata(&device.path).expect("it is there");
    assert!(device.is_preallocated && facts.blocks() * 512 >= facts.len(), "{facts:?}");
}

/// A superblock with an area that a newer program has laid out.
fn write_unknown_area(file: &fs::File, superblock: &Superblock) {
    for at in Superblock::COPIES_AT {
        file.write_all_at(&superblock.encode_with_kind(9), at).expect("it is open");
    }
}

#[test]
fn an_unknown_area_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = open(&plan(folder.path(), 1)).path;
    let superblock = read_superblock(&path).expect("it was laid out").1;
    write_unknown_area(&plain(&path), &superblock);
    let before = fs::read(&path).expect("it is there");
    for plan in [plan(folder.path(), 1), plan(folder.path(), 2)] {
        assert!(matches!(refusal(&plan), DeviceProblem::UnknownArea(9)));
    }
    assert!(fs::read(&path).expect("it is there") == before);
    let error = read_superblock(&path).expect_err("it has an area that cannot be shown");
    assert!(error.to_string().ends_with("has an area of kind 9, which this program does not know"));
}

#[test]
fn no_two_nodes_use_one_device() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let first = open(&plan);
    let shards_file = first.file.clone();
    drop(first);
    assert!(matches!(refusal(&plan), DeviceProblem::InUse), "a shard still has it");
    let error = check_device(&plan).expect_err("it is in use");
    assert!(matches!(error.problem, DeviceProblem::InUse));
    read_superblock(&plan.path).expect("tools look at it meanwhile");
    drop(shards_file);
    open(&plan);
}

#[test]
fn a_device_that_is_let_go_of_in_a_moment_is_waited_for() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let first = open(&plan);
    let letting_go = std::thread::spawn(move || {
        std::thread::park_timeout(std::time::Duration::from_millis(300));
        drop(first);
    });
    // As after the process that had it was killed.
    open(&plan);
    letting_go.join().expect("it does not panic");
}

#[test]
fn a_path_that_leads_to_no_directory_is_refused_with_its_cure() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "text").expect("it can be written");
    let missing = plan(&folder.path().join("missing"), 1);
    let error = open_device(&missing).expect_err("it is missing");
    assert!(error.to_string().ends_with("missing does not exist"), "{error}");
    assert!(error.cure().contains("mkdir -p"), "{}", error.cure());
    assert!(matches!(refusal(&plan(&file, 1)), DeviceProblem::Unsuitable));
    let error = open_device(&plan(&file.join("deep"), 1)).expect_err("nothing is below a file");
    assert!(error.to_string().contains("cannot be opened: Not a directory"), "{error}");
    assert!(error.cure().contains("is a file"), "{}", error.cure());
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
}

#[test]
fn a_directory_that_takes_no_files_is_refused_before_and_at_the_start() {
    // Nobody, not even root, can make a file there.
    let plan = plan(Path::new("/proc/sys"), 1);
    for error in [check_device(&plan).map(drop), open_device(&plan).map(drop)] {
        let told = error.expect_err("it takes no files").to_string();
        assert!(told.contains("/proc/sys/nilas.cache cannot be made"), "{told}");
    }
}

#[test]
fn a_full_filesystem_is_told_at_start_and_costs_nothing_that_was_there() {
    let folder = folder();
    let plan = plan(folder.path(), 1);
    let id = open(&plan).superblock.device;
    let too_much = DevicePlan { data_bytes: PEBIBYTE, ..plan.clone() };
    for error in [check_device(&too_much).map(drop), open_device(&too_much).map(drop)] {
        let DeviceProblem::NoRoom { missing_bytes, free_bytes } =
            error.expect_err("no disk has so much").problem
        else {
            panic!("there is no room")
        };
        assert!(missing_bytes > free_bytes && free_bytes > 0);
    }
    let device = open(&plan);
    assert_eq!((device.content, device.superblock.device), (Content::Kept, id));
}

#[test]
fn a_check_tells_what_a_start_would_do_and_makes_nothing() {
    let folder = folder();
    let (one, two) = (plan(folder.path(), 1), plan(folder.path(), 2));
    let checked = |plan| check_device(plan).expect("it could be opened");
    assert_eq!(checked(&one).content, Content::Fresh(Fresh::New));
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    let device = open(&one);
    let (access, superblock) = (device.access.clone(), device.superblock.clone());
    drop(device);
    let before = fs::read(folder.path().join("nilas.cache")).expect("it was made");
    let kept = checked(&one);
    assert_eq!((kept.content, kept.access, kept.superblock), (Content::Kept, access, superblock));
    assert_eq!(checked(&two).content, Content::Fresh(Fresh::Shards { had: 1, wanted: 2 }));
    assert!(fs::read(folder.path().join("nilas.cache")).expect("it was made") == before);
}

/// The flags of an open file as the kernel has them.
fn kernel_says_direct(file: &fs::File) -> bool {
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))
        .expect("the file is open");
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
    let flags = i32::from_str_radix(flags.trim(), 8).expect("they are octal");
    flags & libc::O_DIRECT != 0
}

#[test]
fn a_device_is_direct_if_and_only_if_it_says_so() {
    let folder = folder();
    let device = open(&plan(folder.path(), 1));
    assert_eq!(
        kernel_says_direct(device.file.as_std().expect("a real file")),
        device.access.is_direct()
    );
}

#[test]
fn a_filesystem_in_memory_is_not_taken_for_direct() {
    let folder = tempdir_in("/dev/shm").expect("Linux has a filesystem in memory");
    let device = open(&plan(folder.path(), 1));
    let Access::Buffered(reason) = device.access else { panic!("it is in memory") };
    assert!(reason.contains("tmpfs"), "{reason}");
    assert!(!kernel_says_direct(device.file.as_std().expect("a real file")));
}

#[test]
fn a_block_device_is_not_judged_by_the_filesystem_that_has_its_name() {
    // As /dev is one in memory.
    let file = tempfile::tempfile_in("/dev/shm").expect("Linux has a filesystem in memory");
    assert_eq!(direct::of_filesystem(&file, Kind::BlockDevice), Access::Direct);
    assert!(!direct::of_filesystem(&file, Kind::File).is_direct());
}

#[test]
fn only_a_device_is_shown_as_one() {
    let folder = folder();
    let error = read_superblock(folder.path()).expect_err("there is no file");
    assert!(matches!(error.problem, DeviceProblem::Missing));
    let path = folder.path().join("nilas.cache");
    fs::write(&path, "text").expect("it can be written");
    for path in [folder.path(), &path] {
        let error = read_superblock(path).expect_err("it is no device");
        assert!(error.to_string().ends_with("has no superblock: something else is there"));
    }
}

/// A file that is treated as a block device is: it has a size of its own, and may be somebody's.
struct RawDevice {
    target: Target,
    plan: DevicePlan,
    _folder: TempDir,
}

impl RawDevice {
    fn of(bytes: u64, content: &[u8]) -> RawDevice {
        let folder = folder();
        let path = folder.path().join("raw");
        fs::write(&path, content).expect("it can be written");
        plain(&path).set_len(bytes).expect("it can be of any length");
        let plan = plan(folder.path(), 1);
        let target = Target { path, kind: Kind::BlockDevice };
        RawDevice { target, plan, _folder: folder }
    }

    fn content(&self) -> Vec<u8> {
        fs::read(&self.target.path).expect("it is there")
    }
}

#[test]
fn a_blank_block_device_is_laid_out_and_then_kept() {
    let raw = RawDevice::of(30 * MIB, &[]);
    let checked = check_target(&raw.target, &raw.plan).expect("it is blank");
    assert_eq!(checked.content, Content::Fresh(Fresh::New));
    let open = || open_target(&raw.target, &raw.plan).expect("it is blank or ours");
    let first = open();
    assert_eq!(first.content, Content::Fresh(Fresh::New));
    assert!(first.is_preallocated);
    drop(first);
    assert_eq!(open().content, Content::Kept);
    assert_eq!(raw.content().len() as u64, 30 * MIB, "its size is not ours to change");
}

#[test]
fn a_block_device_that_holds_something_else_is_never_touched() {
    // Such as a filesystem, which begins at its second KiB.
    let mut content = vec![0; 4096];
    content[1080] = 0x53;
    let raw = RawDevice::of(30 * MIB, &content);
    let before = raw.content();
    let problem = check_target(&raw.target, &raw.plan).expect_err("it is somebody's");
    assert!(matches!(problem, DeviceProblem::Foreign));
    let problem = open_target(&raw.target, &raw.plan).expect_err("it is somebody's");
    let error = raw.target.error(problem);
    assert!(matches!(error.problem, DeviceProblem::Foreign));
    assert!(error.cure().contains("wipefs"), "{}", error.cure());
    assert!(raw.content() == before);
}

#[test]
fn a_block_device_of_ours_whose_superblock_is_damaged_is_laid_out_anew() {
    let raw = RawDevice::of(30 * MIB, &[]);
    drop(open_target(&raw.target, &raw.plan).expect("it is blank"));
    flip_both(&plain(&raw.target.path), 20);
    let second = open_target(&raw.target, &raw.plan).expect("it is ours");
    assert_eq!(second.content, Content::Fresh(Fresh::Unreadable(Unreadable::Checksum)));
}

#[test]
fn a_block_device_that_is_too_small_is_refused_with_both_figures() {
    let raw = RawDevice::of(20 * MIB, &[]);
    for problem in [
        check_target(&raw.target, &raw.plan).map(drop),
        open_target(&raw.target, &raw.plan).map(drop),
    ] {
        let problem = problem.expect_err("it is too small").to_string();
        assert_eq!(problem, "has 20971520 bytes, but 22020096 are wanted");
    }
    assert!(raw.content().iter().all(|byte| *byte == 0));
}
