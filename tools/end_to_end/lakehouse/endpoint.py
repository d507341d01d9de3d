"""An S3 endpoint as a client sees it: address, credentials, region, and clients that use it."""

import dataclasses

import boto3
import botocore.config
import pyarrow.fs

REGION = "us-east-1"


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where an engine reads its data."""

    port: int
    access_key: str
    secret_key: str

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"http://{self.host}"

    def boto3(self, **options):
        """A client with boto3's own defaults but for path-style addresses and no retries."""
        options.setdefault("retries", {"total_max_attempts": 1})
        config = botocore.config.Config(s3={"addressing_style": "path"}, **options)
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=config,
        )

    def arrow(self):
        """PyArrow's filesystem."""
        return pyarrow.fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.host,
            scheme="http",
            region=REGION,
        )
