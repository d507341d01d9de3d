"""An Iceberg REST catalog that says what a test tells it to, on a free port, and keeps a record of what it
was asked. It serves any metadata that it is given; it writes and checks nothing. See `handmade` for tables.
"""

import dataclasses
import fnmatch
import http.server
import json
import secrets
import threading
import time
import urllib.parse

SEPARATOR_DEFAULT = "\x1f"
TABLE_ENDPOINT = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    TABLE_ENDPOINT,
]


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request as it came, its path and query as they were sent, and how it was answered."""

    method: str
    path: str
    query: str
    headers: dict
    body: str
    status: int
    monotonic: float

    @property
    def bearer(self):
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclasses.dataclass
class _Rule:
    path: str
    status: int | None
    body: bytes | None
    headers: dict
    delay: float
    times: int | None


class ScriptedCatalog:
    """One catalog. Any of these may be set at any time: `delay`, seconds before each answer; `fail_with`,
    a status for every request; `page_size`; `tokens`, the bearer tokens that are taken, or None for any;
    `lend`, a function of namespace and name that says which storage credentials go with a table."""

    def __init__(self, separator=None, prefix="", page_size=None, client=None, has_credentials_endpoint=False):
        self.separator, self.prefix, self.page_size = separator, prefix, page_size
        self.delay, self.fail_with = 0, None
        self.tokens, self.lend = None, None
        # OAuth2: (client id, secret), and how long a token is good for, in seconds.
        self.client, self.token_seconds = client, 3600
        self.has_credentials_endpoint = has_credentials_endpoint
        self._tables, self._views, self._namespaces, self._given = {}, set(), set(), {}
        self._requests, self._rules, self._lock = [], [], threading.RLock()
        if client:
            self.tokens = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.catalog = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self):
        """Everything that was asked so far."""
        with self._lock:
            return list(self._requests)

    def asked(self, pattern, since=0):
        """The requests from the `since`th on whose path fits, `*` being anything."""
        return [each for each in self.requests[since:] if fnmatch.fnmatchcase(each.path, pattern)]

    def put_namespace(self, *levels):
        with self._lock:
            self._namespaces.add(levels)

    def put_table(self, namespace, name, metadata_location, metadata):
        """Has a table be this from now on. The namespace is a tuple of levels, or a dotted text."""
        levels = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
        with self._lock:
            self._namespaces.add(levels)
            self._tables[levels, name] = (metadata_location, metadata)

    def put_view(self, namespace, name):
        levels = tuple(namespace.split("."))
        with self._lock:
            self._namespaces.add(levels)
            self._views.add((levels, name))

    def drop_table(self, namespace, name):
        with self._lock:
            del self._tables[tuple(namespace.split(".")), name]

    def play(self, path, status=None, body=None, headers=None, delay=0, times=None):
        """Answers what fits `path` in its own way, so many times: later, with a status, with a body."""
        with self._lock:
            self._rules.append(_Rule(path, status, body, headers or {}, delay, times))

    def lift(self):
        with self._lock:
            self._rules.clear()

    def end_tokens(self):
        """Tokens that were given are good no more."""
        with self._lock:
            self._given.clear()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # Answers: (status, body, headers).

    def _answer(self, method, path, query, headers, body):
        with self._lock:
            rule = next((each for each in self._rules if fnmatch.fnmatchcase(path, each.path)), None)
            if rule and rule.times is not None:
                rule.times -= 1
                if not rule.times:
                    self._rules.remove(rule)
        time.sleep((rule.delay if rule else 0) or self.delay)
        with self._lock:
            if rule and (rule.status or rule.body is not None):
                told = _error(rule.status)[1] if rule.body is None else rule.body
                return rule.status or 200, told, rule.headers
            if self.fail_with:
                return _error(self.fail_with)
            if path == "/v1/oauth/tokens":
                return self._token(body)
            if not self._knows(headers.get("authorization", "").removeprefix("Bearer ")):
                return _error(401)
            return self._route(path, urllib.parse.parse_qs(query, keep_blank_values=True), headers)

    def _token(self, body):
        form = urllib.parse.parse_qs(body)
        if self.client != (form.get("client_id", [""])[0], form.get("client_secret", [""])[0]):
            return 401, b'{"error": "invalid_client"}', {}
        token = secrets.token_hex(16)
        self._given[token] = time.monotonic() + self.token_seconds
        told = {"access_token": token, "token_type": "bearer", "expires_in": self.token_seconds}
        return _json(told)

    def _knows(self, token):
        return self.tokens is None or token in self.tokens or time.monotonic() < self._given.get(token, 0)

    def _route(self, path, query, headers):
        if path == "/v1/config":
            return self._config()
        root = "/v1" + (f"/{self.prefix}" if self.prefix else "")
        if not path.startswith(f"{root}/namespaces"):
            return _error(404)
        parts = path.removeprefix(f"{root}/namespaces").strip("/").split("/")
        # As Iceberg's own server does: a level may hold the separator where it is not escaped as that.
        levels = tuple(urllib.parse.unquote(level) for level in parts[0].split(self._escaped_separator()))
        if parts == [""]:
            return self._list_namespaces(query)
        if levels not in self._with_parents():
            return _error(404, "NoSuchNamespaceException")
        match [urllib.parse.unquote(part) for part in parts[1:]]:
            case []:
                return _json({"namespace": levels, "properties": {}})
            case ["tables"]:
                return self._identifiers(self._tables, levels, query)
            case ["views"]:
                return self._identifiers(self._views, levels, query)
            case ["tables", name]:
                return self._table(levels, name, headers)
            case ["tables", name, "credentials"] if self.has_credentials_endpoint:
                return _json({"storage-credentials": self._lent(levels, name)})
        return _error(404)

    def _config(self):
        overrides = {"prefix": self.prefix} if self.prefix else {}
        if self.separator:
            overrides["namespace-separator"] = self._escaped_separator()
        more = [f"{TABLE_ENDPOINT}/credentials"] if self.has_credentials_endpoint else []
        return _json({"defaults": {}, "overrides": overrides, "endpoints": [*ENDPOINTS, *more]})

    def _escaped_separator(self):
        return urllib.parse.quote(self.separator or SEPARATOR_DEFAULT, safe="").replace(".", "%2E")

    def _with_parents(self):
        return {levels[:depth] for levels in self._namespaces for depth in range(1, len(levels) + 1)}

    def _list_namespaces(self, query):
        text = query.get("parent", [""])[0]
        parent = tuple(text.split(self.separator or SEPARATOR_DEFAULT)) if text else ()
        within = [each for each in self._with_parents() if each[:-1] == parent]
        return self._page("namespaces", sorted(within), query)

    def _identifiers(self, known, levels, query):
        names = sorted(name for namespace, name in known if namespace == levels)
        return self._page("identifiers", [{"namespace": levels, "name": name} for name in names], query)

    def _page(self, what, items, query):
        token = query.get("pageToken", [""])[0]
        # A client that names no page understands none, and is given everything.
        if self.page_size is None or "pageToken" not in query:
            return _json({what: items})
        start = int(token.removeprefix("from ") or 0)
        end = start + self.page_size
        following = {"next-page-token": f"from {end}"} if end < len(items) else {}
        return _json({what: items[start:end], **following})

    def _table(self, levels, name, headers):
        if (levels, name) not in self._tables:
            return _error(404, "NoSuchTableException")
        location, metadata = self._tables[levels, name]
        etag = f'"{location}"'
        if headers.get("if-none-match") == etag:
            return 304, b"", {"ETag": etag}
        told = {"metadata-location": location, "metadata": metadata, "config": {}}
        if headers.get("x-iceberg-access-delegation") == "vended-credentials":
            told["storage-credentials"] = self._lent(levels, name)
        status, body, _ = _json(told)
        return status, body, {"ETag": etag}

    def _lent(self, levels, name):
        return self.lend(levels, name) if self.lend else []


def _json(value):
    return 200, json.dumps(value).encode(), {}


def _error(status, kind="ScriptedException"):
    error = {"message": f"{kind} as the test has it", "type": kind, "code": status}
    return status, json.dumps({"error": error}).encode(), {}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer is head and body; with Nagle's algorithm the body would wait for the head's receipt.
    disable_nagle_algorithm = True

    def _serve(self):
        catalog = self.server.catalog
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0))).decode()
        status, told, more = catalog._answer(self.command, path, query, headers, body)
        asked = Asked(self.command, path, query, headers, body, status, time.monotonic())
        with catalog._lock:
            catalog._requests.append(asked)
        try:
            self._send(status, told, {"Content-Type": "application/json", **more})
        except OSError:
            self.close_connection = True  # Whoever asked did not wait.

    def _send(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_DELETE = _serve

    def log_message(self, *_):
        """The record says it all."""
