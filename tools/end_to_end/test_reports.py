"""What users of other systems ran into at the S3 endpoint, each as what is right. Bodies and keys go
out byte for byte as the reports have them.
"""

import base64
import os
import re
import threading
import types
import urllib.parse
import zlib

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

from conftest import RINGS
from lakehouse import engine
from lakehouse.client import Client, put, target, until
from lakehouse.device import Device
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.wire import Question, Wire, signed_chunks, unsigned_chunks

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
WRITERS = 8
ROWS = 1000
WAIT_SECONDS_MAX = 30
DEVICE = {"disk.data_bytes": "72MiB", "disk.metadata_bytes": "72MiB", "disk.mapping_bytes": "32MiB"}


@pytest.fixture()
def wire(node):
    wire = Wire(node.endpoint)
    yield wire
    wire.close()


def path(key):
    return f"/{OBJECT_BUCKET}/reports/{key}"


def crc32(body):
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def with_trailer(key, body, told, signed=False, chunked_http=False):
    """A PUT whose checksum, that of `told`, comes after its body."""
    trailer = [("x-amz-checksum-crc32", crc32(told))]
    headers = (
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(len(body))),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    )
    if signed:
        return Question("PUT", path(key), "", headers, payload=SIGNED_TRAILER, chunked=signed_chunks([body], trailer))
    written = unsigned_chunks([body], trailer)
    if chunked_http:
        headers = (*headers, ("Transfer-Encoding", "chunked"))
        written = f"{len(written):x}\r\n".encode() + written + b"\r\n0\r\n\r\n"
    return Question("PUT", path(key), "", headers, written, payload=UNSIGNED_TRAILER)


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_an_upload_with_its_checksum_in_a_trailer_is_taken(signed, wire, origin):
    body = os.urandom(100_000)
    assert wire.ask(with_trailer("trailer", body, body, signed)).status == 200
    read = origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key="reports/trailer")
    assert read["Body"].read() == body
    assert read.get("ContentEncoding", "") in ("", "aws-chunked")


def test_an_upload_needs_no_length_where_the_decoded_one_is_there(wire, origin):
    body = os.urandom(100_000)
    assert wire.ask(with_trailer("no-length", body, body, chunked_http=True)).status == 200
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key="reports/no-length")["Body"].read() == body


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_a_trailers_checksum_is_compared_and_the_old_object_stays(signed, wire, origin):
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key="reports/compared", Body=b"old")
    told = wire.ask(with_trailer("compared", b"new bytes", b"other bytes", signed))
    assert (told.status, told.code) == (400, "BadDigest")
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key="reports/compared")["Body"].read() == b"old"


@pytest.mark.parametrize("spelt", ["a+b@c", "a%2Bb%40c", "a%2bb@c", "%61+b%40c"])
def test_a_plus_and_an_at_are_themselves_escaped_or_not(spelt, wire, origin):
    body = spelt.encode()
    assert wire.ask(Question("PUT", path(spelt), body=body)).status == 200
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key="reports/a+b@c")["Body"].read() == body
    for proof in ("header", "query"):
        assert wire.ask(Question("GET", path(spelt), proof=proof)).body == body


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("port", ["", ":{port}"], ids=["no port", "a port"])
def test_a_bucket_in_the_hosts_name_is_found_whatever_the_port(port, ring, start_node, origin, needs_node):
    origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key="reports/by host", Body=b"by host")
    node = start_node(ring=ring, keys={"server.domains": ["s3.nilas.test"]})
    host = f"{OBJECT_BUCKET}.s3.nilas.test" + port.format(port=node.endpoint.port)
    told = Wire(node.endpoint, host).ask(Question("GET", "/reports/by%20host"))
    assert (told.status, told.body) == (200, b"by host")


