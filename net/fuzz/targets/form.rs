//! Any bytes as a POST form: read in two parts it is the same as in one, its file too, and its proof
//! never panics. The first byte says where it is parted.

use nilas_net::form::{
    FileError, FormFile, FormParsed, FormProof, LengthRange, boundary, parse_form,
};

pub fn run(data: &[u8]) {
    let [parting, bytes @ ..] = data else { return };
    let _ = boundary(bytes);
    let whole = parse_form(bytes, "b");
    if let Ok(FormParsed::Whole(form)) = &whole {
        let proof = FormProof::of(form);
        assert_eq!(proof.access_key().is_some(), proof != FormProof::None);
        assert!(!proof.holds("a secret that signed nothing"));
        assert_eq!(form.key().is_some(), !form.possible_keys().is_empty());
        let _ = form.repeated_field();
        if let Some(offset) = form.file_offset() {
            let at = bytes.len() * usize::from(*parting) / 255;
            let whole = file(&[bytes], offset);
            assert_eq!(whole, file(&[&bytes[..at], &bytes[at..]], offset));
            if let Ok(file) = whole {
                let form = bytes[offset..].to_vec();
                assert!(form.starts_with(&[&file[..], b"\r\n--b"].concat()));
            }
        }
    }
    // A head that is whole is not read differently for what follows it.
    let part = &bytes[..bytes.len() * usize::from(*parting) / 255];
    if let Ok(FormParsed::Whole(form)) = parse_form(part, "b") {
        assert_eq!(whole, Ok(FormParsed::Whole(form)));
    }
}

/// The file of a form that comes in these pieces.
fn file(pieces: &[&[u8]], offset: usize) -> Result<Vec<u8>, FileError> {
    let range = LengthRange { bytes_min: 1, bytes_max: 400 };
    let mut form = FormFile::new("b", offset, range);
    let mut file = Vec::new();
    for piece in pieces {
        match form.pass(piece, &mut file) {
            // How much was seen before it was too much depends on the pieces.
            Err(FileError::TooLarge(_, range)) => return Err(FileError::TooLarge(0, range)),
            passed => passed?,
        }
    }
    form.finish()?;
    Ok(file)
}
