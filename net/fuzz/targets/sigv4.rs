//! Any bytes as a signed request: no panic, no secret in an answer. And whatever path, query and header
//! values the bytes make, what our signer signs our verifier accepts, and a changed request it does not.

use nilas_base::UnixMillis;
use nilas_net::head::{Parsed, parse_head};
use nilas_net::percent::{encode_path, encode_query};
use nilas_net::sigv4::{
    Credential, Credentials, PayloadHash, Presented, SigningIdentity, ToSign, Verifier, sign,
};

const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// The day of the documentation's examples, which are in the corpus.
const NOW: UnixMillis = UnixMillis(1_369_353_600_000);

struct One;

impl Credentials for One {
    fn find(&self, access_key: &str) -> Option<Credential<'_>> {
        (access_key == ACCESS_KEY).then_some(Credential { index: 0, secret: SECRET })
    }
}

pub fn run(data: &[u8]) {
    raw(data);
    round_trip(data);
}

fn raw(data: &[u8]) {
    let Ok(Parsed::Whole(head, _)) = parse_head(data) else { return };
    let mut verifier = Verifier::new();
    let first = verifier.authenticate(&head, &One, NOW);
    // The second time, a signing key may be kept: the answer is the same.
    let second = verifier.authenticate(&head, &One, NOW);
    assert_eq!(first.is_ok(), second.is_ok());
    if let Err(error) = first {
        assert!((400..600).contains(&error.status()));
        let mut xml = Vec::new();
        error.write_xml("/", "r", &mut xml);
        let text = std::str::from_utf8(&xml).expect("XML is UTF-8");
        assert!(
            !text.contains(SECRET)
                || data.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
        );
    }
}

fn round_trip(data: &[u8]) {
    // Longer ones go over the limits of a head.
    if data.len() > 900 {
        return;
    }
    let (path_part, rest) = data.split_at(data.len() / 2);
    let (query_part, value_part) = rest.split_at(rest.len() / 2);
    let (mut path, mut query) = (b"/b/".to_vec(), b"q=".to_vec());
    encode_path(path_part, &mut path);
    encode_query(query_part, &mut query);
    let path = String::from_utf8(path).expect("encoded text is ASCII");
    let query = String::from_utf8(query).expect("encoded text is ASCII");
    let value: Vec<u8> =
        value_part.iter().copied().filter(|byte| (b' '..0x7f).contains(byte)).collect();
    let request = ToSign {
        method: "GET",
        host: "h",
        path_raw: &path,
        query_raw: &query,
        headers: &[("x-amz-meta-v", &value)],
        payload: PayloadHash::Unsigned,
    };
    let identity = SigningIdentity {
        access_key: ACCESS_KEY,
        secret: SECRET,
        session_token: None,
        region: "r",
    };
    let signed = sign(&identity, &request, NOW).expect("the path and query are well formed");
    let text = |path: &str| {
        let mut text =
            format!("GET {path}?{query} HTTP/1.1\r\nHost: h\r\nx-amz-meta-v: ").into_bytes();
        text.extend_from_slice(&value);
        for (name, value) in &signed.headers {
            text.extend_from_slice(format!("\r\n{name}: {value}").as_bytes());
        }
        text.extend_from_slice(b"\r\n\r\n");
        text
    };
    assert!(accepts(&text(&path)), "{path} {query}");
    assert!(!accepts(&text(&format!("{path}x"))), "{path} {query}");
}

fn accepts(text: &[u8]) -> bool {
    let Ok(Parsed::Whole(head, _)) = parse_head(text) else { panic!("the head is well formed") };
    matches!(Verifier::new().authenticate(&head, &One, NOW), Ok(Presented::V4(_)))
}