def test_of_writers_that_create_one_key_one_wins_and_the_others_are_told_so(node, origin):
    key = f"created-{node.endpoint.port}"
    told = {}

    def create(number):
        question = Question("PUT", path(key), "", (("If-None-Match", "*"),), str(number).encode())
        told[number] = Wire(node.endpoint).ask(question)

    writers = [threading.Thread(target=create, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    won = [number for number, each in told.items() if each.status == 200]
    lost = {(each.status, each.code) for each in told.values() if each.status != 200}
    assert len(won) == 1
    assert lost <= {(409, "ConditionalRequestConflict"), (412, "PreconditionFailed")}
    assert Wire(node.endpoint).ask(Question("GET", path(key))).body == str(won[0]).encode()


def test_the_etag_of_an_object_in_parts_is_the_origins(node, origin):
    client, key = node.endpoint.boto3(), "reports/in parts"
    place = {"Bucket": OBJECT_BUCKET, "Key": key}
    place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
    etag = client.upload_part(**place, PartNumber=1, Body=b"part")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    told = client.complete_multipart_upload(**place, MultipartUpload=parts)["ETag"]
    assert told == origin.boto3().head_object(Bucket=OBJECT_BUCKET, Key=key)["ETag"]
    assert told.endswith('-1"')


@pytest.mark.parametrize("key", ["dt=1/part=a#b/x", "dt=1/part=a%2Fb/x", "dt=1/part=a%23b?/x"])
def test_a_partitions_name_is_neither_cut_nor_decoded_twice(key, wire, origin):
    body = key.encode()
    spelt = urllib.parse.quote(key, safe="/=")
    assert wire.ask(Question("PUT", path(spelt), body=body)).status == 200
    assert origin.boto3().get_object(Bucket=OBJECT_BUCKET, Key=f"reports/{key}")["Body"].read() == body
    listed = origin.boto3().list_objects_v2(Bucket=OBJECT_BUCKET, Prefix="reports/dt=1/")["Contents"]
    assert f"reports/{key}" in {each["Key"] for each in listed}
    for _ in range(2):
        assert wire.ask(Question("GET", path(spelt))).body == body


@pytest.mark.parametrize("ring", RINGS)
def test_a_listing_is_the_origins_at_every_question_however_the_last_one_ended(
    ring, needs_node, proxy, origin, tmp_path
):
    device, folder = Device(proxy, tmp_path, ring, DEVICE), f"reports/listed/{ring}"

    def place(number):
        rows = pyarrow.table({"row": range(ROWS)})
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(rows, sink)
        put(origin, f"{folder}/data/part-{number}.parquet", sink.getvalue().to_pybytes())

    put(origin, f"{folder}/metadata/00001-a.metadata.json", b"{}")
    for number in range(3):
        place(number)
    with device.node() as node:
        for after_bytes in (0, 300, 700):
            proxy.play({"fault": "cut", "after_bytes": after_bytes, "query": "list-type"})
            answer = listing(node, folder)
            assert answer.is_cut or answer.is_proper_error, "half a listing is none"
            with pytest.raises(duckdb.Error):
                count(node, folder)
            proxy.lift()
            until("it is listed", lambda: listing(node, folder).status == 200, WAIT_SECONDS_MAX)
            assert len(listed(node, folder)) == 3 and count(node, folder) == 3 * ROWS
        assert len(listed(node, folder, "&max-keys=2")) == 2
        place(3)
        assert len(listed(node, folder)) == 4 and count(node, folder) == 4 * ROWS
    place(4)
    with device.node() as node:
        assert len(listed(node, folder)) == 5 and count(node, folder) == 5 * ROWS
        assert listed(node, folder) == listed(types.SimpleNamespace(endpoint=origin), folder)


def listing(node, folder, more=""):
    client = Client(node.endpoint)
    answer = client.ask("GET", f"{target()}?list-type=2&prefix={folder}/data/{more}")
    client.close()
    return answer


def listed(node, folder, more=""):
    answer = listing(node, folder, more)
    assert answer.status == 200 and not answer.is_cut
    return re.findall("<Key>(.*?)</Key>", answer.body.decode())


def count(node, folder):
    """As an engine counts that goes by a listing."""
    connection = engine.connect_duckdb(node.endpoint)
    connection.execute("SET http_retries = 0")
    files = f"s3:/{target(folder)}/data/*.parquet"
    return connection.execute(f"SELECT count(*) FROM read_parquet('{files}')").fetchone()[0]
