//! Any bytes as a POST form: read in two parts it is the same as in one, and its proof never panics.
//! The first byte says where it is parted.

use nilas_net::form::{FormParsed, FormProof, boundary, parse_form};

pub fn run(data: &[u8]) {
    let [parting, bytes @ ..] = data else { return };
    let _ = boundary(bytes);
    let whole = parse_form(bytes, "b");
    if let Ok(FormParsed::Whole(form)) = &whole {
        let proof = FormProof::of(form);
        assert_eq!(proof.access_key().is_some(), proof != FormProof::None);
        assert!(!proof.holds("a secret that signed nothing"));
        let _ = form.key();
    }
    // A head that is whole is not read differently for what follows it.
    let part = &bytes[..bytes.len() * usize::from(*parting) / 255];
    if let Ok(FormParsed::Whole(form)) = parse_form(part, "b") {
        assert_eq!(whole, Ok(FormParsed::Whole(form)));
    }
}
