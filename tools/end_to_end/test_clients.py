"""What current clients do by default is served from the cache, and what they write is seen at once."""

import os
import threading
import urllib.request

import botocore.exceptions
import pytest

from lakehouse.seaweed import OBJECT_BUCKET

KIB = 1 << 10
MIB = 1 << 20
PART = 5 * MIB
# What differs between two answers to one question, whoever gives them.
VOLATILE_HEADERS = {"date", "x-amz-request-id", "x-amz-id-2", "server", "connection", "keep-alive"}


@pytest.fixture()
def clients(node, origin):
    """boto3 through the node and past it."""
    return node.endpoint.boto3(), origin.boto3()


@pytest.fixture()
def key(request):
    """A key of the test's own."""
    return f"clients/{request.node.name}"


def outcome(act):
    """What a call gives: its answer without what is volatile, or its status and S3 code."""
    try:
        answer = act()
    except botocore.exceptions.ClientError as error:
        answer = error.response
        return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]
    metadata = answer.pop("ResponseMetadata")
    headers = metadata["HTTPHeaders"]
    if "Body" in answer:
        answer["Body"] = answer["Body"].read()
    kept = {name: value for name, value in headers.items() if name not in VOLATILE_HEADERS}
    return metadata["HTTPStatusCode"], kept, answer


def test_boto3s_default_get_is_served_from_the_cache(clients, key, recorder, needs_node):
    through, direct = clients
    body = os.urandom(300 * KIB)
    direct.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body, Metadata={"colour": "blue"})
    first = outcome(lambda: through.get_object(Bucket=OBJECT_BUCKET, Key=key))
    mark = recorder.mark()
    second = outcome(lambda: through.get_object(Bucket=OBJECT_BUCKET, Key=key))
    assert recorder.since(mark) == []
    assert first == second == outcome(lambda: direct.get_object(Bucket=OBJECT_BUCKET, Key=key))
    assert second[2]["Body"] == body


def test_pyarrows_default_read_is_served_from_the_cache(clients, node, key, recorder, needs_node):
    body = os.urandom(300 * KIB)
    clients[1].put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)

    def read():
        with node.endpoint.arrow().open_input_file(f"{OBJECT_BUCKET}/{key}") as file:
            return file.read()

    assert read() == body
    mark = recorder.mark()
    assert read() == body
    assert recorder.since(mark) == []


def test_a_head_after_a_get_needs_no_origin(clients, key, recorder, needs_node):
    through, direct = clients
    direct.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"x" * KIB)
    through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
    mark = recorder.mark()
    head = outcome(lambda: through.head_object(Bucket=OBJECT_BUCKET, Key=key))
    assert recorder.since(mark) == []
    assert head == outcome(lambda: direct.head_object(Bucket=OBJECT_BUCKET, Key=key))


def test_a_write_through_the_node_is_seen_by_the_next_read(clients, key):
    through, direct = clients
    for version in range(5):
        body = os.urandom(100 * KIB + version)
        through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
        for client in (through, through, direct):
            assert client.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == body
        assert through.head_object(Bucket=OBJECT_BUCKET, Key=key)["ContentLength"] == len(body)


def test_a_write_is_seen_even_where_a_name_says_that_nothing_changes(clients, key):
    through, _ = clients
    key = f"{key}/metadata/v1.metadata.json"
    for body in (b"first", b"the second"):
        through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
        assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == body


def test_writes_and_reads_at_once_never_mix_versions(clients, node, key):
    through, _ = clients
    bodies = {bytes([letter]) * (200 * KIB + letter) for letter in b"abcdef"}
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=next(iter(bodies)))
    stop = threading.Event()
    wrong = []

    def read():
        client = node.endpoint.boto3()
        while not stop.is_set():
            try:
                body = client.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
            except (botocore.exceptions.BotoCoreError, ConnectionError):
                continue  # A version that went away in mid-stream is cut short, and seen to be.
            if body not in bodies:
                wrong.append(len(body))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for body in list(bodies) * 5:
        through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body)
        assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == body
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_deleted_object_is_gone(clients, key):
    through, direct = clients
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"here")
    through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
    through.delete_object(Bucket=OBJECT_BUCKET, Key=key)
    for method in ("get_object", "head_object"):
        gone = outcome(lambda: getattr(through, method)(Bucket=OBJECT_BUCKET, Key=key))
        assert gone == outcome(lambda: getattr(direct, method)(Bucket=OBJECT_BUCKET, Key=key))
        assert gone[0] == 404


