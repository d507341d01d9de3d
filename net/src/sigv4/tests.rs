//! The documentation's own examples, requests of other signers, our own signer, and bad claims.
//! Examples: AWS, "Signature Calculations for the Authorization Header" and its siblings.

use nilas_base::UnixMillis;
use proptest::prelude::*;

use super::*;
use crate::aws_chunked::{AwsChunkedDecoder, Step};
use crate::head::{Parsed, RequestHead, parse_head};
use crate::{Code, S3Error, percent};

const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// 2013-05-24T00:00:00Z, the time of the examples.
const NOW: UnixMillis = UnixMillis(1_369_353_600_000);

struct One;

impl Credentials for One {
    fn find(&self, access_key: &str) -> Option<Credential<'_>> {
        (access_key == ACCESS_KEY).then_some(Credential { index: 7, secret: SECRET })
    }
}

fn parsed(text: &str) -> RequestHead<'_> {
    match parse_head(text.as_bytes()) {
        Ok(Parsed::Whole(head, _)) => head,
        other => panic!("{other:?} of {text}"),
    }
}

fn authenticate(text: &str, now: UnixMillis) -> Result<Presented, S3Error> {
    Verifier::new().authenticate(&parsed(text), &One, now)
}

fn verified(text: &str) -> Verified {
    match authenticate(text, NOW) {
        Ok(Presented::V4(verified)) => verified,
        other => panic!("{other:?} of {text}"),
    }
}

fn example(line: &str, headers: &str, signed: &str, signature: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\n{headers}x-amz-date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,SignedHeaders={signed},\
         Signature={signature}\r\n\r\n"
    )
}

const EMPTY: &str =
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n";
const HOST: &str = "Host: examplebucket.s3.amazonaws.com\r\n";
const GET_SIGNATURE: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

fn get_example() -> String {
    let signed = "host;range;x-amz-content-sha256;x-amz-date";
    example("GET /test.txt", &format!("{HOST}Range: bytes=0-9\r\n{EMPTY}"), signed, GET_SIGNATURE)
}

