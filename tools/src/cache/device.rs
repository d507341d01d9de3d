//! A cache device that is only read: found, opened past the page cache where that works, locked on demand, and its
//! superblock. What is read past the page cache is what the device holds, not what the kernel remembers of it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nilas_shards::device::FILE_NAME;
use nilas_shards::disk::{
    AREAS_MAX, Area, AreaPlace, PAGE_BYTES, ScanFault, Superblock, Unreadable,
};

/// Whether others may use the device meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// A node may run: what is read may change under way.
    Shared,
    /// Nobody else has it, nor gets it before this is dropped.
    Alone,
}

/// A device.
#[derive(Debug)]
pub(super) struct CacheDevice {
    pub(super) path: PathBuf,
    /// How long it is, whatever the superblock says.
    pub(super) bytes: u64,
    pub(super) superblock: Superblock,
    /// What is wrong with the superblock's copies.
    pub(super) copies: [Result<(), ScanFault>; 2],
    file: File,
}

/// A buffer that begins at a page, as reads past the page cache need it.
pub(super) struct PageBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl PageBuffer {
    /// With room for so many bytes.
    pub(super) fn new(bytes_max: usize) -> PageBuffer {
        let bytes = vec![0; bytes_max + PAGE_BYTES];
        let address = bytes.as_ptr().addr();
        PageBuffer { start: address.next_multiple_of(PAGE_BYTES) - address, bytes }
    }

    /// Its first bytes.
    pub(super) fn get(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.start..][..bytes]
    }

    fn get_mut(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..bytes]
    }
}

impl CacheDevice {
    /// Opens the device at a path: a file, a directory with one in it, or a block device.
    pub(super) fn open(path: &Path, sharing: Sharing) -> Result<CacheDevice, String> {
        let (path, is_block_device) = find(path)?;
        let failed = |error: io::Error| failure(&path, &error);
        let exclusive = match (sharing, is_block_device) {
            (Sharing::Alone, true) => libc::O_EXCL,
            _ => 0,
        };
        let file = open_direct(&path, exclusive).map_err(failed)?;
        if sharing == Sharing::Alone {
            file.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => failure(&path, &ErrorKind::ResourceBusy.into()),
                TryLockError::Error(error) => failed(error),
            })?;
        }
        let bytes = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
        let (superblock, copies) = read_superblock(&file)
            .map_err(|why| format!("{} has no superblock: {why}", path.display()))?;
        Ok(CacheDevice { path, bytes, superblock, copies, file })
    }

    /// Reads whole pages into the buffer.
    pub(super) fn read<'a>(
        &self,
        offset: u64,
        bytes: usize,
        buffer: &'a mut PageBuffer,
    ) -> Result<&'a [u8], ScanFault> {
        let piece = buffer.get_mut(bytes);
        self.file.read_exact_at(piece, offset).map_err(|_| ScanFault::Unread)?;
        Ok(piece)
    }

    /// The area with this number in the superblock's table.
    pub(super) fn area(&self, number: u16) -> Result<(Area, AreaPlace), String> {
        let place = self.superblock.place_of(number).ok_or_else(|| {
            let count = self.superblock.areas.len();
            format!("{} has no area {number}: it has {count}, from 0", self.path.display())
        })?;
        Ok((self.superblock.areas[usize::from(number)], place))
    }

    /// The numbers of its areas.
    pub(super) fn area_numbers(&self) -> std::ops::Range<u16> {
        const { assert!(AREAS_MAX <= u16::MAX as usize) };
        0..self.superblock.areas.len() as u16
    }
}

/// What a path leads to, and whether it is a block device.
fn find(path: &Path) -> Result<(PathBuf, bool), String> {
    let kind = std::fs::metadata(path).map_err(|error| failure(path, &error))?.file_type();
    if kind.is_dir() {
        return Ok((path.join(FILE_NAME), false));
    }
    if kind.is_file() || kind.is_block_device() {
        return Ok((path.to_owned(), kind.is_block_device()));
    }
    Err(format!(
        "{} is no cache device: name the node's directory, the file {FILE_NAME} in it, or its block device",
        path.display()
    ))
}

fn failure(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => format!("there is no {path}"),
        ErrorKind::ResourceBusy => format!(
            "{path} is in use, by a node that runs or another command: stop the node first; `nilas inspect` can \
             look at it meanwhile"
        ),
        _ => format!("{path} cannot be read: {error}"),
    }
}

/// Opens for reading, past the page cache if the filesystem can.
fn open_direct(path: &Path, flags: i32) -> io::Result<File> {
    let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
    match open(flags | libc::O_DIRECT) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => open(flags),
        opened => opened,
    }
}

/// The superblock, and what is wrong with each copy.
fn read_superblock(file: &File) -> Result<(Superblock, [Result<(), ScanFault>; 2]), ScanFault> {
    let mut buffers = [0, 1].map(|_| PageBuffer::new(Superblock::COPY_BYTES));
    let reads: [Result<(), ScanFault>; 2] = std::array::from_fn(|copy| {
        let bytes = buffers[copy].get_mut(Superblock::COPY_BYTES);
        file.read_exact_at(bytes, Superblock::COPIES_AT[copy]).map_err(|_| ScanFault::Unread)
    });
    let copies: [&[u8]; 2] = std::array::from_fn(|copy| match reads[copy] {
        Ok(()) => buffers[copy].get(Superblock::COPY_BYTES),
        Err(_) => &[],
    });
    if let [Err(fault), Err(_)] = reads {
        return Err(fault);
    }
    let superblock = Superblock::of_copies(copies[0], copies[1])?;
    let state = |copy: usize| {
        reads[copy]?;
        let told = Superblock::decode(copies[copy])?;
        if told == superblock { Ok(()) } else { Err(Unreadable::Misplaced.into()) }
    };
    let states = [state(0), state(1)];
    Ok((superblock, states))
}