def test_many_deleted_at_once_are_gone(clients, key):
    through, _ = clients
    keys = [f"{key}/{number}" for number in range(5)]
    for each in keys:
        through.put_object(Bucket=OBJECT_BUCKET, Key=each, Body=b"here")
        through.get_object(Bucket=OBJECT_BUCKET, Key=each)["Body"].read()
    objects = [{"Key": each} for each in keys]
    deleted = through.delete_objects(Bucket=OBJECT_BUCKET, Delete={"Objects": objects})
    assert {each["Key"] for each in deleted["Deleted"]} == set(keys)
    for each in keys:
        assert outcome(lambda: through.get_object(Bucket=OBJECT_BUCKET, Key=each))[0] == 404


def test_a_multipart_upload_replaces_what_was_cached(clients, key):
    through, direct = clients
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
    parts = [os.urandom(PART), os.urandom(PART), os.urandom(12345)]
    upload = through.create_multipart_upload(Bucket=OBJECT_BUCKET, Key=key)["UploadId"]
    place = {"Bucket": OBJECT_BUCKET, "Key": key, "UploadId": upload}
    listed = []
    for number, body in enumerate(parts, start=1):
        etag = through.upload_part(**place, PartNumber=number, Body=body)["ETag"]
        listed.append({"PartNumber": number, "ETag": etag})
    assert len(through.list_parts(**place)["Parts"]) == len(parts)
    through.complete_multipart_upload(**place, MultipartUpload={"Parts": listed})
    assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"".join(parts)
    for method in ("head_object", "get_object"):
        seen = outcome(lambda: getattr(through, method)(Bucket=OBJECT_BUCKET, Key=key))
        assert seen == outcome(lambda: getattr(direct, method)(Bucket=OBJECT_BUCKET, Key=key))


def test_an_aborted_upload_leaves_the_old_object(clients, key):
    through, _ = clients
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    upload = through.create_multipart_upload(Bucket=OBJECT_BUCKET, Key=key)["UploadId"]
    place = {"Bucket": OBJECT_BUCKET, "Key": key, "UploadId": upload}
    through.upload_part(**place, PartNumber=1, Body=b"new")
    through.abort_multipart_upload(**place)
    assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"old"


def test_a_copy_is_seen_and_its_odd_source_key_is_decoded_once(clients, key):
    through, direct = clients
    source = f"{key}/a+b c%2Bd é=@.txt"
    through.put_object(Bucket=OBJECT_BUCKET, Key=source, Body=b"copied")
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
    through.copy_object(
        Bucket=OBJECT_BUCKET, Key=key, CopySource={"Bucket": OBJECT_BUCKET, "Key": source}
    )
    for client in (through, direct):
        assert client.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"copied"


ODD_KEYS = [
    "plain", "with space", "plus+plus", "percent%25", "hash#mark", "question?mark", "at@sign",
    "equals=sign", "colon:colon", "a//b", "dot/./dot", "dots/..x/dots", "é-ü-日本", "slash%2Fslash",
    "tilde~", "quote'quote", "paren(paren)", "star*", "amp&amp", "semi;colon", "comma,comma",
    "dollar$", "bang!", "brace{brace}", "trailing/",
]


@pytest.mark.parametrize("odd", ODD_KEYS)
def test_odd_keys_are_written_and_read_as_the_origin_does(odd, clients, key):
    through, direct = clients
    key = f"{key[:16]}/odd/{odd}"
    written = [
        outcome(lambda: client.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"body"))[0]
        for client in (direct, through)
    ]
    assert written[0] == written[1]
    for method in ("get_object", "get_object", "head_object"):
        seen = outcome(lambda: getattr(through, method)(Bucket=OBJECT_BUCKET, Key=key))
        assert seen == outcome(lambda: getattr(direct, method)(Bucket=OBJECT_BUCKET, Key=key))


