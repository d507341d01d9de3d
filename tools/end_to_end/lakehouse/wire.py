"""Requests byte for byte as they are wished: any path, query, headers and body, signed with SigV4 by
hand, and the answer as it came. Nothing is encoded, normalised or asked twice here.
"""

import dataclasses
import datetime
import hashlib
import hmac
import http.client
import select
import socket
import urllib.parse

from .endpoint import REGION

ANSWER_SECONDS_MAX = 30
UNSIGNED = "UNSIGNED-PAYLOAD"
UNRESERVED = "-_.~"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclasses.dataclass(frozen=True)
class Question:
    """One request. `path` is what stands on the request line, percent-encoded already. `proof` is
    `header`, `query` or `none`; `payload` is the digest to be signed, that of the body by default.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple = ()
    body: bytes | None = None
    proof: str = "header"
    payload: str | None = None
    # Writes the body out of the signature that the head carries, where the body is signed too.
    chunked: object = None

    def with_headers(self, *headers):
        return dataclasses.replace(self, headers=(*self.headers, *headers))


@dataclasses.dataclass
class Told:
    """An answer. `status` is 0 where none came; `is_cut` where it ended early."""

    status: int
    headers: list
    body: bytes
    is_cut: bool = False

    def header(self, name):
        return next((value for each, value in self.headers if each == name), None)

    @property
    def code(self):
        """The S3 error code; empty without an error."""
        return self.element("Code") if self.status >= 300 else ""

    def element(self, name):
        """The text of the first XML element of that name; empty where there is none."""
        opened = self.body.partition(f"<{name}>".encode())[2]
        return opened.partition(b"</")[0].decode("utf-8", "replace")

    def last_element(self, name):
        """The text of the last XML element of that name; empty where there is none."""
        opened = self.body.rpartition(f"<{name}>".encode())[2] if f"<{name}>".encode() in self.body else b""
        return opened.partition(b"</")[0].decode("utf-8", "replace")


class Wire:
    """One kept-alive connection to `endpoint`, under `host` as the name that is asked for.

    `forgives_close` asks again where a kept connection turns out to be closed; without it that is an answer.
    `dial` opens the connection, where that is not plain TCP to the endpoint's port.
    """

    def __init__(self, endpoint, host=None, forgives_close=False, dial=None):
        self._endpoint = endpoint
        self.host = host or endpoint.host
        self._dial = dial or self._dial_endpoint
        self._forgives_close = forgives_close
        self._socket = None

    def ask(self, question):
        """Sends the question and reads its answer."""
        is_kept = self._socket is not None
        told = self._ask_once(question)
        if told.status == 0 and is_kept and self._forgives_close:
            return self._ask_once(question)
        return told

    def _ask_once(self, question):
        bytes_out = self.bytes_of(question)
        connection = self._connected()
        try:
            connection.sendall(bytes_out)
        except ConnectionError:
            pass  # Refused before all of it was taken: the answer may have come all the same.
        answer = http.client.HTTPResponse(connection, method=question.method)
        try:
            answer.begin()
        except (ConnectionError, http.client.HTTPException) as error:
            self.close()
            return Told(0, [], repr(error).encode(), is_cut=True)
        return self._rest(answer)

    def _rest(self, answer):
        is_cut = False
        try:
            body = answer.read()
        except http.client.IncompleteRead as error:
            body, is_cut = error.partial, True
        except ConnectionError:
            body, is_cut = b"", True
        headers = [(name.lower(), value) for name, value in answer.getheaders()]
        if answer.will_close or is_cut:
            self.close()
        return Told(answer.status, headers, body, is_cut)

    def close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self):
        if self._socket is not None and select.select([self._socket], [], [], 0)[0]:
            self.close()  # Nothing was asked: what can be read is the connection's end.
        if self._socket is None:
            self._socket = self._dial()
        return self._socket

    def _dial_endpoint(self):
        address = ("127.0.0.1", self._endpoint.port)
        connection = socket.create_connection(address, timeout=ANSWER_SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def bytes_of(self, question):
        """The request as it goes out."""
        names = {name.lower() for name, _ in question.headers}
        headers = list(question.headers)
        if "host" not in names:
            headers.insert(0, ("Host", self.host))
        payload = question.payload or hashlib.sha256(question.body or b"").hexdigest()
        signature = Signature(self._endpoint, question, headers, payload)
        query, headers = question.query, headers
        if question.proof == "header":
            headers = signature.headers()
        elif question.proof == "query":
            query = signature.query()
        body = question.chunked(signature) if question.chunked else question.body
        has_length = names & {"content-length", "transfer-encoding"}
        if not has_length and (body or question.method in ("PUT", "POST")):
            headers.append(("Content-Length", str(len(body or b""))))
        target = question.path + (f"?{query}" if query else "")
        lines = [f"{question.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape") + (body or b"")


def sign_text(secret_key, scope, text):
    """The signature of a text under the key that a secret gives for a scope."""
    key = b"AWS4" + secret_key.encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Signature:
    """SigV4 over one question: as a header or in the query, and the seed of a signed body's chunks."""

    def __init__(self, endpoint, question, headers, payload):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.date = now.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.date[:8]}/{REGION}/s3/aws4_request"
        self._endpoint = endpoint
        self._question = question
        self._plain = headers
        self._payload = payload
        self.seed = ""

    def headers(self):
        """The question's headers with the proof among them."""
        known = {name.lower() for name, _ in self._plain}
        headers = list(self._plain)
        own = [("x-amz-date", self.date), ("x-amz-content-sha256", self._payload)]
        headers.extend(each for each in own if each[0] not in known)
        signed = _signed_names(headers)
        self.seed = self._sign(self._question.query, headers, signed, self._payload)
        proof = (
            f"AWS4-HMAC-SHA256 Credential={self._endpoint.access_key}/{self.scope}, "
            f"SignedHeaders={';'.join(signed)}, Signature={self.seed}"
        )
        return [*headers, ("Authorization", proof)]

    def query(self):
        """The question's query with the proof in it."""
        signed = _signed_names(self._plain)
        own = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self._endpoint.access_key}/{self.scope}",
            "X-Amz-Date": self.date,
            "X-Amz-Expires": "300",
            "X-Amz-SignedHeaders": ";".join(signed),
        }
        pairs = [f"{name}={urllib.parse.quote(value, safe='')}" for name, value in own.items()]
        query = "&".join(([self._question.query] if self._question.query else []) + pairs)
        return f"{query}&X-Amz-Signature={self._sign(query, self._plain, signed, UNSIGNED)}"

    def sign_text(self, text):
        """The signature of a text under the day's key."""
        return sign_text(self._endpoint.secret_key, self.scope, text)

    def _sign(self, query, headers, signed, payload):
        values = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(" ".join(value.split()))
        lines = "".join(f"{name}:{','.join(values[name])}\n" for name in signed)
        canonical = "\n".join(
            [
                self._question.method,
                _recoded(self._question.path, "/" + UNRESERVED),
                _canonical_query(query),
                lines,
                ";".join(signed),
                payload,
            ]
        )
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
        return self.sign_text(f"AWS4-HMAC-SHA256\n{self.date}\n{self.scope}\n{digest}")


