//! Files as they end, in whatever pieces they come.

use proptest::prelude::*;

use super::*;

const SIX: LengthRange = LengthRange { bytes_min: 3, bytes_max: 6 };

/// The file of a form that comes in these pieces.
fn passed(pieces: &[&[u8]], before: usize, range: LengthRange) -> Result<Vec<u8>, FileError> {
    let mut file = FormFile::new("bound", before, range);
    let mut bytes = Vec::new();
    for piece in pieces {
        file.pass(piece, &mut bytes)?;
    }
    file.finish()?;
    Ok(bytes)
}

fn whole(text: &str) -> Result<Vec<u8>, FileError> {
    passed(&[text.as_bytes()], 0, LengthRange::ANY)
}

#[test]
fn a_file_ends_at_its_delimiter() {
    for (text, file) in [
        ("abc\r\n--bound--\r\n", "abc"),
        ("abc\r\n--bound--", "abc"),
        ("\r\n--bound--", ""),
        ("abc\r\n\r\n--bound--", "abc\r\n"),
        ("abc\n--bound--\r\r\n--bound--", "abc\n--bound--\r"),
        (
            "abc\r\n--boun\r\n--bound\r\nContent-Disposition: x\r\n\r\nSend\r\n--bound--",
            "abc\r\n--boun",
        ),
    ] {
        assert_eq!(whole(text).as_deref(), Ok(file.as_bytes()), "{text:?}");
    }
    assert_eq!(passed(&[b"hea", b"dabc\r\n--bou", b"nd--"], 4, SIX).as_deref(), Ok(&b"abc"[..]));
}

#[test]
fn a_file_whose_end_is_in_doubt_is_refused() {
    for text in [
        "",
        "abc",
        "abc\r\n--bound",
        "abc\r\n--bound-",
        "abc\r\n--boundary--\r\n",
        "abc\r\n--bound \r\n",
        "--bound--\r\n",
        "--bound\r\nabc\r\n--bound--",
    ] {
        assert_eq!(whole(text), Err(FileError::Malformed), "{text:?}");
    }
}

#[test]
fn a_file_of_another_length_than_is_allowed_is_refused() {
    let of = |count: usize| {
        let text = format!("{}\r\n--bound--", "x".repeat(count));
        passed(&[text.as_bytes()], 0, SIX).map(|file| file.len())
    };
    assert_eq!(of(2), Err(FileError::TooSmall(2, SIX)));
    assert_eq!((of(3), of(6)), (Ok(3), Ok(6)));
    assert!(matches!(of(7), Err(FileError::TooLarge(7.., SIX))));
    let mut begun = FormFile::new("bound", 0, SIX);
    let long = begun.pass(&[b'x'; 100], &mut Vec::new());
    assert!(matches!(long, Err(FileError::TooLarge(..))), "long before its end");
    assert_eq!(S3Error::from(FileError::TooSmall(2, SIX)).code, Code::EntityTooSmall);
    assert_eq!(S3Error::from(FileError::TooLarge(7, SIX)).code, Code::EntityTooLarge);
}

#[test]
fn what_is_left_of_a_form_says_that_its_file_is_too_short() {
    let file = FormFile::new("bound", 0, SIX);
    let end = "\r\n--bound--".len() as u64;
    assert_eq!(file.check_rest(end + 2), Err(FileError::TooSmall(2, SIX)));
    assert_eq!((file.check_rest(end + 3), file.check_rest(end + 100)), (Ok(()), Ok(())));
}

#[test]
fn no_more_follows_a_file_than_is_allowed() {
    let of = |count: u64| {
        let text = format!("abc\r\n--bound--{}", " ".repeat(count as usize - 2));
        passed(&[&text.as_bytes()[..20], &text.as_bytes()[20..]], 0, LengthRange::ANY)
    };
    assert_eq!(of(AFTER_FILE_BYTES_MAX).as_deref(), Ok(&b"abc"[..]));
    assert_eq!(of(AFTER_FILE_BYTES_MAX + 1), Err(FileError::Malformed));
}

proptest! {
    #[test]
    fn however_a_form_is_cut_its_file_is_the_same(
        content in "[\r\n\\-bound]{0,60}",
        before in 0..9_usize,
        cuts in proptest::collection::vec(0..100_usize, 0..6),
    ) {
        let text = format!("{}{content}\r\n--bound--\r\n", "h".repeat(before));
        let uncut = passed(&[text.as_bytes()], before, LengthRange::ANY);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> =
            cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        let cut = passed(&pieces, before, LengthRange::ANY);
        prop_assert_eq!(&cut, &uncut);
        if !format!("\r\n{content}\r\n").contains("\r\n--bound") {
            prop_assert_eq!(uncut.as_deref(), Ok(content.as_bytes()));
        }
    }
}
