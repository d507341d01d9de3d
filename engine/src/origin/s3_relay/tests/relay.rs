//! What passes through: heads byte for byte, bodies of every framing, both ways.

use std::sync::Arc;

use bytes::Bytes;
use nilas_base::Clock;
use nilas_net::checksum::{Algorithm, checksum};
use sha2::{Digest, Sha256};

use super::stand_in::StandIn;
use super::{connected, keys, relay_with, settings};
use crate::origin::question::{ask, get, put};
use crate::origin::{
    Addressing, BodyFraming, BodyPart, CredentialSource, LentKey, LentKeys, Origin, OriginError,
    PayloadHash, SigningKey,
};

#[tokio::test]
async fn objects_pass_both_ways_under_the_origins_signature() {
    let stand_in = StandIn::start().await;
    let resting = super::impatient(&settings(&stand_in, keys("origin-secret")));
    let relay: Arc<dyn Origin> = resting.clone();
    let body: Vec<u8> = (0..700_000_u32).map(|number| (number % 253) as u8).collect();
    put("/lake/db/x", body.clone()).header("x-amz-meta-m", "1").expect(&relay, 200).await;
    super::rest(&resting).await;
    let told = get("/lake/db/x").expect(&relay, 200).await;
    super::rest(&resting).await;
    assert_eq!((told.body, told.length), (body.clone(), Some(700_000)));
    let told = get("/lake/db/x").header("range", "bytes=5-9").expect(&relay, 206).await;
    assert_eq!(stand_in.connections(), 1, "one after the other on one connection");
    assert_eq!(told.body, body[5..10]);
    let told = ask("HEAD", "/lake/db/x").expect(&relay, 200).await;
    assert_eq!((told.length, told.header("content-length")), (Some(700_000), "700000"));
    ask("DELETE", "/lake/db/x").expect(&relay, 204).await;
    assert_eq!(get("/lake/db/x").expect(&relay, 404).await.element("Code"), "NoSuchKey");
}

#[tokio::test]
async fn a_wrong_secret_is_the_origins_to_refuse() {
    let stand_in = StandIn::start().await;
    let relay = relay_with(&settings(&stand_in, keys("wrong")));
    let told = get("/lake/k").expect(&relay, 403).await;
    assert_eq!(told.element("Code"), "SignatureDoesNotMatch");
    let said = std::sync::Arc::clone(&relay).probe(Some("lake".to_owned())).await;
    let said = said.expect_err("the secret is wrong");
    assert!(
        said.contains("SignatureDoesNotMatch") && said.contains("check the access key"),
        "{said}"
    );
}

#[tokio::test]
async fn targets_are_relayed_byte_for_byte() {
    let (stand_in, relay) = connected().await;
    for (target, sent) in [
        ("/lake/a%20b+c%2Fd//e/../f", "/lake/a%20b+c%2Fd//e/../f"),
        ("/lake/%e2%98%83%7Ex~", "/lake/%e2%98%83%7Ex~"),
        (
            "/lake?list-type=2&prefix=a%2Fb&delimiter=/",
            "/lake?list-type=2&prefix=a%2Fb&delimiter=/",
        ),
        ("/lake/k?X-Amz-Signature=s&x-id=GetObject&X-Amz-Date=d", "/lake/k?x-id=GetObject"),
        ("/lake/a<b>\"c", "/lake/a%3Cb%3E%22c"),
        ("/lake/", "/lake/"),
        ("/", "/"),
    ] {
        let told = get(target).tell(&relay).await.expect("an answer");
        assert_ne!(told.status, 403, "{target}: {}", told.text());
        let head = stand_in.last_head();
        assert_eq!(head.split(' ').nth(1), Some(sent), "{target}");
    }
}

