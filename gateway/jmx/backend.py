"""The answers to requests of the virtual machine: logins, and operations of clients.

An answer is the msgpack array ``[status, text, items]``: the outcome, a line of text, and the results. No
exception is sent: a JMX client could not read it, and it would reveal internals to strangers.
Requests are msgpack arrays too:

- ``["authenticate", user, password, certificate, client]``, with the client's certificate, which TLS has
  verified, in DER, or nil; items are the user, the number of the user, by which commands say what the user
  sees (`gateway.jmx.commands`), and behind it the rights beside reading, ``"change"`` or none.
  `Status.REFUSED` is for a wrong password, and for the certificate of a user; a password that was not
  checked is `Status.NOT_NOW`. A text is for the client;
- ``["identify", certificate, client]``: a login without user and password; items are the same;
- ``["set", request, object, user, client, [[attribute, value], ...]]``; items are the names of the attributes
  that were set;
- ``["invoke", request, object, user, client, operation, [value, ...]]``; items are the operation's results;
- ``["refused", user, client, kind, object, operation, [attribute, ...], outcome, text, name]``: an attempt to
  ``set`` or ``invoke`` that the virtual machine refused without asking, for the record; ``object`` is 0 where
  ``name`` is none of ours;
- ``["denied", kind, user, client, reason]``: a ``login`` or ``request`` that the virtual machine denied
  without asking, for the record.

``object`` is the number of an MBean in the virtual machine, ``client`` an address, a value nil or
``[type, value]`` (`gateway.jmx.types.Written`). ``request`` ascends: a request that arrives twice, because a
connection broke, is carried out once.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
import structlog

from gateway.feed.operations import InvokeMethod, SetElements
from gateway.jmx.commands import AttributeType
from gateway.jmx.types import Written
from gateway.jmx.users import Holder, PasswordError
from gateway.model.operations import Outcome, Principal
from gateway.rate_limiter import RateLimiter

log = structlog.get_logger(__name__)

Authenticate: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Returns whether a user with this password may log in. Raises `PasswordError` if that cannot be decided."""

Identify: TypeAlias = Callable[[bytes], Holder]
"""Returns the holder of a client certificate (DER) that TLS has verified."""

CountLogin: TypeAlias = Callable[[bool], None]
"""Counts a login that was decided; the argument is whether it was accepted."""

CountRefusal: TypeAlias = Callable[[], None]
"""Counts a request of a client that has logged in, which was refused without being carried out."""

MayChange: TypeAlias = Callable[[str], bool]
"""Returns whether any rule lets a user change anything: only then does the virtual machine read values."""

IsUser: TypeAlias = Callable[[str], bool]
"""Returns whether the configuration has a user of this name."""

NumberOf: TypeAlias = Callable[[str], int]
"""Returns the number of a user who has logged in."""

UNKNOWN: Final = "(unknown)"
"""The principal of a login without a user whom the configuration has: what was sent may be anything."""

CHANGE: Final = "change"
"""The right to change something; the core decides what."""

MAX_REQUEST_OCTETS: Final = 262_144
"""The maximum size of a request; Java's ``Operations`` has the same number."""

MAX_REMEMBERED: Final = 4096
"""The maximum number of remembered requests, far more than can be under way."""

_TYPES: Final = frozenset(AttributeType)
_OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)


class Status(enum.IntEnum):
    """The outcome of a request; Java's ``Status`` has the same numbers."""

    APPLIED = 0
    """The request was carried out."""
    APPLIED_DIFFERENTLY = 1
    """Reported as done, but another value was read back; the text has it."""
    GONE = 2
    """The object is gone."""
    UNKNOWN_ELEMENT = 3
    """No such attribute or operation, or one that is read-only."""
    REFUSED = 4
    """The user is not permitted."""
    BAD_VALUE = 5
    """A value of the wrong type, or an impossible one."""
    NOT_NOW = 6
    """Possible, but not now."""
    FAILED = 7
    """The broker refused or failed; the text says how."""
    UNAVAILABLE = 8
    """The source cannot be reached: nothing was sent."""
    OUTCOME_UNKNOWN = 9
    """No answer in time: it may have been carried out."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request.

    Attributes:
        status: the outcome.
        text: a description of one line.
        items: the results, which msgpack can encode.
    """

    status: Status
    text: str = ""
    items: tuple[object, ...] = ()

    def encode(self) -> bytes:
        """Return its octets."""
        return msgspec.msgpack.encode([int(self.status), self.text, self.items])


class Named(NamedTuple):
    """An MBean by its number, and the stable name of its object; empty of an MBean of the gateway itself."""

    number: int
    stable_name: str = ""


