//! The checks that one request asks of its body: the signed payload's digest, Content-MD5, checksum
//! headers and those the trailer will bring. The body must not take effect before `finish` says yes.

use super::{Algorithm, Checksum, Hasher};
use crate::head::RequestHead;
use crate::hop::tokens;
use crate::operation::Operation;
use crate::sigv4::PayloadHash;
use crate::{Code, S3Error};

/// The checks of one body, fed with its decoded bytes.
#[derive(Debug, Default)]
pub struct BodyChecks {
    checks: Vec<Check>,
}

#[derive(Debug)]
struct Check {
    source: Source,
    hasher: Hasher,
    /// `None` until the trailer brings it.
    expected: Option<Checksum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    SignedPayload,
    Header,
    Trailer,
}

impl BodyChecks {
    /// What the head asks for. A checksum that no body could match is left to the origin, which may
    /// not know its algorithm; a Content-MD5 is refused.
    pub fn of(
        head: &RequestHead<'_>,
        payload: PayloadHash,
        operation: Operation,
    ) -> Result<BodyChecks, S3Error> {
        let mut checks = BodyChecks::default();
        if let PayloadHash::Sha256(digest) = payload {
            let expected = Checksum::new(Algorithm::Sha256, &digest);
            checks.add(Source::SignedPayload, Algorithm::Sha256, Some(expected));
        }
        for (name, value) in head.headers() {
            let Some(algorithm) = Algorithm::of_header(name) else { continue };
            if algorithm != Algorithm::Md5 && !operation.checksum_is_of_body() {
                continue;
            }
            match Checksum::parse(algorithm, value) {
                Some(expected) => checks.add(Source::Header, algorithm, Some(expected)),
                None if algorithm == Algorithm::Md5 => return Err(bad_value(algorithm)),
                None => {}
            }
        }
        if payload.is_streaming() {
            for name in head.headers_named("x-amz-trailer").flat_map(tokens) {
                let algorithm = std::str::from_utf8(name).ok().and_then(Algorithm::of_header);
                if let Some(algorithm) = algorithm {
                    checks.add(Source::Trailer, algorithm, None);
                }
            }
        }
        Ok(checks)
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// The next decoded bytes of the body.
    pub fn update(&mut self, data: &[u8]) {
        for check in &mut self.checks {
            check.hasher.update(data);
        }
    }

    /// A field of the trailer.
    pub fn trailer(&mut self, name: &str, value: &str) -> Result<(), S3Error> {
        let Some(algorithm) = Algorithm::of_header(name) else { return Ok(()) };
        let expected =
            Checksum::parse(algorithm, value.as_bytes()).ok_or_else(|| bad_value(algorithm))?;
        for check in &mut self.checks {
            if check.source == Source::Trailer && check.hasher.algorithm() == algorithm {
                check.expected = Some(expected);
            }
        }
        Ok(())
    }

    /// Whether every check holds.
    pub fn finish(self) -> Result<(), S3Error> {
        for check in self.checks {
            let found = check.hasher.finish();
            match check.expected {
                None => return Err(missing(found.algorithm())),
                Some(expected) if expected != found => {
                    return Err(mismatch(check.source, expected, found));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, source: Source, algorithm: Algorithm, expected: Option<Checksum>) {
        self.checks.push(Check { source, hasher: Hasher::new(algorithm), expected });
    }
}

fn bad_value(algorithm: Algorithm) -> S3Error {
    if algorithm == Algorithm::Md5 {
        return S3Error::new(Code::InvalidDigest);
    }
    S3Error::because(
        Code::InvalidRequest,
        format!(
            "Value for {} header is invalid. Send the base64 of {} bytes.",
            algorithm.header_name(),
            algorithm.digest_bytes()
        ),
    )
}

fn missing(algorithm: Algorithm) -> S3Error {
    S3Error::because(
        Code::MalformedTrailerError,
        format!(
            "The trailer {} was announced in x-amz-trailer but not sent.",
            algorithm.header_name()
        ),
    )
}

fn mismatch(source: Source, expected: Checksum, found: Checksum) -> S3Error {
    if source == Source::SignedPayload {
        return S3Error::new(Code::XAmzContentSHA256Mismatch)
            .with("ClientComputedContentSHA256", expected.hex())
            .with("S3ComputedContentSHA256", found.hex());
    }
    if found.algorithm() == Algorithm::Md5 {
        return S3Error::because(
            Code::BadDigest,
            "The Content-MD5 you specified did not match what we received.",
        )
        .with("ExpectedDigest", expected.base64())
        .with("CalculatedDigest", found.base64());
    }
    S3Error::because(
        Code::BadDigest,
        format!(
            "The {} you specified did not match the calculated checksum.",
            found.algorithm().name()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::checksum;
    use crate::head::{Parsed, parse_head};

    fn run(
        headers: &str,
        payload: PayloadHash,
        operation: Operation,
        trailer: &[(&str, &str)],
    ) -> Result<(), S3Error> {
        let request = format!("PUT /b/k HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let Parsed::Whole(head, _) = parse_head(request.as_bytes()).expect("well formed") else {
            panic!("the head is whole")
        };
        let mut checks = BodyChecks::of(&head, payload, operation)?;
        checks.update(b"1234");
        checks.update(b"56789");
        for (name, value) in trailer {
            checks.trailer(name, value)?;
        }
        checks.finish()
    }

    fn check(headers: &str, trailer: &[(&str, &str)], expected: Option<Code>) {
        let payload = PayloadHash::StreamingUnsignedTrailer;
        let found = run(headers, payload, Operation::PutObject, trailer).err();
        assert_eq!(found.map(|error| error.code), expected, "{headers} {trailer:?}");
    }

    #[test]
    fn every_algorithm_is_held_against_the_body() {
        for algorithm in Algorithm::ALL {
            let name = algorithm.header_name();
            let right = checksum(algorithm, b"123456789").base64();
            let wrong = checksum(algorithm, b"12345678").base64();
            check(&format!("{name}: {right}\r\n"), &[], None);
            check(&format!("{name}: {wrong}\r\n"), &[], Some(Code::BadDigest));
            if algorithm == Algorithm::Md5 {
                check("content-md5: AAAA\r\n", &[], Some(Code::InvalidDigest));
                continue;
            }
            check(&format!("{name}: AA\r\n"), &[], None);
            let announced = format!("x-amz-trailer: {name}\r\n");
            check(&announced, &[(name, &right)], None);
            check(&announced, &[(name, &wrong)], Some(Code::BadDigest));
            check(&announced, &[(name, "AA")], Some(Code::InvalidRequest));
            check(&announced, &[], Some(Code::MalformedTrailerError));
        }
    }

    #[test]
    fn a_signed_payload_is_held_against_the_body() {
        let put = Operation::PutObject;
        let right = checksum(Algorithm::Sha256, b"123456789").bytes().try_into().expect("32 bytes");
        assert_eq!(run("", PayloadHash::Sha256(right), put, &[]), Ok(()));
        let error = run("", PayloadHash::Sha256([0; 32]), put, &[]).expect_err("other bytes");
        assert_eq!(error.code, Code::XAmzContentSHA256Mismatch);
        assert_eq!(run("", PayloadHash::Unsigned, put, &[]), Ok(()));
    }

    #[test]
    fn the_checksum_of_a_completed_upload_is_not_of_the_request_body() {
        let headers = "x-amz-checksum-crc32: AAAAAA==-3\r\n";
        assert_eq!(
            run(headers, PayloadHash::Unsigned, Operation::CompleteMultipartUpload, &[]),
            Ok(())
        );
    }
}