#[tokio::test]
async fn headers_are_relayed_untouched_and_nothing_is_added() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", "x").expect(&relay, 200).await;
    let told = get("/lake/k")
        .header("user-agent", "engine/1.0")
        .header("accept-encoding", "identity;q=1")
        .header("x-amz-checksum-mode", "ENABLED")
        .header("if-match", "\"9dd4e461268c8034f5c8564e155c67a6\"")
        .header("x-amz-meta-b", "2")
        .header("x-amz-request-payer", "requester")
        .header("connection", "x-secret-hop")
        .header("x-secret-hop", "1")
        .header("te", "trailers")
        .header("authorization", "AWS4 client's own")
        .header("x-amz-security-token", "the client's")
        .tell(&relay)
        .await
        .expect("an answer");
    let head = stand_in.last_head();
    let mut names: Vec<&str> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "accept-encoding",
            "authorization",
            "host",
            "if-match",
            "user-agent",
            "x-amz-checksum-mode",
            "x-amz-content-sha256",
            "x-amz-date",
            "x-amz-meta-b",
            "x-amz-request-payer",
        ]
    );
    assert!(head.contains("engine/1.0") && head.contains("identity;q=1"));
    assert!(head.contains("Credential=origin-key/") && !head.contains("client's"), "{head}");
    assert_eq!(told.header("x-odd"), "kept");
    assert_eq!(told.header("keep-alive"), "", "hop-by-hop headers end here");
}

#[tokio::test]
async fn a_plain_body_keeps_its_signed_digest() {
    let (stand_in, relay) = connected().await;
    let digest: [u8; 32] = Sha256::digest(b"data").into();
    let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Sha256(digest) };
    let parts = vec![BodyPart::Data(Bytes::from_static(b"data")), BodyPart::End];
    ask("PUT", "/lake/k").parts(Some(4), framing, parts).expect(&relay, 200).await;
    assert!(stand_in.last_head().contains(&hex::encode(digest)));
    put("/lake/empty", "").expect(&relay, 200).await;
    assert!(stand_in.last_head().contains("content-length: 0"));
    ask("POST", "/lake/m?uploads").expect(&relay, 200).await;
    assert!(stand_in.last_head().contains("content-length: 0"));
}

