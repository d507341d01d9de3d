"""Reads of one part of an object that was uploaded in parts: the origin's own answers, and from memory
where the origin has told of that part before and the object is still the same."""

import os

import pytest

from conftest import RINGS
from lakehouse.comparison import differences
from lakehouse.recorder import reads_of_objects
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.wire import Question, Wire

MIB = 1 << 20
LENGTHS = [5 * MIB, 6 * MIB + 1, 777]
CHECKSUM_MODE = ("x-amz-checksum-mode", "ENABLED")
PASSES = 3


def upload(endpoint, key, lengths):
    """Writes an object in parts; gives its bytes."""
    client, place = endpoint.boto3(), {"Bucket": OBJECT_BUCKET, "Key": key}
    upload = client.create_multipart_upload(**place, Metadata={"parts": str(len(lengths))})
    place["UploadId"] = upload["UploadId"]
    bodies, parts = [os.urandom(length) for length in lengths], []
    for number, body in enumerate(bodies, 1):
        etag = client.upload_part(**place, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    client.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    return bodies


def questions(key, numbers, headers=()):
    path = f"/{OBJECT_BUCKET}/{key}"
    return [
        Question(method, path, f"partNumber={number}", headers)
        for number in numbers
        for method in ("GET", "HEAD")
    ]


def compare(asked, direct, through):
    """What differs between both sides' answers to the same questions."""
    pairs = [(question, direct.ask(question), through.ask(question)) for question in asked]
    return [(question, found) for question, *told in pairs if (found := differences(*told))]


@pytest.mark.parametrize("ring", RINGS)
def test_a_part_is_answered_as_the_origin_answers_and_then_from_memory(
    ring, origin, start_node, recorder, needs_node
):
    node = start_node(ring=ring, keys={"cache.mutable_ttl": "1h"})
    key = f"parts/{ring}"
    bodies = upload(origin, key, LENGTHS)
    direct, through = Wire(origin), Wire(node.endpoint)
    plain = questions(key, range(1, len(LENGTHS) + 1))
    asked = [
        *plain,
        *questions(key, [1, 3], (CHECKSUM_MODE,)),
        *questions(key, [4, 10_000]),
        *questions(key, [1], (("Range", "bytes=0-9"),)),
        Question("GET", f"/{OBJECT_BUCKET}/{key}", "partNumber=2&response-content-type=text%2Fodd"),
    ]
    for _ in range(PASSES):
        assert not compare(asked, direct, through)
    # An error of the node's own is worded by it.
    refused = through.ask(Question("GET", f"/{OBJECT_BUCKET}/{key}", "partNumber=2", (("If-Match", '"x"'),)))
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    assert through.ask(plain[2]).body == bodies[1]
    is_told = [direct.ask(question).status == 206 for question in plain]
    assert any(is_told), "an origin that tells nothing of parts proves nothing here"
    before = recorder.mark()
    told = [through.ask(question) for question, known in zip(plain, is_told) if known]
    assert {each.status for each in told} == {206}
    assert not reads_of_objects(recorder.since(before)), "the same connection's shard has been told"


@pytest.mark.parametrize("ring", RINGS)
def test_other_parts_under_the_same_name_are_never_taken_for_the_old_ones(
    ring, origin, start_node, needs_node
):
    node = start_node(ring=ring, keys={"cache.mutable_ttl": "1h"})
    key = f"parts/again-{ring}"
    direct, through = Wire(origin), Wire(node.endpoint)
    for lengths in (LENGTHS, [6 * MIB, 5 * MIB + 1, 777], [5 * MIB], LENGTHS):
        upload(node.endpoint, key, lengths)
        for _ in range(PASSES):
            assert not compare(questions(key, [1, 2, 3]), direct, through)
    node.endpoint.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"in one piece")
    for _ in range(PASSES):
        assert not compare(questions(key, [1, 2]), direct, through)
    node.endpoint.boto3().delete_object(Bucket=OBJECT_BUCKET, Key=key)
    assert not compare(questions(key, [1, 2]), direct, through)