#[test]
fn the_documented_requests_verify() {
    let found = verified(&get_example());
    assert_eq!((found.credential, found.presigned), (7, false));
    assert_eq!(found.payload, PayloadHash::empty());

    let put = example(
        "PUT /test$file.text",
        &format!(
            "{HOST}Date: Fri, 24 May 2013 00:00:00 GMT\r\nx-amz-storage-class: REDUCED_REDUNDANCY\r\n\
             x-amz-content-sha256: 44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\r\n"
        ),
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    assert!(matches!(verified(&put).payload, PayloadHash::Sha256(_)));

    let signed = "host;x-amz-content-sha256;x-amz-date";
    let headers = format!("{HOST}{EMPTY}");
    for (line, signature) in [
        ("GET /?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "GET /?max-keys=2&prefix=J",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
        (
            "GET /?prefix=J&max-keys=2",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        verified(&example(line, &headers, signed, signature));
    }
}

const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F\
    us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&\
    X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

fn presigned(query: &str) -> String {
    format!("GET /test.txt?{query} HTTP/1.1\r\n{HOST}\r\n")
}

#[test]
fn the_documented_presigned_url_verifies_until_it_expires() {
    let text = presigned(PRESIGNED);
    let found = verified(&text);
    assert!(found.presigned && found.payload == PayloadHash::Unsigned);
    let day_ms = 86_400_000;
    assert!(authenticate(&text, UnixMillis(NOW.0 + day_ms - 1)).is_ok());
    let error = authenticate(&text, UnixMillis(NOW.0 + day_ms)).expect_err("expired");
    assert_eq!((error.code, error.message.as_ref()), (Code::AccessDenied, "Request has expired"));
    let early = authenticate(&text, UnixMillis(NOW.0 - 16 * 60_000)).expect_err("too early");
    assert_eq!(early.code, Code::AccessDenied);
}

/// The documented upload: 65 KiB of `a` in chunks of 64 KiB.
fn upload(payload: &str, extra: &[(&str, &str)], seed: &str) -> String {
    let mut headers: Vec<(&str, &str)> = vec![
        ("content-encoding", "aws-chunked"),
        ("host", "s3.amazonaws.com"),
        ("x-amz-content-sha256", payload),
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-decoded-content-length", "66560"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    headers.extend_from_slice(extra);
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "PUT /examplebucket/chunkObject.txt HTTP/1.1\r\n{lines}Authorization: AWS4-HMAC-SHA256 \
         Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request, SignedHeaders={}, Signature={seed}\r\n\r\n",
        names.join(";")
    )
}

fn check_upload(text: &str, chunks: [&str; 3], trailer: &str) {
    let found = verified(text);
    let head = parsed(text);
    let mut decoder =
        AwsChunkedDecoder::of(&head, found.payload, found.chain).expect("well formed");
    let wire = format!(
        "10000;chunk-signature={}\r\n{}\r\n400;chunk-signature={}\r\n{}\r\n0;chunk-signature={}\r\n{trailer}\r\n",
        chunks[0],
        "a".repeat(65536),
        chunks[1],
        "a".repeat(1024),
        chunks[2],
    );
    let mut input = wire.as_bytes();
    let mut length = 0;
    while let Step::Data(data) = decoder.step(&mut input).expect("signed by the documentation") {
        length += data.len();
    }
    assert!(decoder.is_done() && length == 66560);
}

#[test]
fn the_documented_chunked_upload_verifies() {
    let text = upload(
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        &[("content-length", "66824")],
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    );
    let chunks = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ];
    check_upload(&text, chunks, "");
}

#[test]
fn the_documented_chunked_upload_with_a_trailer_verifies() {
    let text = upload(
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        &[("x-amz-trailer", "x-amz-checksum-crc32c")],
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    );
    let chunks = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ];
    let trailer = "x-amz-checksum-crc32c:sOO8/Q==\r\n\
        x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n";
    check_upload(&text, chunks, trailer);
}

#[test]
fn requests_without_our_signature_are_told_apart() {
    for (line, headers, expected) in [
        ("GET /b/k", "", "Anonymous"),
        ("GET /b/k?versionId=1", "", "Anonymous"),
        ("GET /b/k", "Authorization: AWS AKIA:c2ln\r\n", "SigV2"),
        ("GET /b/k?AWSAccessKeyId=A&Signature=s&Expires=1", "", "SigV2"),
    ] {
        let text = format!("{line} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let found = authenticate(&text, NOW).expect("well formed");
        assert_eq!(format!("{found:?}"), expected, "{line}");
    }
}

fn refuse(text: &str, code: Code, part_of_message: &str) -> S3Error {
    let error = authenticate(text, NOW).expect_err(text);
    assert_eq!(error.code, code, "{text}\n{error}");
    assert!(error.message.contains(part_of_message), "{text}\n{error}");
    let mut xml = Vec::new();
    error.write_xml("/", "r", &mut xml);
    let xml = String::from_utf8(xml).expect("UTF-8");
    assert!(!xml.contains(SECRET) && !xml.contains("TOKEN"), "{xml}");
    error
}

#[test]
fn bad_authorization_headers_are_refused_with_a_clear_error() {
    use Code::{
        AccessDenied, AuthorizationHeaderMalformed as Malformed, InvalidAccessKeyId,
        InvalidArgument, InvalidRequest, NotImplemented, RequestTimeTooSkewed,
        SignatureDoesNotMatch,
    };
    for (from, to, code, message) in [
        ("AWS4-HMAC-SHA256", "Bearer", InvalidArgument, "AWS4-HMAC-SHA256"),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", NotImplemented, "4A"),
        ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256", InvalidArgument, "AWS4-HMAC-SHA256"),
        ("Credential=", "Credentials=", Malformed, "unknown part"),
        ("Credential=", "Credential", Malformed, "name=value"),
        ("SignedHeaders=host", "Signature=f,SignedHeaders=host", Malformed, "twice"),
        (",Signature=", ",", Malformed, "name=value"),
        (
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,",
            "",
            Malformed,
            "SignedHeaders",
        ),
        ("AKIAIOSFODNN7EXAMPLE/20130524/", "20130524/", Malformed, "Credential"),
        ("/aws4_request", "/aws5_request", Malformed, "aws4_request"),
        ("/s3/", "/ec2/", Malformed, "\"s3\""),
        ("/us-east-1/", "//", Malformed, "region"),
        ("/20130524/", "/20130525/", Malformed, "date"),
        ("=host;range", "=range", Malformed, "host"),
        ("AKIAIOSFODNN7EXAMPLE/", "AKIAOTHER/", InvalidAccessKeyId, "does not exist"),
        ("x-amz-date: 20130524T000000Z\r\n", "", AccessDenied, "x-amz-date"),
        ("x-amz-date: 2013", "x-amz-date: x013", AccessDenied, "x-amz-date"),
        ("Range:", "x-amz-request-payer: a\r\nRange:", AccessDenied, "not signed"),
        (";x-amz-date,", ",", AccessDenied, "not signed"),
        (
            "x-amz-date: 20130524T000000Z",
            "x-amz-date: 20130524T001501Z",
            RequestTimeTooSkewed,
            "too large",
        ),
        (EMPTY, "", InvalidRequest, "x-amz-content-sha256"),
        ("sha256: e3b0", "sha256: e3b", InvalidArgument, "x-amz-content-sha256"),
        ("sha256: e3b0", "sha256: STREAMING-AWS4-ECDSA-", NotImplemented, "4A"),
        ("sha256: e3b0", "sha256: e3b1", SignatureDoesNotMatch, "does not match"),
        ("Signature=f0", "Signature=f1", SignatureDoesNotMatch, "does not match"),
        ("Signature=f0", "Signature=", SignatureDoesNotMatch, "does not match"),
        ("Signature=f0", "Signature=zz", SignatureDoesNotMatch, "does not match"),
        ("GET /test", "GET /tesT", SignatureDoesNotMatch, "does not match"),
        ("GET /test", "HEAD /test", SignatureDoesNotMatch, "does not match"),
        ("GET /test.txt", "GET /test.txt?a", SignatureDoesNotMatch, "does not match"),
        ("bytes=0-9", "bytes=0-99", SignatureDoesNotMatch, "does not match"),
        ("/us-east-1/", "/us-east-2/", SignatureDoesNotMatch, "does not match"),
        ("Host: e", "Host: f", SignatureDoesNotMatch, "does not match"),
        (
            "Host: examplebucket.s3.amazonaws.com",
            "Host: examplebucket.s3.amazonaws.com:80",
            SignatureDoesNotMatch,
            "",
        ),
        ("GET /test.txt", "GET /test%.txt", Code::InvalidURI, "percent sign"),
        ("GET /test.txt", "GET /test.txt?a=%g1", Code::InvalidURI, "percent sign"),
        (
            "GET /test.txt",
            "GET /test.txt?X-Amz-Signature=f",
            InvalidArgument,
            "Only one auth mechanism",
        ),
        (
            "GET /test.txt",
            "GET /test.txt?AWSAccessKeyId=f",
            InvalidArgument,
            "Only one auth mechanism",
        ),
        ("Range:", "Authorization: AWS a:b\r\nRange:", InvalidArgument, "Only one auth mechanism"),
    ] {
        let text = get_example();
        assert!(text.contains(from), "{from}");
        refuse(&text.replacen(from, to, 1), code, message);
    }
    let many = format!("SignedHeaders=host{}", ";a".repeat(SIGNED_HEADERS_MAX));
    refuse(&get_example().replace("SignedHeaders=host", &many), Malformed, "too many");
}

#[test]
fn bad_presigned_urls_are_refused_with_a_clear_error() {
    use Code::AuthorizationQueryParametersError as Bad;
    for (from, to, code, message) in [
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256&", "", Bad, "requires the X-Amz-Algorithm"),
        ("HMAC", "ECDSA", Bad, "X-Amz-Algorithm only supports"),
        ("X-Amz-Date=20130524T000000Z&", "", Bad, "requires the X-Amz-Algorithm"),
        ("20130524T000000Z", "yesterday", Bad, "X-Amz-Date must be"),
        ("20130524T000000Z", "20130523T000000Z", Bad, "date"),
        ("X-Amz-Expires=86400&", "", Bad, "requires the X-Amz-Algorithm"),
        ("=86400", "=-1", Bad, "non-negative"),
        ("=86400", "=", Bad, "number"),
        ("=86400", "=a", Bad, "number"),
        ("=86400", "=604801", Bad, "less than a week"),
        ("=86400", "=99999999999999999999999", Bad, "less than a week"),
        ("=host", "=range", Bad, "host"),
        ("%2Fs3%2F", "%2Fec2%2F", Bad, "\"s3\""),
        ("AKIAIOSFODNN7EXAMPLE%2F", "", Bad, "X-Amz-Credential"),
        ("&X-Amz-Signature=", "&X-Amz-Signature=a&X-Amz-Signature=", Bad, "twice"),
        ("X-Amz-Signature=a", "X-Amz-Signature=b", Code::SignatureDoesNotMatch, "does not match"),
        ("=86400", "=86401", Code::SignatureDoesNotMatch, "does not match"),
        ("%2Fs3%2F", "%2Fs3%zz", Code::InvalidURI, "percent sign"),
        ("AKIAIO", "AKIBIO", Code::InvalidAccessKeyId, "does not exist"),
        (
            "X-Amz-Algorithm",
            "X-Amz-Content-Sha256=odd&X-Amz-Algorithm",
            Code::InvalidArgument,
            "x-amz-content-sha256",
        ),
    ] {
        assert!(PRESIGNED.contains(from), "{from}");
        refuse(&presigned(&PRESIGNED.replacen(from, to, 1)), code, message);
    }
}

#[test]
fn a_vended_credential_is_told_its_cure() {
    let token = "x-amz-security-token: TOKEN\r\nRange:";
    let text =
        get_example().replace("AKIAIOSFODNN7EXAMPLE/", "ASIAVENDED/").replace("Range:", token);
    refuse(&text, Code::InvalidAccessKeyId, "credential vending off");
    let query = PRESIGNED.replace("AKIA", "ASIA") + "&X-Amz-Security-Token=TOKEN";
    refuse(&presigned(&query), Code::InvalidAccessKeyId, "credential vending off");
}

#[test]
fn a_mismatch_shows_what_was_signed_but_no_secret_and_no_right_signature() {
    let token = "x-amz-security-token: TOKEN\r\nRange:";
    let text = get_example()
        .replace(GET_SIGNATURE, &"0".repeat(64))
        .replace("Range:", token)
        .replace("x-amz-date,", "x-amz-date;x-amz-security-token,");
    let error = refuse(&text, Code::SignatureDoesNotMatch, "");
    let names: Vec<_> = error.details.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "AWSAccessKeyId",
            "StringToSignBytes",
            "StringToSign",
            "SignatureProvided",
            "CanonicalRequestBytes",
            "CanonicalRequest"
        ]
    );
    assert!(error.details[5].1.contains("x-amz-security-token:(hidden)"));
    let error = refuse(
        &get_example().replace("GET /test.txt", "GET /test.txt?").replace("bdb41", "bdb42"),
        Code::SignatureDoesNotMatch,
        "",
    );
    assert!(error.details.iter().all(|(_, text)| !text.contains(GET_SIGNATURE)));
    let query = PRESIGNED.to_owned() + "&X-Amz-Security-Token=TOKEN";
    refuse(&presigned(&query), Code::SignatureDoesNotMatch, "");
}

