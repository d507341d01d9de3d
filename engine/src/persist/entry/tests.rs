//! Every entry is read back as it was written; nothing else is taken for one, and whatever the bytes
//! are, they are refused without a panic.

use proptest::prelude::*;

use super::*;

fn learnt() -> Learnt<'static> {
    Learnt {
        bucket: "lake",
        key: "t/metadata/a.avro",
        etag: "\"a\"",
        length: 7,
        last_modified: Some("Thu, 01 Jan 2015 00:00:00 GMT"),
        headers: b"etag: \"a\"\r\nx-amz-meta-a: b: c\r\nx-amz-meta-empty: \r\n",
        checksums: Some(b"x-amz-checksum-crc32: AAAAAA==\r\n"),
        era: Era(3),
        class: StoreClass::Metadata,
        tail_start: 7,
        voucher: Voucher::Rule,
    }
}

fn is_refused(spoil: impl FnOnce(&mut Learnt<'static>)) -> bool {
    let mut learnt = learnt();
    spoil(&mut learnt);
    let bytes = Entry::Learnt(learnt).encode().expect("its lengths can be told");
    Entry::decode(&bytes) == Err(NoEntry)
}

fn check(entry: &Entry<'_>) {
    let bytes = entry.encode().expect("its lengths can be told");
    assert_eq!(Entry::decode(&bytes).as_ref(), Ok(entry));
    for length in 0..bytes.len() {
        assert_eq!(Entry::decode(&bytes[..length]), Err(NoEntry), "{entry:?} cut at {length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Entry::decode(&longer), Err(NoEntry), "{entry:?} and a byte");
    let mut other = bytes;
    other[0] = ENTRY_VERSION + 1;
    assert_eq!(Entry::decode(&other), Err(NoEntry), "another version");
}

#[test]
fn every_entry_is_read_back_and_no_part_of_one() {
    let hashes = [HomeHash(7), HomeHash(u64::MAX)];
    for entry in [
        Entry::Started,
        Entry::Learnt(learnt()),
        Entry::Learnt(Learnt {
            last_modified: None,
            headers: b"",
            checksums: None,
            class: StoreClass::Data,
            tail_start: 4096,
            voucher: Voucher::Table,
            ..learnt()
        }),
        Entry::Learnt(Learnt { checksums: Some(b""), ..learnt() }),
        Entry::Began(WriteId(9), Reach::Keys(Cow::Borrowed(&hashes))),
        Entry::Began(WriteId(9), Reach::Keys(Cow::Borrowed(&[]))),
        Entry::Began(WriteId(9), Reach::Bucket("lake".into())),
        Entry::Ended(WriteId(9), End::Settled),
        Entry::Ended(WriteId(9), End::Unknown),
        Entry::Held(Reach::All),
        Entry::Gone(HomeHash(1)),
        Entry::Purged(Era(4), Purged::Key(HomeHash(1))),
        Entry::Purged(Era(4), Purged::Slot(4095)),
        Entry::Purged(Era(4), Purged::Prefix("lake", "a/")),
        Entry::Purged(Era(4), Purged::Bucket("lake")),
        Entry::Purged(Era(4), Purged::All),
    ] {
        check(&entry);
    }
}

#[test]
fn as_many_keys_as_an_entry_may_have_are_read_back_and_one_more_is_not_written() {
    let hashes = vec![HomeHash(1); KEYS_MAX];
    check(&Entry::Began(WriteId(1), Reach::Keys(Cow::Borrowed(&hashes))));
    let more = vec![HomeHash(1); KEYS_MAX + 1];
    assert_eq!(Entry::Held(Reach::Keys(more.into())).encode(), None);
}

#[test]
fn a_text_whose_length_cannot_be_told_is_not_written() {
    let long = vec![b'a'; 1 << 16];
    assert_eq!(Entry::Learnt(Learnt { headers: &long, ..learnt() }).encode(), None);
}

#[test]
fn a_mapping_that_could_not_have_been_learnt_is_refused() {
    assert!(!is_refused(|_| {}));
    assert!(is_refused(|it| it.bucket = ""));
    assert!(is_refused(|it| it.key = ""));
    assert!(is_refused(|it| it.etag = ""));
    assert!(is_refused(|it| it.etag = "W/\"a\""));
    assert!(is_refused(|it| it.etag = "\"a\"\r\nx: y"));
    assert!(is_refused(|it| it.length = OBJECT_BYTES_MAX));
    assert!(is_refused(|it| it.last_modified = Some("\r\n")));
    for lines in [
        &b"a: b"[..],
        b"a: b\r",
        b"a: b\n",
        b"\r\n",
        b"a: b\r\n\r\n",
        b"a: b\nc: d\r\n",
        b"a: b\rc: d\r\n",
        b"a:b\r\n",
        b": b\r\n",
        b"a b: c\r\n",
        b"a: \0\r\n",
    ] {
        assert!(is_refused(|it| it.headers = lines), "{lines:?}");
        assert!(is_refused(|it| it.checksums = Some(lines)), "{lines:?}");
    }
}

#[derive(Clone, Debug)]
struct Texts {
    bucket: String,
    key: String,
    tag: String,
    value: String,
    length: u64,
    numbers: [u64; 2],
    flags: [bool; 4],
}

fn texts() -> impl Strategy<Value = Texts> {
    let names = ("[a-z.]{1,63}", "\\PC{1,200}", "[ -~]{0,60}", "[ -~]{0,80}");
    (names, 0..OBJECT_BYTES_MAX, any::<[u64; 2]>(), any::<[bool; 4]>()).prop_map(
        |((bucket, key, tag, value), length, numbers, flags)| Texts {
            bucket,
            key,
            tag,
            value,
            length,
            numbers,
            flags,
        },
    )
}

proptest! {
    #[test]
    fn what_can_be_learnt_is_read_back(texts in texts()) {
        let Texts { bucket, key, tag, value, length, numbers, flags } = &texts;
        let (etag, lines) = (format!("\"{tag}\""), format!("x-amz-meta-a: {value}\r\n"));
        let entry = Entry::Learnt(Learnt {
            bucket,
            key,
            etag: &etag,
            length: *length,
            last_modified: flags[0].then_some(value),
            headers: lines.as_bytes(),
            checksums: flags[1].then_some(lines.as_bytes()),
            era: Era(numbers[0]),
            class: if flags[2] { StoreClass::Data } else { StoreClass::Metadata },
            tail_start: *length,
            voucher: if flags[3] { Voucher::Table } else { Voucher::Rule },
        });
        let bytes = entry.encode().expect("its lengths can be told");
        prop_assert_eq!(Entry::decode(&bytes), Ok(entry));
    }

    #[test]
    fn any_bytes_are_refused_or_are_the_bytes_of_what_they_say(kind: u8, mut bytes: Vec<u8>) {
        bytes.splice(0..0, [ENTRY_VERSION, kind % 9]);
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), Some(bytes));
        }
    }

    #[test]
    fn a_changed_byte_is_refused_or_says_something_possible(at: usize, to: u8) {
        let mut bytes = Entry::Learnt(learnt()).encode().expect("its lengths can be told");
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), Some(bytes));
        }
    }
}