class Operator(Protocol):
    """The executor of clients' operations (`gateway.jmx.operations.Operations`)."""

    async def set(
        self, target: Named, principal: Principal, values: Sequence[tuple[str, Written | None]]
    ) -> Reply:
        """Set attributes of an MBean; the items are the names of those that were set."""

    async def invoke(
        self, target: Named, principal: Principal, operation: str, arguments: Sequence[Written | None]
    ) -> Reply:
        """Invoke an operation of an MBean; the items are its results."""

    def refused(self, attempt: RefusedAttempt) -> None:
        """Record an attempt that the virtual machine refused without asking."""

    def logged_in(self, principal: Principal) -> None:
        """Record that a user has logged in."""


@dataclass(frozen=True, slots=True)
class RefusedAttempt:
    """An attempt to change something that the virtual machine refused by itself.

    Attributes:
        principal: the principal of the attempt.
        number: the number of the object; 0 where it is none of ours.
        action: the requested action, without values.
        outcome: the outcome, as of a check that failed.
        text: the reason in words.
    """

    principal: Principal
    number: int
    action: SetElements | InvokeMethod
    outcome: Outcome
    text: str


_EVENTS: Final = {"login": "jmx-login-refused", "request": "jmx-request-refused"}
_Work: TypeAlias = Callable[[Operator], Awaitable[Reply]]
_NONSENSE: Final = (Status.FAILED, "no such request")


class Backend:
    """The responder to requests of the virtual machine.

    Args:
        authenticate: returns whether a user may log in.
        login_seconds: the time for that; without an answer by then the login is not decided.
        may_change: returns whether a user may change anything.
        is_user: returns whether there is a user of a name, who is a principal then.
        number_of: returns the number of a user.
        identify: returns whose certificate it is.
        count_login: counts logins.
        count_refusal: counts refused requests.

    Attributes:
        operator: carries out operations; without one nothing is changed.
    """

    def __init__(
        self,
        authenticate: Authenticate,
        login_seconds: float,
        may_change: MayChange = lambda _user: True,
        is_user: IsUser = lambda _user: True,
        number_of: NumberOf = lambda _user: 0,
        identify: Identify = lambda _certificate: Holder(""),
        count_login: CountLogin = lambda _accepted: None,
        count_refusal: CountRefusal = lambda: None,
    ) -> None:
        self.operator: Operator | None = None
        self._authenticate = authenticate
        self._may_change = may_change
        self._is_user = is_user
        self._number_of = number_of
        self._identify = identify
        self._count_login = count_login
        self._count_refusal = count_refusal
        self._login_seconds = login_seconds
        self._refusals = RateLimiter(lines=20, seconds=60)
        self._logins = RateLimiter(lines=60, seconds=60)
        self._requests: deque[int] = deque(maxlen=MAX_REMEMBERED)
        self._known: set[int] = set()

    async def answer(self, octets: bytes) -> bytes:
        """Return the answer to a request; to one that is not valid, `Status.FAILED`."""
        try:
            reply = await self._reply(_decoded(octets))
        except _RefusedError as error:
            reply = error.reply
        return reply.encode()

    async def _reply(self, request: object) -> Reply:
        match request:
            case ["authenticate", str(user), str(password), (None | bytes()) as certificate, str(client)]:
                return self._beside(user, certificate, client) or await self._login(user, password, client)
            case ["identify", bytes(certificate), str(client)]:
                return self._login_by(self._identify(certificate), client)
            case ["refused", str(user), str(client), *what]:
                if self.operator is not None:
                    self.operator.refused(_refused_attempt(Principal("jmx", user, client), what))
                return Reply(Status.APPLIED)
            case ["denied", ("login" | "request") as kind, str(user), str(client), str(reason)]:
                self._denied(kind, Principal("jmx", user, client), reason)
                return Reply(Status.APPLIED)
            case [str(kind), int(number), int(target), str(name), str(user), str(client), *what]:
                work = _work(kind, Named(target, name), Principal("jmx", user, client), what)
                return await work(self._operator_once(number))
        raise _RefusedError(*_NONSENSE)

    async def _login(self, user: str, password: str, client: str) -> Reply:
        try:
            async with asyncio.timeout(self._login_seconds):
                is_known = await self._authenticate(user, password)
        except TimeoutError:
            log.warning("jmx-login-not-decided", user=user, client=client, seconds=self._login_seconds)
            return Reply(
                Status.NOT_NOW,
                f"time-out: the gateway did not say within {self._login_seconds:g} s whether the password is "
                "right; try again",
            )
        except PasswordError as error:
            left_out = self._refusals.admit()
            if left_out is not None:
                log.warning(
                    "jmx-password-not-usable", user=user, client=client, reason=str(error), left_out=left_out
                )
            return Reply(
                Status.NOT_NOW, "the gateway could not say whether the password is right: see its log"
            )
        if is_known:
            return self._accepted(Principal("jmx", user, client))
        return self._refused(Principal("jmx", user, client), "user or password is wrong")

    def _login_by(self, holder: Holder, client: str) -> Reply:
        """Log the holder of a certificate in, who sent neither user nor password."""
        if holder.user is None:
            reason = f"no user has the certificate {holder.subject}"
            return self._refused(Principal("jmx", UNKNOWN, client), reason, reason)
        return self._accepted(Principal("jmx", holder.user, client), certificate=holder.subject)

    def _beside(self, user: str, certificate: bytes | None, client: str) -> Reply | None:
        """Refuse user and password beside the certificate of a user; return ``None`` beside any other."""
        holder = Holder("") if certificate is None else self._identify(certificate)
        if holder.user is None:
            return None
        reason = f"the certificate {holder.subject} is that of the user {holder.user}"
        advice = f"{reason}: leave user and password out"
        return self._refused(Principal("jmx", user, client), f"{reason}, who has no password", advice)

    def _accepted(self, principal: Principal, **how: str) -> Reply:
        left_out = self._logins.admit()
        if left_out is not None:
            log.info("jmx-login", user=principal.name, client=principal.origin, **how, left_out=left_out)
        self._count_login(True)
        if self.operator is not None:
            self.operator.logged_in(principal)
        rights = (CHANGE,) if self._may_change(principal.name) else ()
        return Reply(Status.APPLIED, items=(principal.name, self._number_of(principal.name), *rights))

    def _refused(self, principal: Principal, reason: str, text: str = "") -> Reply:
        """Record a login that is refused; ``text`` is for the client."""
        self._count_login(False)
        self._denied("login", principal, reason)
        return Reply(Status.REFUSED, text)

    def _denied(self, kind: str, principal: Principal, reason: str) -> None:
        if kind == "request":
            self._count_refusal()
        # Strangers can send as many wrong passwords as they like, but not as many lines of the log.
        left_out = self._refusals.admit()
        if left_out is not None:
            log.warning(
                _EVENTS[kind],
                user=principal.name,
                client=principal.origin,
                reason=reason,
                left_out=left_out,
            )
        if self.operator is not None:
            if not self._is_user(principal.name):
                principal = Principal("jmx", UNKNOWN, principal.origin)
            attempt = RefusedAttempt(principal, 0, InvokeMethod(kind), Outcome.REFUSED, f"{kind}: {reason}")
            self.operator.refused(attempt)

    def _operator_once(self, request: int) -> Operator:
        """Return the operator, once for each request: Py4J may deliver one again."""
        if self.operator is None:
            raise _RefusedError(Status.NOT_NOW, "not-now: nothing can be changed yet")
        if request in self._known:
            raise _RefusedError(
                Status.OUTCOME_UNKNOWN, "unknown: the connection broke: it may have been carried out"
            )
        if len(self._requests) == MAX_REMEMBERED:
            # The deque drops this one with the next that is added.
            self._known.discard(self._requests[0])
        self._requests.append(request)
        self._known.add(request)
        return self.operator


