"""Whether two answers to one question are the same, the origin's own and a node's: status, code,
every header's name and value, every byte of the body. What may differ is written here and nowhere else.
"""

import re

# Each answer's own, whoever gives it.
VOLATILE_HEADERS = {"date", "server", "x-amz-request-id", "x-amz-id-2"}
# How one hop tells the end of a body; the bodies themselves are compared.
FRAMING_HEADERS = {"connection", "keep-alive", "transfer-encoding"}
# What names the moment or the act, so that it differs between twins that were written one after the other.
TWINS_OWN = [
    rb"(<(?:LastModified|CreationDate|Initiated|Date)>)[^<]*",
    rb"(<(?:UploadId|VersionId|NextVersionIdMarker|NextUploadIdMarker|UploadIdMarker)>)[^<]*",
]
TWINS_OWN_HEADERS = {"last-modified", "x-amz-version-id", "x-amz-copy-source-version-id"}
ANSWERS_OWN = [rb"(<(?:RequestId|HostId)>)[^<]*"]


def differences(direct, through, direct_names=(), through_names=()):
    """What differs, in words; empty where nothing does. `…_names` are the twins' own names of things
    (buckets, hosts), in the same order; where they are given, the answers are of twins.
    """
    is_twin = bool(direct_names)
    found = []
    if direct.status != through.status or direct.is_cut != through.is_cut:
        found.append(f"status {direct.status} and {through.status}")
    if direct.code != through.code:
        found.append(f"code {direct.code!r} and {through.code!r}")
    ours, theirs = (_headers(each, is_twin) for each in (direct, through))
    ours, theirs = (_named(each, names) for each, names in ((ours, direct_names), (theirs, through_names)))
    for line in sorted(set(ours) ^ set(theirs)):
        found.append(f"header {'only direct' if line in ours else 'only through'}: {line}")
    bodies = [_body(direct, direct_names, is_twin), _body(through, through_names, is_twin)]
    if bodies[0] != bodies[1]:
        found.append(f"body {_excerpt(*bodies)}")
    return found


def _headers(told, is_twin):
    lines = []
    is_rewritten = told.status >= 300 and told.body
    for name, value in told.headers:
        if name in VOLATILE_HEADERS or name in FRAMING_HEADERS:
            continue
        if name == "content-length" and (is_rewritten or (is_twin and told.body.startswith(b"<"))):
            continue  # Of a body that holds names and ids; its bytes are compared.
        lines.append(f"{name}: {'…' if is_twin and name in TWINS_OWN_HEADERS else value}")
    return lines


def _named(lines, names):
    return [_renamed(line.encode("utf-8", "surrogateescape"), names).decode("utf-8", "replace") for line in lines]


def _renamed(text, names):
    for index, name in enumerate(names):
        text = text.replace(name.encode(), b"{%d}" % index)
    return text


def _body(told, names, is_twin):
    body = told.body
    if not body.lstrip()[:1] == b"<":
        return body
    for pattern in ANSWERS_OWN + (TWINS_OWN if is_twin else []):
        body = re.sub(pattern, rb"\1", body)
    return _renamed(body, names)


def _excerpt(one, other):
    """Both from shortly before where they part."""
    pairs = enumerate(zip(one, other))
    at = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    start = max(at - 60, 0)
    return f"from {at}: {one[start:at + 160]!r} and {other[start:at + 160]!r}"