def signed_chunks(pieces, trailer=()):
    """The writer of an aws-chunked body whose chunks are signed; `trailer` has names and values."""

    def write(signature):
        previous, written = signature.seed, b""
        for piece in [*pieces, b""]:
            digest = hashlib.sha256(piece).hexdigest()
            previous = signature.sign_text(
                f"AWS4-HMAC-SHA256-PAYLOAD\n{signature.date}\n{signature.scope}\n{previous}\n{EMPTY_SHA256}\n{digest}"
            )
            written += f"{len(piece):x};chunk-signature={previous}\r\n".encode() + piece
            written += b"\r\n" if piece or not trailer else b""
        if trailer:
            lines = "".join(f"{name}:{value}\n" for name, value in trailer)
            digest = hashlib.sha256(lines.encode()).hexdigest()
            last = signature.sign_text(
                f"AWS4-HMAC-SHA256-TRAILER\n{signature.date}\n{signature.scope}\n{previous}\n{digest}"
            )
            written += lines.replace("\n", "\r\n").encode() + f"x-amz-trailer-signature:{last}\r\n\r\n".encode()
        return written

    return write


def unsigned_chunks(pieces, trailer=()):
    """An aws-chunked body without signatures."""
    written = b"".join(f"{len(each):x}\r\n".encode() + each + b"\r\n" for each in pieces)
    return written + b"0\r\n" + "".join(f"{name}:{value}\r\n" for name, value in trailer).encode() + b"\r\n"


def _signed_names(headers):
    """Those that S3 wants signed, and those that most clients sign."""
    names = {name.lower() for name, _ in headers}
    return sorted(name for name in names if name in ("host", "content-md5", "content-type") or name.startswith("x-amz-"))


def _recoded(text, safe):
    """Decoded once and encoded again, as S3 spells what it signs."""
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(text.encode("utf-8", "surrogateescape")), safe=safe)


def _canonical_query(query):
    pairs = []
    # A plus is a space in a query, and in none but that.
    for pair in filter(None, query.replace("+", "%20").split("&")):
        name, _, value = pair.partition("=")
        pairs.append((_recoded(name, UNRESERVED), _recoded(value, UNRESERVED)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))
