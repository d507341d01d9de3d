"""Credentials of a running node, made and withdrawn by the operator's command: a node that follows their
file does within two seconds what it says, with no restart, and nobody sees a secret but who made it."""

import json
import subprocess
import time
import urllib.error
import urllib.request

import botocore.exceptions
import pytest

from conftest import HAS_NODE
from lakehouse.endpoint import Endpoint
from lakehouse.recorder import BINARIES
from lakehouse.seaweed import OBJECT_BUCKET

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="credentials are the node's")

FOLLOWED_SECONDS_MAX = 2
LOOK_SECONDS = 0.05
BODY = b"what a credential may read"
MINE, YOURS = "credentials/mine/a", "credentials/yours/a"


class Roster:
    """A node's credentials file, and the command that changes it."""

    def __init__(self, folder):
        self.path = folder / "credentials.toml"
        self.audit = folder / "audit.log"
        self.secrets = []

    def command(self, *arguments):
        command = [BINARIES / "nilas", "credential", *arguments, "--file", self.path]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    def change(self, *arguments):
        """What a change prints."""
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        self.secrets.extend(told[name] for name in ["secret_key"] if name in told)
        return told


@pytest.fixture(scope="module")
def roster(workspace):
    folder = workspace / "credentials"
    folder.mkdir()
    roster = Roster(folder)
    roster.path.write_text("# nobody yet\n")
    roster.path.chmod(0o600)
    return roster


@pytest.fixture(scope="module")
def served(roster, start_node, origin):
    """A node whose credentials all stand in the file."""
    keys = {"auth.credentials_file": roster.path, "log.audit_file": roster.audit}
    node = start_node(ring="io_uring", keys=keys, has_own=False)
    for key in [MINE, YOURS]:
        origin.boto3().put_object(Bucket=OBJECT_BUCKET, Key=key, Body=BODY)
    yield node
    text = node.text() + roster.audit.read_text()
    assert not any(secret in text for secret in roster.secrets), "a secret was written down"


def endpoint(node, keys):
    return Endpoint(node.endpoint.port, keys["access_key"], keys["secret_key"])


def code(call, **arguments):
    """The code that a call is refused with; empty where it is not."""
    try:
        call(Bucket=OBJECT_BUCKET, **arguments)
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    return ""


def read(node, keys, key=MINE):
    return code(endpoint(node, keys).boto3().get_object, Key=key)


def soon(look, wanted):
    """Waits until the node has followed its file."""
    ends_at = time.monotonic() + FOLLOWED_SECONDS_MAX
    while (seen := look()) != wanted:
        assert time.monotonic() < ends_at, f"{seen!r} still, not {wanted!r}"
        time.sleep(LOOK_SECONDS)


def test_an_empty_file_admits_nobody_until_a_credential_is_made(served, roster):
    stranger = {"access_key": "AKNOBODY", "secret_key": "none"}
    assert read(served, stranger) == "InvalidAccessKeyId"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{served.endpoint.url}/{OBJECT_BUCKET}/{MINE}", timeout=10)
    keys = roster.change("create")
    soon(lambda: read(served, keys), "")
    assert roster.path.read_text().startswith("# nobody yet\n")
    assert roster.path.stat().st_mode & 0o777 == 0o600


def test_a_rotated_secret_replaces_the_old_one(served, roster):
    old = roster.change("create")
    soon(lambda: read(served, old), "")
    new = roster.change("rotate", old["access_key"])
    assert new["access_key"] == old["access_key"] and new["secret_key"] != old["secret_key"]
    soon(lambda: read(served, new), "")
    assert read(served, old) == "SignatureDoesNotMatch"


def test_a_revoked_credential_is_refused(served, roster):
    keys, other = roster.change("create"), roster.change("create")
    soon(lambda: read(served, keys), "")
    assert roster.change("revoke", keys["access_key"]) == {"revoked": keys["access_key"]}
    soon(lambda: read(served, keys), "InvalidAccessKeyId")
    assert read(served, other) == "", "the others stay"


def test_a_scope_holds(served, roster):
    scope = ["--mode=read_only", f"--bucket={OBJECT_BUCKET[:-1]}*", "--prefix=credentials/mine/"]
    keys = roster.change("create", *scope)
    soon(lambda: read(served, keys), "")
    client = endpoint(served, keys).boto3()
    assert code(client.list_objects_v2, Prefix="credentials/mine/") == ""
    assert code(client.list_objects_v2) == "AccessDenied"
    assert read(served, keys, YOURS) == "AccessDenied"
    assert code(client.put_object, Key=MINE, Body=b"other") == "AccessDenied"
    assert code(client.delete_object, Key=MINE) == "AccessDenied"
    assert code(client.get_bucket_acl) == "AccessDenied"
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        client.create_bucket(Bucket="credentials-other")


def test_a_list_shows_no_secret(roster):
    made = roster.change("create", "--access-key=listed", "--requests-per-second=9")
    for done in [roster.command("list"), roster.command("list", "--json")]:
        assert done.returncode == 0 and made["access_key"] in done.stdout, done.stderr
        assert not any(secret in done.stdout + done.stderr for secret in roster.secrets)
    assert made["access_key"] in [item["access_key"] for item in roster.change("list")]
    assert roster.command("revoke", "nobody").returncode == 1
    assert roster.command("create", "--mode=all").returncode == 2


def test_a_broken_file_leaves_the_last_good_one_in_force(served, roster):
    keys = roster.change("create")
    soon(lambda: read(served, keys), "")
    good = roster.path.read_text()
    told = served.text().count("cannot be used")
    roster.path.write_text(good.replace("secret_key", "secret_kye"))
    soon(lambda: served.text().count("cannot be used"), told + 1)
    assert read(served, keys) == ""
    refused = roster.command("revoke", keys["access_key"])
    assert refused.returncode == 1 and "secret_kye" in refused.stderr
    roster.path.write_text(good)
    roster.change("revoke", keys["access_key"])
    soon(lambda: read(served, keys), "InvalidAccessKeyId")


def test_a_file_that_others_can_read_is_warned_about(served, roster):
    warnings = served.text().count("others can read")
    roster.path.chmod(0o644)
    done = roster.command("create", "--access-key=exposed")
    assert "others can read" in done.stderr and f"chmod 640 {roster.path}" in done.stderr
    soon(lambda: served.text().count("others can read"), warnings + 1)
    roster.path.chmod(0o600)


def test_refusals_and_changes_of_buckets_are_recorded(served, roster):
    keys = roster.change("create", "--access-key=recorded")
    soon(lambda: read(served, keys), "")
    client = endpoint(served, keys).boto3()
    client.create_bucket(Bucket="credentials-recorded")
    client.delete_bucket(Bucket="credentials-recorded")
    wrong = {**keys, "secret_key": "wrong"}
    assert read(served, wrong) == "SignatureDoesNotMatch"

    def told():
        records = [json.loads(line) for line in roster.audit.read_text().splitlines()]
        own = [record for record in records if record["access_key"] == "recorded"]
        # Before the node had followed the file it refused this key, too.
        known = [record for record in own if record["code"] != "InvalidAccessKeyId"]
        return [(record["operation"], record["outcome"], record["key"]) for record in known]

    expected = [("CreateBucket", "done", ""), ("DeleteBucket", "done", "")]
    soon(told, [*expected, ("GetObject", "refused", MINE)])
