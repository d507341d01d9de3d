"""A client without ideas of its own: presigned requests over one connection, and answers as they
came, cut ones included. It never tries twice."""

import dataclasses
import functools
import http.client
import time

import botocore.auth
import botocore.awsrequest
import botocore.credentials

from .endpoint import REGION
from .seaweed import OBJECT_BUCKET

ANSWER_SECONDS_MAX = 60
SIGNED_SECONDS = 3600
LOOK_SECONDS = 0.02


def target(*parts):
    """A key of the bucket that every origin here has, in parts that slashes join."""
    return "/".join(["", OBJECT_BUCKET, *parts])


def put(endpoint, key, body):
    """Writes an object; that must succeed."""
    client = Client(endpoint)
    assert client.ask("PUT", target(key), body=body).status == 200
    client.close()


def until(what, holds, seconds_max):
    """Waits until something holds; fails, naming it, after so many seconds."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(LOOK_SECONDS)


@functools.lru_cache(maxsize=4096)
def presigned(endpoint, method, target, headers=()):
    """`target` with a signature over these headers, which must be sent, for any others and any body."""
    credentials = botocore.credentials.Credentials(endpoint.access_key, endpoint.secret_key)
    signer = botocore.auth.S3SigV4QueryAuth(credentials, "s3", REGION, expires=SIGNED_SECONDS)
    request = botocore.awsrequest.AWSRequest(method, endpoint.url + target, headers=dict(headers))
    signer.add_auth(request)
    return request.url[len(endpoint.url) :]


def amazon_headers(headers):
    """Those that no signature may leave out."""
    names = (headers or {}).items()
    return tuple(each for each in names if each[0].startswith("x-amz-"))


@dataclasses.dataclass
class Answer:
    """What came back. `status` is 0 where nothing did; a cut body is as long as it got."""

    status: int
    headers: dict
    body: bytes
    is_cut: bool
    seconds: float

    @property
    def code(self):
        """The S3 error code; empty without an error."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()

    @property
    def is_proper_error(self):
        """Whether it is an error as S3 tells it; one that asks for patience says how much."""
        says_when = self.status != 503 or "retry-after" in self.headers
        return self.status >= 400 and not self.is_cut and says_when


class Client:
    """One connection, renewed when it has ended."""

    def __init__(self, endpoint, timeout=ANSWER_SECONDS_MAX):
        self._endpoint = endpoint
        self._connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=timeout)

    def ask(self, method, target, headers=None, body=None):
        """Asks once. A connection that ends early is a cut answer; silence is an error."""
        begun = time.monotonic()
        status, seen, received, is_cut = 0, {}, b"", False
        try:
            signed = presigned(self._endpoint, method, target, amazon_headers(headers))
            self._connection.request(method, signed, body=body, headers=headers or {})
            answer = self._connection.getresponse()
            status = answer.status
            seen = {name.lower(): value for name, value in answer.getheaders()}
            received = answer.read()
        except http.client.IncompleteRead as error:
            received, is_cut = error.partial, True
        except (ConnectionError, http.client.BadStatusLine):
            is_cut = True
        if is_cut:
            self._connection.close()
        return Answer(status, seen, received, is_cut, time.monotonic() - begun)

    def get(self, target, first=None, last=None):
        """The object, or its bytes from `first` to `last`, both included."""
        headers = {} if first is None else {"Range": f"bytes={first}-{last}"}
        return self.ask("GET", target, headers)

    def close(self):
        self._connection.close()
