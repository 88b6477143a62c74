"""Names in paths of the management API, and the proof that they arrive as they were sent. No I/O.

A server between the gateway and the broker may decode a path before it forwards it: then the queue ``a/b`` of
the virtual host ``/``, asked for at ``queues/%2F/a%2Fb``, becomes another object, or none. A second reading
of the same path proves nothing, so a path is proved by a request whose answer repeats what arrived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from gateway.sources.rabbitmq.object_names import ByteName

_DOTS: Final = frozenset({".", ".."})
"""Segments that every client and server removes from a path, in whatever way they are written."""


def _quoted(part: str) -> str:
    """Return a name as a segment: its bytes, where it is no UTF-8."""
    return (
        quote(part.octets, safe="")
        if isinstance(part, ByteName)
        else quote(part, safe="", errors="surrogatepass")
    )


def path_of(*parts: str) -> str:
    """Return names as segments of a path: ``path_of("queues", "/", "a b")`` is ``queues/%2F/a%20b``.

    A name of dots alone is written so that no library removes it before `PathProof.fault` refuses it.
    """
    return "/".join(part.replace(".", "%2E") if part in _DOTS else _quoted(part) for part in parts)


_CHECKED: Final = ("/", "%41", "%2f", ";", "?", "#", "+", " ", "\\", "&", "=", "|", "\n")
"""Texts whose first character servers are known to change or refuse, although it is escaped.

Apache with ``AllowEncodedSlashes NoDecode`` and without ``nocanon`` escapes a ``%`` again, but not that of
``%2f``. The expression ``(.*)`` of a rewriting rule ends before a line feed.
"""
_ALL: Final = frozenset(text[0] for text in _CHECKED)
_UPPER_CASE: Final = "A"
"""Stands for all capital letters among the characters of a `PathProof`."""
_WORDS: Final = {_UPPER_CASE: "capital letters", " ": "a space", "\n": "a line feed"}
_MARK: Final = "amqp-gateway"
"""Begin of the probed text; RabbitMQ repeats it in lower case."""
_TOGETHER: Final = f"{''.join(_CHECKED)}../..//"
_ECHO: Final = "health/checks/protocol-listener"
"""RabbitMQ 3.10 to 4.3 repeat the last segment of this path, in JSON, to any user of the management API."""
_EXCHANGE: Final = "amq.direct"
_HOSTS: Final = "vhosts?columns=name"
_OK, _UNAUTHORISED, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 200, 401, 404, 429, 500
_OF_A_PROXY: Final = frozenset({502, 503, 504})
"""Statuses of a proxy that had no answer, or none in time (RFC 9110, 15.6.3 to 15.6.5)."""
_ATTEMPTS: Final = 3
"""The number of times that a target is asked for at most, while a proxy answers with such a status."""
_ESCAPED: Final = re.compile("[%A-Z]")

NO_PATH: Final = "the management API has no path to an object with a name that is empty, '.' or '..'"
NOT_SHOWN: Final = (
    "RabbitMQ lists a name that is no UTF-8 with U+FFFD in the place of its bytes, which are not known"
)
_REPLACEMENT: Final = "\ufffd"
_REPLACED: Final = "%EF%BF%BD"
"""U+FFFD in a path; the bytes of a name that is no UTF-8 are others."""


class PathAnswer(NamedTuple):
    """An HTTP response; ``pause``: the nanoseconds for which the server demands that nothing is sent."""

    status: int
    body: bytes
    pause: int = 0


@dataclass(frozen=True, slots=True)
class PathProof:
    """What became of characters of names on the way to a node of the broker.

    Attributes:
        altered: the characters that do not arrive; ``A`` stands for all capital letters.
        proved: false if the broker's answers show nothing, so that ``altered`` is what is feared.
    """

    altered: frozenset[str] = frozenset()
    proved: bool = True

    @property
    def _lowers(self) -> bool:
        return _UPPER_CASE in self.altered

    @property
    def text(self) -> str:
        """One line about names that cannot be used; empty if all can."""
        if not self.altered:
            return ""
        shown = ", ".join(_WORDS.get(one, one) for one in sorted(self.altered))
        found = (
            f"a server between the gateway and the broker changes or refuses {shown} in names"
            if self.proved
            else f"it is not proved that {shown} in names arrives at the broker as it is sent"
        )
        return f"{found}: such objects are neither asked for singly nor changed"

    def fault(self, target: str) -> str:
        """Return why the request of ``target``, a path below ``/api/``, must not be sent; empty if it may."""
        for segment in target.partition("?")[0].split("/"):
            name = unquote(segment)
            if not name or name in _DOTS:
                return NO_PATH
            if _REPLACED in segment:
                return NOT_SHOWN
            # What changes all of these changes every escaped character.
            escaped = "%" in segment and self.altered >= _ALL
            if escaped or self.altered.intersection(name) or (self._lowers and name.lower() != name):
                return self.text
            # No answer can repeat such bytes. What decodes a path may put U+FFFD in their place, which is the
            # name of another object.
            if self.altered and _REPLACEMENT in name:
                return f"{self.text}; nor are those whose names are no UTF-8"
        return ""


def takes_proof(target: str) -> bool:
    """Return whether a path below ``/api/`` must be proved before it is used: names could be changed."""
    return _ESCAPED.search(target.partition("?")[0]) is not None


@dataclass(slots=True)
class _Findings:
    """The characters that were found to change, and whether all of them were."""

    altered: set[str] = field(default_factory=set)
    proved: bool = True

    def add(self, character: str, answer: PathAnswer) -> None:
        """Note a character of a text that did not arrive; a proxy's own error shows nothing of it."""
        self.altered.add(character)
        self.proved = self.proved and not _is_of_a_proxy(answer)


