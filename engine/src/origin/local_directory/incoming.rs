//! Bodies on their way in: streamed to a temporary file, digested as they pass, and held against
//! what the client said of them. Nothing is an object before all of that holds.

use std::collections::BTreeMap;
use std::io::Write;

use nilas_net::Code;
use nilas_net::checksum::{Algorithm, Checksum, Hasher, checksum};

use super::bucket::{Bucket, Temporary};
use super::call::Call;
use super::checksums::algorithm_of_header;
use super::failure::{Outcome, refused, refused_because};
use super::file_body::blocking;
use super::sidecar::Sidecar;
use crate::origin::{BodyFraming, BodyPart, BodyStream, OriginError, RequestBody};

/// What the client said of a body.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    bytes: Option<u64>,
    /// Content-MD5 and the checksums in headers.
    checksums: Vec<Checksum>,
    /// Algorithms whose checksum is to be known, expected or not.
    algorithms: Vec<Algorithm>,
}

impl Expected {
    /// What `call` says of its body.
    pub(super) fn of(call: &Call, body: &RequestBody) -> Outcome<Expected> {
        let mut expected = Expected::default();
        for (name, value) in &call.headers {
            let Some(algorithm) = Algorithm::of_header(name.as_str()) else { continue };
            let checksum = Checksum::parse(algorithm, value.as_bytes());
            expected.checksums.push(checksum.ok_or_else(|| malformed(algorithm))?);
            expected.also(Some(algorithm));
        }
        if let RequestBody::Stream(body) = body {
            expected.bytes = body.length;
            if let BodyFraming::AwsChunked { trailer_names, .. } = &body.framing {
                trailer_names.iter().for_each(|name| expected.also(algorithm_of_header(name)));
            }
        }
        Ok(expected)
    }

    /// Wants to know this checksum, too.
    pub(super) fn also(&mut self, algorithm: Option<Algorithm>) {
        self.algorithms.extend(algorithm.filter(|known| !self.algorithms.contains(known)));
    }

    fn check(&self, digests: &[Checksum]) -> Outcome<()> {
        let holds = |expected: &Checksum| digests.contains(expected);
        match self.checksums.iter().find(|expected| !holds(expected)) {
            Some(expected) => Err(mismatch(expected.algorithm())),
            None => Ok(()),
        }
    }
}

fn malformed(algorithm: Algorithm) -> super::failure::Failure {
    match algorithm {
        Algorithm::Md5 => refused(Code::InvalidDigest),
        other => {
            let message = format!("Value for {} header is invalid.", other.header_name());
            refused_because(Code::InvalidRequest, message)
        }
    }
}

fn mismatch(algorithm: Algorithm) -> super::failure::Failure {
    let name = algorithm.name();
    let message = format!("The {name} you specified did not match the calculated checksum.");
    refused_because(Code::BadDigest, message)
}

/// A body that is here, whole and verified, and on the disk.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) file: Temporary,
    pub(super) bytes: u64,
    pub(super) md5: Checksum,
    /// By header name, as base64.
    pub(super) checksums: BTreeMap<String, String>,
}

/// A file being written and digested.
#[derive(Debug)]
pub(super) struct Writer {
    file: Temporary,
    bytes: u64,
    hashers: Vec<Hasher>,
}

impl Writer {
    /// An empty file whose checksums by these algorithms are wanted, besides its MD5.
    pub(super) fn begin(bucket: &Bucket, algorithms: &[Algorithm]) -> Outcome<Writer> {
        let others = algorithms.iter().copied().filter(|known| *known != Algorithm::Md5);
        let hashers = std::iter::once(Algorithm::Md5).chain(others).map(Hasher::new).collect();
        Ok(Writer { file: bucket.temporary()?, bytes: 0, hashers })
    }