#[tokio::test]
async fn chunked_bodies_are_framed_anew_with_their_trailer() {
    let (stand_in, relay) = connected().await;
    let body: Vec<u8> = (0..200_000_u32).map(|number| (number % 7) as u8).collect();
    let name = Algorithm::Crc64Nvme.header_name().to_owned();
    let value = checksum(Algorithm::Crc64Nvme, &body).base64();
    for (signed, with_trailer, payload) in [
        (true, true, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
        (true, false, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        (false, true, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ] {
        let trailer_names = if with_trailer { vec![name.clone()] } else { Vec::new() };
        let mut parts = vec![
            BodyPart::Data(Bytes::copy_from_slice(&body[..100_001])),
            BodyPart::Data(Bytes::copy_from_slice(&body[100_001..])),
        ];
        if with_trailer {
            parts.push(BodyPart::Trailer(vec![(name.clone(), value.clone())]));
        }
        parts.push(BodyPart::End);
        let framing = BodyFraming::AwsChunked { signed, trailer_names };
        ask("PUT", "/lake/k")
            .header("content-encoding", "aws-chunked,gzip")
            .parts(Some(body.len() as u64), framing, parts)
            .expect(&relay, 200)
            .await;
        let head = stand_in.last_head();
        assert!(head.contains(&format!("x-amz-content-sha256: {payload}\r\n")), "{head}");
        assert!(head.contains("x-amz-decoded-content-length: 200000"));
        assert!(head.contains("content-length: ") && !head.contains("transfer-encoding"), "{head}");
        let told =
            get("/lake/k").header("x-amz-checksum-mode", "ENABLED").expect(&relay, 200).await;
        assert_eq!(told.body, body);
        assert_eq!(told.header("content-encoding"), "gzip");
        assert_eq!(told.header(&name), if with_trailer { &*value } else { "" });
    }
}

#[tokio::test]
async fn a_coding_that_the_client_did_not_name_is_not_named_to_the_origin() {
    let (stand_in, relay) = connected().await;
    for encoding in [None, Some("gzip")] {
        let framing = BodyFraming::AwsChunked { signed: true, trailer_names: Vec::new() };
        let parts = vec![BodyPart::Data(Bytes::from_static(b"body")), BodyPart::End];
        let mut put = ask("PUT", "/lake/k");
        if let Some(encoding) = encoding {
            put = put.header("content-encoding", encoding);
        }
        put.parts(Some(4), framing, parts).expect(&relay, 200).await;
        let head = stand_in.last_head();
        let line = encoding.map(|encoding| format!("content-encoding: {encoding}\r\n"));
        let said = head.lines().find(|line| line.starts_with("content-encoding"));
        assert_eq!(said.map(|said| format!("{said}\r\n")), line, "{head}");
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_sent_in_http_chunks() {
    let (stand_in, relay) = connected().await;
    let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
    let parts = vec![BodyPart::Data(Bytes::from_static(b"data")), BodyPart::End];
    ask("PUT", "/lake/k").parts(None, framing, parts).expect(&relay, 200).await;
    assert!(stand_in.last_head().contains("transfer-encoding: chunked"));
    assert_eq!(get("/lake/k").expect(&relay, 200).await.text(), "data");
}

#[tokio::test]
async fn an_upload_that_breaks_off_commits_nothing() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", "old").expect(&relay, 200).await;
    let trailer_names = vec![Algorithm::Crc32.header_name().to_owned()];
    for framing in [
        BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned },
        BodyFraming::AwsChunked { signed: true, trailer_names: Vec::new() },
        BodyFraming::AwsChunked { signed: false, trailer_names },
    ] {
        // Every byte is there: what is missing is the word that all checks have passed.
        let large = Bytes::from(vec![b'n'; 100_000]);
        let parts = vec![BodyPart::Data(large), BodyPart::Data(Bytes::from_static(b"w"))];
        let question = ask("PUT", "/lake/k").parts(Some(100_001), framing.clone(), parts);
        let error = question.tell(&relay).await.expect_err("it broke off");
        assert_eq!(error, OriginError::BodyAborted, "{framing:?}");
    }
    // The relay answers before the stand-in has seen the connection end. There is one: what is
    // framed has nothing to send before a whole piece is there, so no head went out.
    stand_in.until_ended(1).await;
    assert_eq!(get("/lake/k").expect(stand_in.directory(), 200).await.text(), "old");
    put("/lake/k", "new").expect(&relay, 200).await;
    assert_eq!(get("/lake/k").expect(stand_in.directory(), 200).await.text(), "new");
}

#[tokio::test]
async fn a_virtual_host_names_the_bucket() {
    let stand_in = StandIn::start().await;
    let mut settings = settings(&stand_in, keys("origin-secret"));
    // Names below `localhost` are this machine (RFC 6761); where the resolver does not know that,
    // there is nothing to test.
    settings.endpoint = format!("http://localhost:{}", stand_in.address.port());
    settings.addressing = Addressing::VirtualHost;
    let relay = relay_with(&settings);
    match put("/lake/a/b", "x").tell(&relay).await {
        Ok(told) => assert_eq!(told.status, 200, "{}", told.text()),
        Err(OriginError::Unreachable { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    assert!(stand_in.last_head().starts_with("PUT /a/b HTTP/1.1"), "{}", stand_in.last_head());
    assert_eq!(get("/lake/a/b").expect(stand_in.directory(), 200).await.text(), "x");
}

#[tokio::test]
async fn an_anonymous_relay_signs_nothing() {
    let stand_in = StandIn::start().await;
    let relay = relay_with(&settings(&stand_in, CredentialSource::Anonymous));
    put("/lake/k", "x").expect(&relay, 200).await;
    let head = stand_in.last_head();
    assert!(!head.contains("authorization") && !head.contains("x-amz-date"), "{head}");
    let name = Algorithm::Crc32.header_name().to_owned();
    for trailer_names in [vec![name.clone()], Vec::new()] {
        let mut parts = vec![BodyPart::Data(Bytes::from_static(b"data"))];
        if !trailer_names.is_empty() {
            let value = checksum(Algorithm::Crc32, b"data").base64();
            parts.push(BodyPart::Trailer(vec![(name.clone(), value)]));
        }
        parts.push(BodyPart::End);
        let framing = BodyFraming::AwsChunked { signed: true, trailer_names };
        ask("PUT", "/lake/k2").parts(Some(4), framing, parts).expect(&relay, 200).await;
        assert_eq!(get("/lake/k2").expect(&relay, 200).await.text(), "data");
    }
}

#[tokio::test]
async fn a_probe_asks_for_the_bucket() {
    let (_stand_in, relay) = connected().await;
    let probe = |bucket: &str| std::sync::Arc::clone(&relay).probe(Some(bucket.to_owned()));
    assert!(probe("lake").await.expect("it is there").contains("lets these credentials read"));
    let error = probe("none").await.expect_err("it is not there");
    assert!(error.contains("404 NoSuchBucket") && error.contains("create it"), "{error}");
}

#[test]
fn ids_tell_origins_apart_and_not_credentials() {
    let settings = |endpoint: &str, secret: &str| crate::origin::S3Settings {
        endpoint: endpoint.to_owned(),
        region: String::new(),
        addressing: Addressing::Path,
        credentials: keys(secret),
        ca_bundle: None,
        write_timeout: std::time::Duration::from_secs(300),
    };
    let id = |endpoint: &str, secret: &str| {
        super::S3Relay::new(&settings(endpoint, secret), nilas_base::Clock::system())
            .expect("well-formed settings")
            .id()
    };
    assert_eq!(id("http://a", "1"), id("http://a:80/", "2"));
    assert_ne!(id("http://a", "1"), id("http://b", "1"));
    let relay = super::S3Relay::new(&settings("http://a", "hush"), nilas_base::Clock::system());
    assert!(!format!("{relay:?}{:?}", settings("http://a", "hush")).contains("hush"));
}

fn lent(prefix: &str, secret_key: &str) -> LentKeys {
    let key = SigningKey {
        access_key: "origin-key".to_owned(),
        secret_key: secret_key.to_owned(),
        session_token: Some("lent-token".to_owned()),
    };
    let (bucket, prefix, key) = ("lake".into(), prefix.into(), Arc::new(key));
    let keys = LentKeys::default();
    keys.lend("c.db.t", vec![LentKey { bucket, prefix, key, expires_at: None }]);
    keys
}

/// A relay with a secret of its own, and with keys that are lent.
fn lending(stand_in: &StandIn, own: &str, keys: LentKeys) -> Arc<dyn Origin> {
    let relay = super::S3Relay::new(&settings(stand_in, super::keys(own)), Clock::system());
    Arc::new(relay.expect("well-formed settings").with_lent(keys))
}

#[tokio::test]
async fn what_is_read_in_the_nodes_name_is_signed_with_what_is_lent_for_it() {
    let stand_in = StandIn::start().await;
    let relay = lending(&stand_in, "wrong", lent("db/t", "origin-secret"));
    put("/lake/db/t/x", b"lent".to_vec()).expect(stand_in.directory(), 200).await;
    assert_eq!(get("/lake/db/t/x").expect(&relay, 200).await.body, b"lent");
    assert!(stand_in.last_head().contains("x-amz-security-token: lent-token"));
    ask("HEAD", "/lake/db/t/x").expect(&relay, 200).await;
    let refused = get("/lake/db/u/x").expect(&relay, 403).await;
    assert_eq!(refused.element("Code"), "SignatureDoesNotMatch", "nothing is lent for it");
    put("/lake/db/t/y", b"no".to_vec()).expect(&relay, 403).await;
    assert!(!stand_in.last_head().contains("lent-token"), "nothing is written with it");
}

#[tokio::test]
async fn what_is_lent_and_good_for_nothing_costs_one_request() {
    let stand_in = StandIn::start().await;
    let relay = lending(&stand_in, "origin-secret", lent("db/t", "wrong"));
    put("/lake/db/t/x", b"own".to_vec()).expect(stand_in.directory(), 200).await;
    for requests in [2, 3] {
        assert_eq!(get("/lake/db/t/x").expect(&relay, 200).await.body, b"own");
        assert_eq!(stand_in.heads().len(), requests);
    }
    let neither = lending(&stand_in, "wrong", lent("db/t", "wrong, too"));
    for requests in [5, 7] {
        get("/lake/db/t/x").expect(&neither, 403).await;
        assert_eq!(stand_in.heads().len(), requests, "it may be good for another object");
    }
}