#[test]
fn a_rotated_secret_takes_effect_at_once() {
    struct Rotating(&'static str);
    impl Credentials for Rotating {
        fn find(&self, _: &str) -> Option<Credential<'_>> {
            Some(Credential { index: 0, secret: self.0 })
        }
    }
    let text = get_example();
    let head = parsed(&text);
    let mut verifier = Verifier::new();
    for _ in 0..2 {
        assert!(verifier.authenticate(&head, &Rotating(SECRET), NOW).is_ok());
        assert!(verifier.authenticate(&head, &Rotating("another"), NOW).is_err());
    }
}

#[test]
fn nothing_shows_a_secret_when_printed() {
    let identity = SigningIdentity {
        access_key: ACCESS_KEY,
        secret: SECRET,
        session_token: Some("TOKEN"),
        region: "r",
    };
    let shown = format!("{identity:?} {:?}", Credential { index: 0, secret: SECRET });
    assert!(!shown.contains(SECRET) && !shown.contains("TOKEN"));
}

/// Signs, sends and verifies a request.
fn round_trip(request: &ToSign<'_>, identity: &SigningIdentity<'_>) -> Result<Presented, S3Error> {
    let signed = sign(identity, request, NOW).expect("well formed");
    let mut text = format!(
        "{} {}{}{} HTTP/1.1\r\nHost: {}\r\n",
        request.method,
        request.path_raw,
        if request.query_raw.is_empty() { "" } else { "?" },
        request.query_raw,
        request.host
    )
    .into_bytes();
    let added = signed.headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    for (name, value) in request.headers.iter().copied().chain(added) {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let Ok(Parsed::Whole(head, _)) = parse_head(&text) else {
        panic!("{}", String::from_utf8_lossy(&text))
    };
    Verifier::new().authenticate(&head, &One, NOW)
}

fn identity(session_token: Option<&str>) -> SigningIdentity<'_> {
    SigningIdentity { access_key: ACCESS_KEY, secret: SECRET, session_token, region: "eu-west-1" }
}

