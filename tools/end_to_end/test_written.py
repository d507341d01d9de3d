"""What was written through a node is in its cache: an engine that commits and then plans moves none of
its metadata from the origin, and every file is answered as the origin would have answered."""

import concurrent.futures
import os
import time

import pyarrow
import pytest

from conftest import RINGS
from lakehouse import one_piece, tables
from lakehouse.client import until
from lakehouse.comparison import differences
from lakehouse.recorder import reads_of_objects
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.wire import Question, Wire

NAMESPACE = "written"
COMMITS = 3
ROWS = pyarrow.table({"number": pyarrow.array(range(1000), pyarrow.int64())})
MIB = 1 << 20
READERS = 3
# Far less than the origin is given for the head of an answer, which is ten seconds.
READ_SECONDS_MAX = 6
LENGTHS = [1, 4096, 300_000, 2 * MIB, 5 * MIB + 1]


@pytest.mark.parametrize("ring", RINGS)
def test_planning_after_a_commit_moves_no_metadata_from_the_origin(
    ring, seaweed, start_node, recorder, needs_node
):
    node = start_node(ring=ring)
    catalog = tables.open_catalog(seaweed, node.endpoint, **{"py-io-impl": one_piece.NAME})
    catalog.create_namespace_if_not_exists(NAMESPACE)
    table = catalog.create_table(f"{NAMESPACE}.of_{ring}", schema=ROWS.schema)
    start = recorder.mark()
    for _ in range(COMMITS):
        table.append(ROWS)
    written = paths(recorder.since(start), "PUT", "/metadata/")
    assert len(written) >= 2 * COMMITS, "a manifest and a list of them, each in one piece"

    files = list(catalog.load_table(table.name()).scan().plan_files())
    assert len(files) == COMMITS
    records = recorder.since(start)
    read = paths(records, "GET", "/metadata/")
    assert not written & read, "bytes of it came back from the origin"
    asked = [each["path"] for each in records if each["method"] == "HEAD" and each["path"] in written]
    assert sorted(asked) == sorted(written), "each is asked about once"
    assert node.ring() == ring


def paths(records, method, part):
    return {each["path"] for each in records if each["method"] == method and part in each["path"]}


@pytest.mark.parametrize("ring", RINGS)
def test_what_was_just_written_is_answered_as_the_origin_answers(
    ring, origin, start_node, recorder, needs_node
):
    node = start_node(ring=ring, keys={"cache.write_allocate": "all"})
    client, through, direct = node.endpoint.boto3(), Wire(node.endpoint), Wire(origin)
    start = recorder.mark()
    for length in LENGTHS:
        body = os.urandom(length)
        for number, more in enumerate(
            [
                {},
                {"ContentType": "application/x-test", "CacheControl": "max-age=60"},
                {"Metadata": {"colour": "blue"}, "ContentDisposition": "attachment"},
                {"ChecksumAlgorithm": "SHA256", "ContentLanguage": "de, en"},
            ]
        ):
            key = f"written/{ring}/{length}-{number}"
            client.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body, **more)
            for question in questions(f"/{OBJECT_BUCKET}/{key}"):
                told = through.ask(question)
                assert differences(direct.ask(question), told) == [], question
            assert told.body == body
    reads = reads_of_objects(recorder.since(start))
    assert {each["method"] for each in reads} == {"HEAD"}
    assert len(reads) == 4 * len(LENGTHS)
    kept = f'nilas_write_allocations_total{{how="kept"}} {len(reads)}\n'
    until("all are counted", lambda: kept in node.admin("/metrics"), READ_SECONDS_MAX)


def questions(path):
    plain = Question("GET", path)
    return [
        plain.with_headers(("Range", "bytes=-1")),
        Question("HEAD", path),
        plain.with_headers(("x-amz-checksum-mode", "ENABLED")),
        plain,
    ]


HEAD_FAULTS = [{"fault": "stall"}, {"fault": "cut"}, {"fault": "status", "status": 503}]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("fault", HEAD_FAULTS, ids=lambda fault: fault["fault"])
def test_a_question_about_a_write_that_fails_is_no_readers_failure(
    fault, ring, start_behind, proxy, needs_node
):
    node = start_behind(ring=ring)
    key = f"/{OBJECT_BUCKET}/written/{ring}/metadata/{fault['fault']}-m0.avro"
    body = os.urandom(9000)
    proxy.play({**fault, "method": "HEAD"})
    assert Wire(node.endpoint).ask(Question("PUT", key, body=body)).status == 200
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        begun = time.monotonic()
        told = list(pool.map(lambda _: Wire(node.endpoint).ask(Question("GET", key)), range(READERS)))
        seconds = time.monotonic() - begun
    proxy.lift()
    assert [(each.status, each.body == body) for each in told] == [(200, True)] * READERS
    assert seconds < READ_SECONDS_MAX, "nobody waits for a question that nobody asked"
