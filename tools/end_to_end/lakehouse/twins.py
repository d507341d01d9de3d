"""One question to an origin directly and through a node, on a bucket each that are written alike or on
one that nobody writes; and a sentence that tells a difference so that it can be repeated.
"""

import dataclasses

from .comparison import differences
from .wire import Wire

# Told of a body, and of a line, in a failure.
SHOWN_BYTES_MAX = 1500
SHOWN_CHARACTERS_MAX = 400


@dataclasses.dataclass
class Side:
    """One of two ways to ask, and its own names of what both have."""

    wire: Wire
    bucket: str
    # Whether the bucket is in the host's name rather than in the path.
    is_virtual_host: bool = False
    # What an answer named that later questions use, by its name: upload ids, versions.
    learnt: dict = dataclasses.field(default_factory=dict)

    def path(self, key_encoded):
        """The path of a key as it stands on the request line; the bucket's own without one."""
        if self.is_virtual_host:
            return f"/{key_encoded or ''}"
        return f"/{self.bucket}" + ("" if key_encoded is None else f"/{key_encoded}")

    def names(self):
        host = self.wire.host
        # Where its objects are, as an answer may tell: a virtual host's name has the bucket in it.
        place = host if self.is_virtual_host else f"{host}/{self.bucket}"
        return [place, host, self.bucket, *self.learnt.values()]


class Twins:
    """Both ways, asked in turn. `is_twin` where each writes a bucket of its own."""

    def __init__(self, direct, through):
        self.direct = direct
        self.through = through
        self.is_twin = direct.bucket != through.bucket
        self.asked = 0

    def ask(self, make):
        """Asks what `make(side)` makes of each; both answers, and what differs."""
        questions = [make(self.direct), make(self.through)]
        told = [side.wire.ask(question) for side, question in zip((self.direct, self.through), questions)]
        self.asked += 1
        names = (self.direct.names(), self.through.names()) if self.is_twin else ()
        found = differences(*told, *names)
        text = "\n".join([*map(shortened, found), *map(_shown, questions, told)]) if found else ""
        return (*told, text)


def _shown(question, told):
    head = f"{question.method} {question.path}" + (f"?{question.query}" if question.query else "")
    asked = "\n".join(f"  > {line}" for line in [head, *(f"{name}: {value}" for name, value in question.headers)])
    given = "\n".join(f"  < {name}: {value}" for name, value in sorted(told.headers))
    body = (question.body or b"")[:SHOWN_BYTES_MAX]
    text = f"{asked}\n  > {body!r}\n  < {told.status}\n{given}\n  < {told.body[:SHOWN_BYTES_MAX]!r}"
    return "\n".join(map(shortened, text.split("\n")))


def shortened(line):
    """A line of bearable length."""
    return line if len(line) <= SHOWN_CHARACTERS_MAX else f"{line[:SHOWN_CHARACTERS_MAX]}… ({len(line)} characters)"
