//! Requests that botocore signed (`vectors/make_sigv4.py` makes them), verified as they would arrive.

use nilas_base::UnixMillis;
use nilas_net::aws_chunked::{AwsChunkedDecoder, Step};
use nilas_net::checksum::BodyChecks;
use nilas_net::head::{Parsed, RequestHead, parse_head};
use nilas_net::operation::Operation;
use nilas_net::sigv4::{Credential, Credentials, Presented, Verified, Verifier};
use nilas_net::target::Addressing;

const VECTORS: &str = include_str!("vectors/sigv4.txt");

struct Documentation;

impl Credentials for Documentation {
    fn find(&self, access_key: &str) -> Option<Credential<'_>> {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        (access_key == "AKIAIOSFODNN7EXAMPLE").then_some(Credential { index: 0, secret })
    }
}

struct Case {
    name: String,
    head: String,
    body: Option<Vec<u8>>,
}

fn cases() -> (UnixMillis, Vec<Case>) {
    let (mut now, mut cases) = (UnixMillis(0), Vec::<Case>::new());
    for line in VECTORS.lines() {
        let (kind, rest) = line.split_once(' ').expect("a kind and the rest");
        let last = cases.last_mut();
        match (kind, last) {
            ("now_ms", _) => now = UnixMillis(rest.parse().expect("a number")),
            ("case", _) => {
                cases.push(Case { name: rest.to_owned(), head: String::new(), body: None })
            }
            (">", Some(case)) => {
                case.head.push_str(rest);
                case.head.push_str("\r\n");
            }
            ("body", Some(case)) => case.body = Some(hex::decode(rest).expect("hexadecimal")),
            ("#", _) => {}
            other => panic!("{}", other.0),
        }
    }
    for case in &mut cases {
        case.head.push_str("\r\n");
    }
    (now, cases)
}

fn head_of(case: &Case) -> RequestHead<'_> {
    match parse_head(case.head.as_bytes()) {
        Ok(Parsed::Whole(head, _)) => head,
        other => panic!("{}: {other:?}", case.name),
    }
}

fn verify(case: &Case, now: UnixMillis) -> Verified {
    match Verifier::new().authenticate(&head_of(case), &Documentation, now) {
        Ok(Presented::V4(verified)) => verified,
        other => panic!("{}: {other:?}", case.name),
    }
}

#[test]
fn every_request_that_botocore_signs_verifies() {
    let (now, cases) = cases();
    assert!(cases.len() > 50, "the vectors are there");
    for case in &cases {
        verify(case, now);
    }
}

#[test]
fn one_changed_character_of_a_target_is_noticed() {
    let (now, cases) = cases();
    for case in &cases {
        let changed =
            Case { name: case.name.clone(), head: case.head.replacen("/", "/x", 1), body: None };
        let found = Verifier::new().authenticate(&head_of(&changed), &Documentation, now);
        assert!(found.is_err(), "{}", case.name);
    }
}

#[test]
fn the_keys_that_botocore_means_are_the_keys_that_are_read() {
    let addressing = Addressing::new(["s3.local".to_owned()]);
    let (_, cases) = cases();
    let mut checked = 0;
    for case in &cases {
        let Some((_, key)) = ["get path-style ", "get virtual-host ", "presigned get "]
            .iter()
            .find_map(|prefix| case.name.strip_prefix(prefix).map(|key| (prefix, key)))
        else {
            continue;
        };
        let head = head_of(case);
        let mut scratch = Vec::new();
        let target =
            addressing.resolve(head.host(), head.path_raw(), &mut scratch).expect("well formed");
        assert_eq!(target.key, Some(key), "{}", case.name);
        checked += 1;
    }
    assert!(checked > 40, "the keys are there");
}

#[test]
fn a_streamed_body_decodes_and_its_trailing_checksum_holds() {
    let (now, cases) = cases();
    let case = cases.iter().find(|case| case.name == "streamed put").expect("it is there");
    let (head, verified) = (head_of(case), verify(case, now));
    let mut checks =
        BodyChecks::of(&head, verified.payload, Operation::PutObject).expect("well formed");
    let mut decoder =
        AwsChunkedDecoder::of(&head, verified.payload, verified.chain).expect("well formed");
    let mut input = case.body.as_deref().expect("it has a body");
    let mut body = Vec::new();
    while let Step::Data(data) = decoder.step(&mut input).expect("well formed") {
        checks.update(data);
        body.extend_from_slice(data);
    }
    assert_eq!((body.as_slice(), decoder.finish()), (&b"hello world"[..], Ok(())));
    for (name, value) in decoder.trailer() {
        checks.trailer(name, value).expect("well formed");
    }
    assert!(!checks.is_empty());
    assert_eq!(checks.finish(), Ok(()));
}