_Steps: TypeAlias = Generator[str, PathAnswer, PathAnswer]


def proof_steps() -> Generator[str, PathAnswer, PathProof | PathAnswer]:
    """Prove the paths to a node: yield targets below ``/api/``, take what is answered.

    Returns:
        The proof, or the answer of a server that serves no requests now, which shows nothing.
    """
    answer = yield from _asked(_probe(_TOGETHER))
    if _shows_nothing(answer):
        return answer
    found = _Findings()
    if not _echoes(answer, _TOGETHER):
        plain = yield from _asked(_probe(""))
        if not _echoes(plain, ""):
            return (yield from _by_known_objects())
        if not (yield from _one_by_one(found)):
            return PathProof(frozenset(found.altered), proved=False)
        if not found.altered:  # it is only changed beside others of its kind
            found.add("/", answer)
    lowered = yield from _asked(f"{_ECHO.upper()}/{_MARK}x")
    if _shows_nothing(lowered):
        return lowered
    if _echoes(lowered, "") or _is_of_a_proxy(lowered):
        found.add(_UPPER_CASE, lowered)
    return PathProof(frozenset(found.altered), found.proved)


def _one_by_one(found: _Findings) -> Generator[str, PathAnswer, bool]:
    """Find the characters that change; return false if the server stopped to serve requests meanwhile."""
    for number, text in enumerate(_CHECKED):
        answer = yield from _asked(_probe(text))
        if _echoes(answer, text):
            continue
        found.add(text[0], answer)
        # It may have been refused for another reason than this character.
        refused = answer.status >= _TOO_MANY and not _is_echo(answer)
        if _shows_nothing(answer) or (refused and not _echoes((yield from _asked(_probe(""))), "")):
            found.altered.update(left[0] for left in _CHECKED[number:])
            return False
    return True


def _asked(target: str) -> _Steps:
    """Ask for a target, again while a proxy has no answer: that proves nothing either way."""
    answer = yield target
    for _ in range(1, _ATTEMPTS):
        if _shows_nothing(answer) or not _is_of_a_proxy(answer):
            break
        answer = yield target
    return answer


def _probe(text: str) -> str:
    return f"{_ECHO}/{path_of(f'{_MARK}{text}x')}"


def _by_known_objects() -> Generator[str, PathAnswer, PathProof | PathAnswer]:
    """Prove what virtual hosts can prove by their names, where something hides the other answers.

    Each has an exchange `_EXCHANGE`. That of ``/`` proves a slash, and nothing else.
    """
    answer = yield from _asked(_exchange_of("/"))
    if _shows_nothing(answer) or answer.status >= _SERVER_ERROR:
        return answer
    listing = yield from _asked(_HOSTS)
    if _shows_nothing(listing):
        return listing
    unproved, hosts = set(_ALL | {_UPPER_CASE}), _names(listing)
    known = next((host for host in hosts if not takes_proof(path_of(host))), None)
    if _shows_exchange(answer, "/"):
        unproved.discard("/")
        known = "/"
    for host in hosts:
        gained = _characters(host) & unproved
        if gained and _shows_exchange((yield from _asked(_exchange_of(host))), host):
            unproved -= gained
            known = host
    if known is not None and _UPPER_CASE in unproved:
        # It is missing, unless it is turned into the one that exists, or somebody made it.
        upper = yield from _asked(_exchange_of(known, _EXCHANGE.upper()))
        if upper.status == _NOT_FOUND or _shows_exchange(upper, known, _EXCHANGE.upper()):
            unproved.discard(_UPPER_CASE)
    return PathProof(frozenset(unproved), proved=False)


def _exchange_of(host: str, name: str = _EXCHANGE) -> str:
    return f"{path_of('exchanges', host, name)}?columns=name,vhost"


def _shows_exchange(answer: PathAnswer, host: str, name: str = _EXCHANGE) -> bool:
    found = _parsed(answer.body) if answer.status == _OK else None
    return isinstance(found, dict) and (found.get("vhost"), found.get("name")) == (host, name)


def _names(answer: PathAnswer) -> list[str]:
    """Return the names of a listing of virtual hosts that have a path; none if it cannot be read."""
    found = _parsed(answer.body) if answer.status == _OK else None
    shown = [one.get("name") for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [name for name in shown if isinstance(name, str) and name and not PathProof().fault(path_of(name))]


def _characters(name: str) -> set[str]:
    """Return which of the checked characters a name proves, if it arrives.

    A ``%`` may be changed before some characters, and stay before others: no name proves it.
    """
    capitals = {_UPPER_CASE} if name.lower() != name else set()
    return set(name) & (_ALL - {"%"}) | capitals


def _shows_nothing(answer: PathAnswer) -> bool:
    """Return whether a server serves nothing now; a proxy may add a pause to RabbitMQ's own answers."""
    return (answer.status in {_UNAUTHORISED, _TOO_MANY} or answer.pause > 0) and not _is_echo(answer)


def _echoes(answer: PathAnswer, text: str) -> bool:
    """Return whether an answer repeats what was probed; since 4.3 it is a list."""
    wanted = f"{_MARK}{text}x"
    return _repeated(answer) in (wanted, [wanted])


def _is_of_a_proxy(answer: PathAnswer) -> bool:
    """Return whether an answer is a proxy's own error; RabbitMQ's to a probe is a 503, too."""
    return answer.status in _OF_A_PROXY and not _is_echo(answer)


def _is_echo(answer: PathAnswer) -> bool:
    """Return whether an answer is RabbitMQ's own to a probe, whatever arrived."""
    return _repeated(answer) is not None


def _repeated(answer: PathAnswer) -> object:
    found = _parsed(answer.body)
    return found.get("missing") if isinstance(found, dict) else None


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