    /// The next bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
        self.bytes += bytes.len() as u64;
        Ok(self.file.file.write_all(bytes)?)
    }

    /// All is written: put it on the disk.
    pub(super) fn finish(self) -> Outcome<Received> {
        self.finish_verified(&Expected::default())
    }

    fn finish_verified(self, expected: &Expected) -> Outcome<Received> {
        if expected.bytes.is_some_and(|bytes| bytes != self.bytes) {
            return Err(refused(Code::IncompleteBody));
        }
        let digests: Vec<Checksum> = self.hashers.into_iter().map(Hasher::finish).collect();
        expected.check(&digests)?;
        self.file.file.sync_all()?;
        let checksums = digests[1..]
            .iter()
            .map(|sum| (sum.algorithm().header_name().to_owned(), sum.base64()))
            .collect();
        Ok(Received { file: self.file, bytes: self.bytes, md5: digests[0], checksums })
    }
}

/// The algorithms of an object's checksums.
pub(super) fn algorithms_of(sidecar: &Sidecar) -> Vec<Algorithm> {
    sidecar.checksums.keys().filter_map(|name| algorithm_of_header(name)).collect()
}

/// Receives a body into a file of the bucket's.
pub(super) async fn receive(
    bucket: &Bucket,
    body: RequestBody,
    mut expected: Expected,
) -> Outcome<Received> {
    let (begun, algorithms) = (bucket.clone(), expected.algorithms.clone());
    let mut writer = blocking(move || Writer::begin(&begun, &algorithms)).await?;
    if let RequestBody::Stream(mut body) = body {
        while let Some(step) = next_step(&mut body).await? {
            match step {
                Step::Data(bytes) => {
                    writer = blocking(move || writer.write(&bytes).map(|()| writer)).await?;
                }
                Step::Trailer(trailer) => expect_trailer(&mut expected, &trailer)?,
            }
        }
    }
    blocking(move || writer.finish_verified(&expected)).await
}

/// Receives a body of at most `bytes_max` into memory.
pub(super) async fn receive_small(
    body: RequestBody,
    mut expected: Expected,
    bytes_max: usize,
) -> Outcome<Vec<u8>> {
    let mut all = Vec::new();
    if let RequestBody::Stream(mut body) = body {
        while let Some(step) = next_step(&mut body).await? {
            match step {
                Step::Data(bytes) if all.len() + bytes.len() > bytes_max => {
                    return Err(refused(Code::MaxMessageLengthExceeded));
                }
                Step::Data(bytes) => all.extend_from_slice(&bytes),
                Step::Trailer(trailer) => expect_trailer(&mut expected, &trailer)?,
            }
        }
    }
    let digests: Vec<Checksum> =
        expected.checksums.iter().map(|sum| checksum(sum.algorithm(), &all)).collect();
    expected.check(&digests)?;
    Ok(all)
}

enum Step {
    Data(bytes::Bytes),
    Trailer(Vec<(String, String)>),
}

/// The next step of a body; none at its end.
async fn next_step(body: &mut BodyStream) -> Outcome<Option<Step>> {
    match body.next().await {
        Some(BodyPart::Data(bytes)) => Ok(Some(Step::Data(bytes))),
        Some(BodyPart::Trailer(trailer)) => Ok(Some(Step::Trailer(trailer))),
        Some(BodyPart::End) => Ok(None),
        None => Err(OriginError::BodyAborted.into()),
    }
}

fn expect_trailer(expected: &mut Expected, trailer: &[(String, String)]) -> Outcome<()> {
    for (name, value) in trailer {
        let Some(algorithm) = algorithm_of_header(name) else { continue };
        if !expected.algorithms.contains(&algorithm) {
            let message = format!("the trailer {name} was not announced by x-amz-trailer");
            return Err(refused_because(Code::MalformedTrailerError, message));
        }
        let checksum = Checksum::parse(algorithm, value.as_bytes());
        expected.checksums.push(checksum.ok_or_else(|| malformed(algorithm))?);
    }
    Ok(())
}
