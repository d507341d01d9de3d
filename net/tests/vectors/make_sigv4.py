"""Makes sigv4.txt: requests signed by botocore, as they would go over the wire.

Run it where boto3 is installed: `python3 net/tests/vectors/make_sigv4.py`. The clock stands still and the
credentials are the documentation's, so the same botocore gives the same file.
"""

import datetime
import os
import pathlib
import urllib.parse

os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

import boto3
import botocore
import botocore.auth
import botocore.awsrequest
from botocore.config import Config

NOW = datetime.datetime(2025, 3, 9, 12, 34, 56, tzinfo=datetime.timezone.utc)
botocore.auth.get_current_datetime = lambda remove_tzinfo=True: NOW.replace(tzinfo=None) if remove_tzinfo else NOW

KEYS = [
    "plain/data.parquet",
    "a+b",
    "with space",
    "100%",
    "percent%2Fslash",
    "x#y?z",
    "user@host=1:2",
    "double//slash/",
    "dots/./and/../more",
    "städte/東京",
    "date=2024-01-01 00:00:00/part-0.parquet",
    "!'()*$,;&~-_.",
    "trailing ",
    "\"quoted\"<>[]{}|\\^`",
]


# Not signed, and different on every run or machine.
NOISE = {"user-agent", "amz-sdk-invocation-id", "amz-sdk-request"}


class Captured(Exception):
    pass


def client(style="path", token=None, scheme="http", **config):
    made = boto3.client(
        "s3",
        region_name="eu-central-1",
        endpoint_url=f"{scheme}://s3.local:9000",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        aws_session_token=token,
        config=Config(s3={"addressing_style": style}, retries={"max_attempts": 0}, **config),
    )

    def capture(request, **_):
        raise Captured(request)

    made.meta.events.register("before-send.s3", capture)
    return made


def head_of(method, url, headers):
    parts = urllib.parse.urlsplit(url)
    target = parts.path + ("?" + parts.query if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"Host: {parts.netloc}")
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in NOISE]
    return lines


def captured(call, with_body=False, **arguments):
    try:
        call(**arguments)
    except Captured as caught:
        request = caught.args[0]
        headers = [
            (name, value.decode() if isinstance(value, bytes) else value)
            for name, value in request.headers.items()
        ]
        lines = head_of(request.method, request.url, headers)
        return (lines, request.body.read()) if with_body else lines
    raise AssertionError("nothing was sent")


def cases():
    path, virtual, token = client(), client("virtual"), client(token="Token/With+Signs==")
    for key in KEYS:
        yield f"get path-style {key}", captured(path.get_object, Bucket="bucket", Key=key, Range="bytes=-8")
        yield f"get virtual-host {key}", captured(virtual.get_object, Bucket="my.bucket", Key=key)
        url = path.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key})
        yield f"presigned get {key}", head_of("GET", url, [])
    yield "head with a session token", captured(token.head_object, Bucket="bucket", Key="k")
    url = token.generate_presigned_url(
        "get_object",
        Params={"Bucket": "bucket", "Key": "k", "ResponseContentType": "text/csv; a=b", "VersionId": "v+1"},
        ExpiresIn=604800,
    )
    yield "presigned with a token and overrides", head_of("GET", url, [])
    url = path.generate_presigned_url(
        "put_object", Params={"Bucket": "bucket", "Key": "k", "ContentType": "text/plain"}
    )
    yield "presigned put", head_of("PUT", url, [("Content-Type", "text/plain"), ("Content-Length", "0")])
    yield "list", captured(path.list_objects_v2, Bucket="bucket", Prefix="a b+c/ü", Delimiter="/", MaxKeys=7)
    yield "put", captured(
        path.put_object, Bucket="bucket", Key="k", Body=b"hello", Metadata={"a": "two  spaces", "b": "1"}
    )
    yield "put sha256", captured(path.put_object, Bucket="bucket", Key="k", Body=b"hello", ChecksumAlgorithm="SHA256")
    signed = client(request_checksum_calculation="when_required")
    yield "put without checksum", captured(signed.put_object, Bucket="bucket", Key="k", Body=b"hello")
    yield "copy", captured(
        path.copy_object, Bucket="bucket", Key="k", CopySource={"Bucket": "bucket", "Key": "a b+c%2F"}
    )
    yield "delete objects", captured(path.delete_objects, Bucket="bucket", Delete={"Objects": [{"Key": "k"}]})
    yield "upload part", captured(
        path.upload_part, Bucket="bucket", Key="k", UploadId="u~1.+/=", PartNumber=3, Body=b"x"
    )
    # Over TLS, botocore streams bodies with a trailing checksum.
    yield "streamed put", captured(
        client(scheme="https").put_object, with_body=True, Bucket="bucket", Key="k", Body=b"hello world"
    )
    yield "tagging", captured(path.get_object_tagging, Bucket="bucket", Key="k")


def main():
    out = [f"# made by make_sigv4.py with botocore {botocore.__version__}", f"now_ms {int(NOW.timestamp() * 1000)}"]
    for name, lines in cases():
        out.append(f"case {name}")
        lines, body = lines if isinstance(lines, tuple) else (lines, None)
        out += [f"> {line}" for line in lines]
        if body is not None:
            out.append(f"body {body.hex()}")
    pathlib.Path(__file__).with_name("sigv4.txt").write_text("\n".join(out) + "\n", encoding="utf-8")


main()