def test_lists_are_the_origins(clients, key):
    through, direct = clients
    for name in ("a/1", "a/2", "b/1", "c d+e", "c%25"):
        through.put_object(Bucket=OBJECT_BUCKET, Key=f"{key}/{name}", Body=b"x")
    questions = [
        {},
        {"Delimiter": "/"},
        {"MaxKeys": 2},
        {"StartAfter": f"{key}/a/1"},
        {"EncodingType": "url"},
    ]
    for question in questions:
        question = {"Bucket": OBJECT_BUCKET, "Prefix": f"{key}/", **question}
        seen, true = (outcome(lambda: each.list_objects_v2(**question)) for each in clients)
        assert seen == true
    assert through.list_objects(Bucket=OBJECT_BUCKET, Prefix=key)["Contents"]
    names = {each["Name"] for each in through.list_buckets()["Buckets"]}
    assert names == {each["Name"] for each in direct.list_buckets()["Buckets"]}


def test_presigned_addresses_work(node, key):
    # boto3 would still presign with the second version of the signature.
    through = node.endpoint.boto3(signature_version="s3v4")
    place = {"Bucket": OBJECT_BUCKET, "Key": f"{key} é+"}
    put = through.generate_presigned_url("put_object", Params=place)
    request = urllib.request.Request(put, data=b"by address", method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    get = through.generate_presigned_url("get_object", Params=place)
    for _ in range(2):
        with urllib.request.urlopen(get, timeout=30) as answer:
            assert answer.read() == b"by address"


@pytest.mark.parametrize("condition", [{"IfNoneMatch": "*"}, {"IfMatch": '"0"'}])
def test_conditional_writes_are_the_origins_to_refuse(condition, clients, key):
    through, direct = clients
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"old")
    write = {"Bucket": OBJECT_BUCKET, "Key": key, "Body": b"new", **condition}
    refused = outcome(lambda: through.put_object(**write))
    assert refused == outcome(lambda: direct.put_object(**write))
    assert refused[0] in (409, 412)
    assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == b"old"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_uploads_with_checksums_arrive_whole(algorithm, clients, key):
    through, direct = clients
    if algorithm in ("CRC32C", "CRC64NVME"):
        pytest.importorskip("awscrt")
    body = os.urandom(200 * KIB)
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=body, ChecksumAlgorithm=algorithm)
    assert through.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read() == body
    seen = outcome(lambda: through.head_object(Bucket=OBJECT_BUCKET, Key=key, ChecksumMode="ENABLED"))
    true = outcome(lambda: direct.head_object(Bucket=OBJECT_BUCKET, Key=key, ChecksumMode="ENABLED"))
    assert seen == true


def test_user_metadata_and_system_headers_come_back_as_written(clients, key):
    through, direct = clients
    through.put_object(
        Bucket=OBJECT_BUCKET,
        Key=key,
        Body=b"x",
        Metadata={"one": "1", "two-words": "a b"},
        ContentType="text/x-test",
        CacheControl="max-age=7",
        ContentDisposition='attachment; filename="a b"',
        ContentLanguage="is",
    )
    for _ in range(2):
        seen = outcome(lambda: through.get_object(Bucket=OBJECT_BUCKET, Key=key))
        assert seen == outcome(lambda: direct.get_object(Bucket=OBJECT_BUCKET, Key=key))


def test_response_overrides_are_honoured(clients, key):
    through, direct = clients
    through.put_object(Bucket=OBJECT_BUCKET, Key=key, Body=b"x")
    read = {"Bucket": OBJECT_BUCKET, "Key": key, "ResponseContentType": "text/odd"}
    for _ in range(2):
        seen = outcome(lambda: through.get_object(**read))
        assert seen == outcome(lambda: direct.get_object(**read))


def test_buckets_are_made_and_removed_through_the_node(clients, node):
    through, direct = clients
    bucket = f"made-{node.endpoint.port}"
    through.create_bucket(Bucket=bucket)
    assert outcome(lambda: direct.head_bucket(Bucket=bucket))[0] == 200
    through.put_object(Bucket=bucket, Key="a", Body=b"x")
    assert through.get_object(Bucket=bucket, Key="a")["Body"].read() == b"x"
    through.delete_object(Bucket=bucket, Key="a")
    through.delete_bucket(Bucket=bucket)
    seen, true = (outcome(lambda: each.get_object(Bucket=bucket, Key="a")) for each in clients)
    assert seen == true
