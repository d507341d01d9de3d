//! Any bytes as a policy and a form that is held against it: neither panics, and a form that may be told
//! on says the same as the client's, under a policy that admits it. A zero byte parts the two.

use nilas_base::UnixMillis;
use nilas_net::form::{FormParsed, FormProof, FormRewrite, LengthRange, Policy, parse_form};
use nilas_net::sigv4::SigningIdentity;

const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

pub fn run(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (json, form) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let policy = Policy::of_json(json);
    let _ = Policy::parse(&String::from_utf8_lossy(json));
    let Ok(FormParsed::Whole(form)) = parse_form(form, "b") else { return };
    let range = policy.and_then(|policy| policy.admits(&form, "lake", NOW));
    let Ok(rewrite) = FormRewrite::of(&form, ("lake", "b"), range.unwrap_or(LengthRange::ANY))
    else {
        return;
    };
    let identity =
        SigningIdentity { access_key: "a", secret: "s", session_token: None, region: "r" };
    let head = rewrite.head(Some(&identity), NOW);
    let Ok(FormParsed::Whole(sent)) = parse_form(head.as_bytes(), "b") else {
        // Told on, it can be longer than what is read of a form.
        assert!(head.len() > nilas_net::form::FORM_HEAD_BYTES_MAX, "{head}");
        return;
    };
    assert_eq!((sent.key(), sent.file_offset()), (form.key(), Some(head.len())));
    for (name, value) in rewrite.fields().filter(|(name, _)| *name != "key") {
        assert_eq!((form.field(name), sent.field(name)), (Some(value), Some(value)));
    }
    assert!(FormProof::of(&sent).holds("s"));
    let policy = sent.field("policy").expect("it is signed");
    if policy.len() < nilas_net::form::POLICY_BYTES_MAX {
        let policy = Policy::parse(policy).expect("the node's own is well formed");
        policy.admits(&sent, "lake", NOW).expect("the node's own admits its form");
    }
}