proptest! {
    #[test]
    fn what_we_sign_verifies(
        key in "[a-z +%#?@=:&/.~ü*'()!$,;]{0,24}",
        pairs in proptest::collection::vec(("[a-zA-Z -]{1,6}", "[a-z +/=&%ü]{0,6}"), 0..5),
        value in "[ -~]{0,12}",
        raw_path in any::<bool>(),
        token in proptest::option::of("[A-Za-z0-9+/=]{1,30}"),
    ) {
        let mut path = b"/bucket/".to_vec();
        if raw_path {
            // As a careless client sends it, all that may stand in a target unescaped.
            path.extend(key.replace(['%', '?', ' '], "").bytes());
        } else {
            percent::encode_path(key.as_bytes(), &mut path);
        }
        let mut query = Vec::new();
        for (name, value) in &pairs {
            if !query.is_empty() { query.push(b'&'); }
            percent::encode_query(name.as_bytes(), &mut query);
            query.push(b'=');
            percent::encode_query(value.as_bytes(), &mut query);
        }
        let (path, query) = (String::from_utf8(path).expect("UTF-8"), String::from_utf8(query).expect("ASCII"));
        let request = ToSign {
            method: "GET",
            host: "h:9000",
            path_raw: &path,
            query_raw: &query,
            headers: &[("X-Amz-Meta-A", value.as_bytes()), ("x-amz-meta-a", b"again"), ("user-agent", b"x")],
            payload: PayloadHash::Unsigned,
        };
        let found = round_trip(&request, &identity(token.as_deref()));
        prop_assert!(matches!(found, Ok(Presented::V4(_))), "{:?} {} {}", found, path, query);
    }

    #[test]
    fn what_we_presign_verifies(key in "[a-z +%#?@=:&/.~ü]{0,24}", token in proptest::option::of("[+/=a-z]{1,9}")) {
        let mut path = b"/b/".to_vec();
        percent::encode_path(key.as_bytes(), &mut path);
        let path = String::from_utf8(path).expect("ASCII");
        let request = ToSign {
            method: "GET",
            host: "h",
            path_raw: &path,
            query_raw: "x-id=GetObject",
            headers: &[],
            payload: PayloadHash::Unsigned,
        };
        let query = presign(&identity(token.as_deref()), &request, 60, NOW).expect("well formed");
        let text = format!("GET {path}?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
        let found = authenticate(&text, NOW);
        prop_assert!(matches!(found, Ok(Presented::V4(_))), "{:?} {}", found, text);
    }
}

#[test]
fn every_payload_kind_is_signed_and_recognised() {
    for payload in [
        PayloadHash::Unsigned,
        PayloadHash::empty(),
        PayloadHash::StreamingSigned { trailer: false },
        PayloadHash::StreamingSigned { trailer: true },
        PayloadHash::StreamingUnsignedTrailer,
    ] {
        let request = ToSign {
            method: "PUT",
            host: "h",
            path_raw: "/b/k",
            query_raw: "",
            headers: &[("content-type", b"text/plain"), ("x-amz-date", b"stale")],
            payload,
        };
        let request = ToSign { headers: &request.headers[..1], ..request };
        let Ok(Presented::V4(found)) = round_trip(&request, &identity(None)) else {
            panic!("{payload:?}")
        };
        assert_eq!(found.payload, payload);
        let is_signed_stream = matches!(payload, PayloadHash::StreamingSigned { .. });
        assert_eq!(found.chain.is_some(), is_signed_stream);
    }
}