class _RefusedError(Exception):
    """A request that is not carried out."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.reply = Reply(status, text)


def _refused_attempt(principal: Principal, what: list[object]) -> RefusedAttempt:
    match what:
        case ["set", int(number), "", [*names], str(outcome), str(text), str(name)]:
            action: SetElements | InvokeMethod = SetElements(dict.fromkeys(map(str, names)))
        case ["invoke", int(number), str(method), [], str(outcome), str(text), str(name)]:
            action = InvokeMethod(method)
        case _:
            raise _RefusedError(*_NONSENSE)
    word, _, rest = text.partition(": ")
    if word in _OUTCOMES:  # the text says it more exactly
        outcome, text = word, rest
    if outcome not in _OUTCOMES:
        raise _RefusedError(*_NONSENSE)
    # With the name always: else the text would show whether there is an object that the user does not see.
    text = text if name in text else f"{name}: {text}"
    return RefusedAttempt(principal, number, action, Outcome(outcome), text)


def _work(kind: str, target: Named, principal: Principal, what: list[object]) -> _Work:
    """Return the function that requests the operation of the operator."""
    match kind, what:
        case "set", [[*pairs]]:
            values = [_named(pair) for pair in pairs]
            return lambda operator: operator.set(target, principal, values)
        case "invoke", [str(operation), [*items]]:
            arguments = [_written(item) for item in items]
            return lambda operator: operator.invoke(target, principal, operation, arguments)
    raise _RefusedError(*_NONSENSE)


def _named(pair: object) -> tuple[str, Written | None]:
    match pair:
        case [str(name), value]:
            return name, _written(value)
    raise _RefusedError(*_NONSENSE)


def _written(item: object) -> Written | None:
    match item:
        case None:
            return None
        case [int(type_), value] if type_ in _TYPES:
            return Written(AttributeType(type_), value)
    raise _RefusedError(*_NONSENSE)


def _decoded(octets: bytes) -> object:
    if len(octets) > MAX_REQUEST_OCTETS:
        return None
    try:
        # RecursionError: arrays may be nested as deeply as the octets allow.
        return msgspec.msgpack.decode(octets)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
