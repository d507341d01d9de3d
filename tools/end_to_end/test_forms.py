"""POST forms as boto3 signs them for browsers, with a key that is the node's own: the origin, which has
never heard of it, judges the node's form in its place. A form that its policy refuses leaves the old
object where it is, and one that is taken is seen by the next read."""

import base64
import itertools
import json
import os
import types

import pytest
import urllib3
from botocore.auth import S3SigV4PostAuth
from botocore.credentials import Credentials

from conftest import HAS_NODE
from lakehouse.endpoint import REGION, Endpoint
from lakehouse.seaweed import OBJECT_BUCKET

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="the key is the node's")

OLD = b"old"
NUMBERS = itertools.count()
LARGE_BYTES = 3_000_000


def presigned(endpoint, key, fields=None, conditions=(), seconds=600):
    """The fields of a form that boto3 presigns, its own conditions among them."""
    fields = fields or {}
    conditions = [*conditions, *({name: value} for name, value in fields.items())]
    client = endpoint.boto3(signature_version="s3v4")
    made = client.generate_presigned_post(OBJECT_BUCKET, key, fields, conditions, seconds)
    return made["fields"]


def post(node, fields, file, file_name="f.txt", chunked=False):
    """Status, headers and code of what a form is answered."""
    form = [*fields.items(), ("file", (file_name, file, "text/plain"))]
    body, content_type = urllib3.encode_multipart_formdata(form)
    sent = (body[at : at + 50_000] for at in range(0, len(body), 50_000)) if chunked else body
    headers = {"Content-Type": content_type}
    url = f"{node.endpoint.url}/{OBJECT_BUCKET}"
    answer = urllib3.request(
        "POST", url, body=sent, headers=headers, redirect=False, retries=False, timeout=30
    )
    code = answer.data.split(b"<Code>")[1].split(b"<")[0].decode() if b"<Code>" in answer.data else ""
    return answer, code


class Stored:
    """An object of a test's own at the origin, past any node."""

    def __init__(self, origin):
        self.client = origin.boto3()
        self.key = f"forms/{next(NUMBERS)}"
        self.client.put_object(Bucket=OBJECT_BUCKET, Key=self.key, Body=OLD)

    def told(self, key=None):
        return self.client.get_object(Bucket=OBJECT_BUCKET, Key=key or self.key)

    def bytes(self):
        return self.told()["Body"].read()


@pytest.fixture()
def stored(origin):
    return Stored(origin)


def read(node, key):
    return node.endpoint.boto3().get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize("size", [0, 1, 100_000, LARGE_BYTES])
def test_a_form_writes_its_file_and_the_next_read_sees_it(size, chunked, node, stored):
    assert read(node, stored.key) == OLD
    file = os.urandom(size)
    fields = presigned(node.endpoint, stored.key, conditions=[["content-length-range", 0, LARGE_BYTES]])
    answer, code = post(node, fields, file, chunked=chunked)
    assert (answer.status, code) == (204, "")
    assert stored.bytes() == file
    assert read(node, stored.key) == file


def test_a_forms_fields_say_what_is_written(node, stored):
    fields = {"Content-Type": "image/png", "x-amz-meta-owner": "me", "acl": "private"}
    made = presigned(node.endpoint, "forms/${filename}", fields)
    answer, code = post(node, {**made, "x-ignore-me": "i"}, b"bytes", "named by its file.txt")
    assert (answer.status, code) == (204, "")
    told = stored.told("forms/named by its file.txt")
    assert (told["Body"].read(), told["ContentType"], told["Metadata"]) == (b"bytes", "image/png", {"owner": "me"})


def test_a_form_is_answered_as_it_asks(node, stored):
    for asked, status in [("200", 200), ("201", 201), ("204", 204)]:
        made = presigned(node.endpoint, stored.key, fields={"success_action_status": asked})
        answer, _ = post(node, made, asked.encode())
        assert answer.status == status and stored.bytes() == asked.encode()
    made = presigned(node.endpoint, stored.key, fields={"success_action_redirect": "http://page.test/done"})
    answer, _ = post(node, made, b"redirected")
    assert answer.status == 303 and stored.bytes() == b"redirected"
    assert answer.headers["Location"].startswith("http://page.test/done?")


