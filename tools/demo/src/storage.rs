//! Storage for the `iceberg` crate over `object_store`'s S3 client, so that every byte of a table
//! travels as any engine's would: signed, over HTTP, to the endpoint.

use std::error;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::io::{
    FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use iceberg::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use crate::http::PlainConnector;

/// An S3 endpoint and one bucket of it; the `iceberg` crate asks that it can be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct S3Storage {
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    #[serde(skip)]
    pub(crate) client: OnceLock<Arc<AmazonS3>>,
}

impl S3Storage {
    fn client(&self) -> Result<Arc<AmazonS3>> {
        if let Some(client) = self.client.get() {
            return Ok(Arc::clone(client));
        }
        let builder = AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_bucket_name(&self.bucket)
            .with_access_key_id(&self.access_key)
            .with_secret_access_key(&self.secret_key)
            .with_region("us-east-1")
            .with_allow_http(true)
            .with_http_connector(PlainConnector);
        let client = Arc::new(builder.build().map_err(unexpected)?);
        Ok(Arc::clone(self.client.get_or_init(|| client)))
    }

    /// The key of `s3://bucket/key`.
    fn key(&self, path: &str) -> Result<Path> {
        let prefix = format!("s3://{}/", self.bucket);
        let key = path.strip_prefix(&prefix).ok_or_else(|| {
            Error::new(ErrorKind::DataInvalid, format!("{path} is not in {prefix}"))
        })?;
        Path::parse(key).map_err(unexpected)
    }
}

fn unexpected(error: impl error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unexpected, "the S3 endpoint did not do as asked").with_source(error)
}

#[async_trait]
#[typetag::serde]
impl Storage for S3Storage {
    async fn exists(&self, path: &str) -> Result<bool> {
        match self.client()?.head(&self.key(path)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(unexpected(error)),
        }
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let object = self.client()?.head(&self.key(path)?).await.map_err(unexpected)?;
        Ok(FileMetadata { size: object.size })
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let object = self.client()?.get(&self.key(path)?).await.map_err(unexpected)?;
        object.bytes().await.map_err(unexpected)
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        Ok(Box::new(S3Reader { client: self.client()?, key: self.key(path)? }))
    }

    async fn write(&self, path: &str, bytes: Bytes) -> Result<()> {
        let written = self.client()?.put(&self.key(path)?, bytes.into()).await;
        written.map(|_| ()).map_err(unexpected)
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        let writer = S3Writer { client: self.client()?, key: self.key(path)?, parts: Some(vec![]) };
        Ok(Box::new(writer))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.client()?.delete(&self.key(path)?).await.map_err(unexpected)
    }

    async fn delete_prefix(&self, path: &str) -> Result<()> {
        let client = self.client()?;
        let objects = client.list(Some(&self.key(path.trim_end_matches('/'))?));
        let deleted = objects.try_for_each(|object| {
            let client = Arc::clone(&client);
            async move { client.delete(&object.location).await }
        });
        deleted.await.map_err(unexpected)
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> Result<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.into()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.into()))
    }
}

#[typetag::serde]
impl StorageFactory for S3Storage {
    fn build(&self, _: &StorageConfig) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.clone()))
    }
}

struct S3Reader {
    client: Arc<AmazonS3>,
    key: Path,
}

#[async_trait]
impl FileRead for S3Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.client.get_range(&self.key, range).await.map_err(unexpected)
    }
}

/// Collects a file and sends it in one PUT when it is closed: the demo's are of a few megabytes.
struct S3Writer {
    client: Arc<AmazonS3>,
    key: Path,
    parts: Option<Vec<Bytes>>,
}

#[async_trait]
impl FileWrite for S3Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.parts.as_mut().ok_or_else(closed)?.push(bytes);
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let parts = self.parts.take().ok_or_else(closed)?;
        let written = self.client.put(&self.key, parts.into_iter().collect()).await;
        written.map(|_| ()).map_err(unexpected)
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Unexpected, "this file has been closed")
}
