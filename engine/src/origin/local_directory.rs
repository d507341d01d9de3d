//! Our own small origin: a directory whose sub-directories are buckets and whose files are objects.
//! It does what engines and Iceberg clients use, with S3's answers; all else is `NotImplemented`, never
//! a silent success. One request, one pass through `route`; a key changes in `commit` alone.
//! Blocking file work runs on the runtime's blocking pool, in bounded pieces.

mod bucket;
mod buckets;
mod call;
mod checksums;
mod commit;
mod condition;
mod copy;
mod delete;
mod described;
mod document;
mod failure;
mod file_body;
mod form;
mod incoming;
mod key_path;
mod list;
mod multipart;
mod object;
mod put;
mod read;
mod root;
mod sidecar;
#[cfg(test)]
mod tests;
mod walk;
mod xml;

use std::path::Path;
use std::sync::Arc;

use http::Method;
use nilas_base::Clock;
use nilas_net::Code;
use sha2::{Digest, Sha256};

use self::call::{Call, parse_query};
use self::copy::COPY_SOURCE;
use self::failure::{Outcome, not_implemented, refused, settle};
use self::file_body::blocking;
use self::incoming::{Expected, receive_small};
use super::{BoxFuture, Origin, OriginAnswer, OriginRequest, OriginResult, RequestBody};

/// Bytes of a small body that is read and not needed: a bucket's location.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// A directory as an origin.
#[derive(Debug)]
pub struct LocalDirectory {
    root: Arc<Path>,
    clock: Clock,
}

impl LocalDirectory {
    /// The origin in `path`, which must be a directory that can be written to. The error says what
    /// is wrong and what to do.
    pub fn open(path: &Path, clock: Clock) -> Result<LocalDirectory, String> {
        let root = root::check(path)?;
        root::remove_leftovers(&root, &clock);
        Ok(LocalDirectory { root: root.into(), clock })
    }

    async fn answer(&self, request: OriginRequest) -> OriginResult {
        let resource = request.path_raw.clone();
        let is_head = request.method == Method::HEAD;
        settle(self.route(request).await, &resource, is_head)
    }

    async fn route(&self, request: OriginRequest) -> Outcome<OriginAnswer> {
        // What it expects is not known here, so it cannot be met.
        if request.headers.contains_key(http::header::EXPECT) {
            return Err(refused(Code::ExpectationFailed));
        }
        let body = request.body;
        let call = Call {
            root: Arc::clone(&self.root),
            clock: self.clock.clone(),
            method: request.method,
            bucket_name: request.bucket,
            key: request.key.unwrap_or_default(),
            query: parse_query(&request.query_raw)?,
            headers: request.headers,
        };
        match (call.bucket_name.is_empty(), call.key.is_empty()) {
            (true, _) => service(call).await,
            (false, true) => bucket_operation(call, body).await,
            (false, false) => object_operation(call, body).await,
        }
    }
}

async fn service(call: Call) -> Outcome<OriginAnswer> {
    match call.method {
        Method::GET => blocking(move || buckets::list_buckets(&call)).await,
        _ => Err(unknown(&call)),
    }
}

async fn bucket_operation(call: Call, body: RequestBody) -> Outcome<OriginAnswer> {
    if let Some(form) = form::form_of(&body) {
        return form::post_object(call, body, form).await;
    }
    let asks = |name: &str| call.parameter(name).is_some();
    match call.method {
        Method::GET if asks("location") => blocking(move || buckets::bucket_location(&call)).await,
        Method::GET if asks("uploads") => blocking(move || multipart::list_uploads(&call)).await,
        Method::GET => blocking(move || list::list_objects(&call)).await,
        Method::HEAD => blocking(move || buckets::head_bucket(&call)).await,
        Method::DELETE => blocking(move || buckets::delete_bucket(&call)).await,
        Method::POST if asks("delete") => delete::delete_objects(call, body).await,
        Method::PUT => {
            let expected = Expected::of(&call, &body)?;
            receive_small(body, expected, SMALL_BODY_BYTES_MAX).await?;
            blocking(move || buckets::create_bucket(&call)).await
        }
        _ => Err(unknown(&call)),
    }
}

async fn object_operation(call: Call, body: RequestBody) -> Outcome<OriginAnswer> {
    let asks = |name: &str| call.parameter(name).is_some();
    match call.method {
        Method::GET if asks("uploadId") => blocking(move || multipart::list_parts(&call)).await,
        Method::GET | Method::HEAD => read::read(call).await,
        Method::PUT if asks("uploadId") => multipart::upload_part(call, body).await,
        Method::PUT if call.headers.contains_key(COPY_SOURCE) => copy::copy_object(call).await,
        Method::PUT => put::put_object(call, body).await,
        Method::POST if asks("uploads") => blocking(move || multipart::create_upload(&call)).await,
        Method::POST if asks("uploadId") => multipart::complete_upload(call, body).await,
        Method::DELETE if asks("uploadId") => {
            blocking(move || multipart::abort_upload(&call)).await
        }
        Method::DELETE => blocking(move || delete::delete_object(&call)).await,
        _ => Err(unknown(&call)),
    }
}

fn unknown(call: &Call) -> failure::Failure {
    let parameters: Vec<&str> = call.query.iter().map(|(name, _)| name.as_str()).collect();
    not_implemented(&format!("{} with the parameters {parameters:?}", call.method))
}

impl Origin for LocalDirectory {
    fn handle(self: Arc<Self>, request: OriginRequest) -> BoxFuture<'static, OriginResult> {
        Box::pin(async move { self.answer(request).await })
    }

    fn id(&self) -> [u8; 16] {
        let mut digest = Sha256::new();
        digest.update(b"local-directory\n");
        digest.update(self.root.as_os_str().as_encoded_bytes());
        digest.finalize()[..16].try_into().expect("a SHA-256 has 32 bytes")
    }

    fn describe(&self) -> String {
        format!("the directory {}", self.root.display())
    }

    fn probe(
        self: Arc<Self>,
        bucket: Option<String>,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { root::probe(&self.root, bucket.as_deref()) })
    }
}