def resigned(fields, endpoint, change):
    """The form with its policy changed and signed anew, as who has the secret could."""
    policy = json.loads(base64.b64decode(fields["policy"]))
    change(policy)
    policy = base64.b64encode(json.dumps(policy).encode()).decode()
    credentials = Credentials(endpoint.access_key, endpoint.secret_key)
    request = types.SimpleNamespace(context={"timestamp": fields["x-amz-date"]})
    signature = S3SigV4PostAuth(credentials, "s3", REGION).signature(policy, request)
    return {**fields, "policy": policy, "x-amz-signature": signature}


def without(name):
    return lambda policy: policy.pop(name)


RANGE = [["content-length-range", 1000, 2000]]
GOOD = b"x" * 1500
REFUSALS = {
    "a signature by another secret": (403, "SignatureDoesNotMatch"),
    "a key that nobody knows": (403, "InvalidAccessKeyId"),
    "an expired policy": (403, "AccessDenied"),
    "a field that is not covered": (403, "AccessDenied"),
    "a field of another value": (403, "AccessDenied"),
    "a field that is missing": (403, "AccessDenied"),
    "another key": (403, "AccessDenied"),
    "no expiration": (400, "InvalidPolicyDocument"),
    "no conditions": (400, "InvalidPolicyDocument"),
    "no signature": (400, "InvalidArgument"),
    "a file too short": (400, "EntityTooSmall"),
    "a file too long": (400, "EntityTooLarge"),
}


def refused_form(what, endpoint, key):
    """The form of that refusal, and its file."""
    made = presigned(endpoint, key, fields={"acl": "private"}, conditions=RANGE)
    stranger = Endpoint(endpoint.port, "AKNOBODY", endpoint.secret_key)
    guesser = Endpoint(endpoint.port, endpoint.access_key, "guessed")
    past = {"expiration": "2020-01-01T00:00:00Z"}
    made = {
        "a signature by another secret": lambda: presigned(guesser, key, conditions=RANGE),
        "a key that nobody knows": lambda: presigned(stranger, key, conditions=RANGE),
        "an expired policy": lambda: resigned(made, endpoint, lambda policy: policy.update(past)),
        "a field that is not covered": lambda: {**made, "x-amz-meta-a": "a"},
        "a field of another value": lambda: {**made, "acl": "public-read"},
        "a field that is missing": lambda: {name: made[name] for name in made if name != "acl"},
        "another key": lambda: {**made, "key": "forms/other"},
        "no expiration": lambda: resigned(made, endpoint, without("expiration")),
        "no conditions": lambda: resigned(made, endpoint, without("conditions")),
        "no signature": lambda: {name: made[name] for name in made if name != "x-amz-signature"},
    }.get(what, lambda: made)()
    file = {"a file too short": GOOD[:999], "a file too long": GOOD * 2}.get(what, GOOD)
    return made, file


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize("what", REFUSALS)
def test_a_form_that_is_refused_leaves_the_old_object(what, chunked, node, stored):
    fields, file = refused_form(what, node.endpoint, stored.key)
    answer, code = post(node, fields, file, chunked=chunked)
    assert (answer.status, code) == REFUSALS[what], answer.data
    assert stored.bytes() == OLD and read(node, stored.key) == OLD


def test_a_large_file_that_is_too_long_at_its_end_is_never_stored(node, stored):
    limit = [["content-length-range", 0, LARGE_BYTES - 1]]
    fields = presigned(node.endpoint, stored.key, conditions=limit)
    for chunked in (False, True):
        answer, code = post(node, fields, os.urandom(LARGE_BYTES), chunked=chunked)
        assert (answer.status, code) == (400, "EntityTooLarge")
        assert stored.bytes() == OLD


def test_the_resigned_form_of_these_tests_is_a_good_one(node, stored):
    made = presigned(node.endpoint, stored.key, fields={"acl": "private"}, conditions=RANGE)
    answer, code = post(node, resigned(made, node.endpoint, lambda policy: None), GOOD)
    assert (answer.status, code) == (204, "")
    assert stored.bytes() == GOOD
