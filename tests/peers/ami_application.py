"""The application role: a session of an application that sends instructions to a relay.

Every instruction has a number, by which replies (M) are matched: a relay may answer some at once and others
later, so that replies come in any order.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from gateway.dialects.ami.codec import read_line, write_instruction
from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.instructions import Execute, Exit, Login, Option, Outbound, Reply, Response
from gateway.dialects.ami.lines import Lines
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import Note
from gateway.model.times import MILLISECOND

_DATES: Final = DateRules()


@dataclass(frozen=True, slots=True)
class ApplicationConfig:
    """The settings of an application's login.

    Attributes:
        name: the name, which is the same after a restart (I of L).
        options: the options of the session; with QUIET nothing is ever acknowledged.
        plugin: a Java class for a relay that loads plugins.
        metrics: the metrics in the login.
        timed: whether each instruction has its time.
        waiting: maximum of instructions that wait for a reply, and of open calls; the oldest are lost.
    """

    name: str
    options: frozenset[Option] = frozenset()
    plugin: str = ""
    metrics: Mapping[str, AmiValue] = field(default_factory=dict)
    timed: bool = True
    waiting: int = 10_000


@dataclass(frozen=True, slots=True)
class Sent:
    """Send these octets."""

    octets: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The relay has answered an instruction; status 0 of ``reply`` is success."""

    instruction: Outbound
    reply: Reply


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """The relay has not answered this instruction, so that it is unknown whether it was taken."""

    instruction: Outbound


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a command: answer it by `ApplicationSession.respond`."""

    execute: Execute


ApplicationEffect: TypeAlias = Sent | Acknowledged | Unacknowledged | Asked | Note


class State(enum.Enum):
    """The state of the session."""

    DISCONNECTED = "disconnected"
    LOGGING_IN = "logging in"
    READY = "ready"
    """Logged in; with QUIET the relay does not confirm the login."""
    REFUSED = "refused"
    """The relay refused the login: nothing is sent any more."""
    OVER = "over"
    """The application announced the end of the session."""


class ApplicationSession:
    """One application's conversation with one relay, without I/O. Times are nanoseconds."""

    def __init__(self, config: ApplicationConfig) -> None:
        self._config = config
        self._lines = Lines()
        self._number = 0
        self._waiting: dict[int, Outbound] = {}
        self._asked: dict[str, None] = {}
        self.state = State.DISCONNECTED

    def connected(self, now: int) -> list[ApplicationEffect]:
        """Log in: the relay is connected.

        Raises:
            LocalProtocolError: it is connected already, or the configuration cannot be encoded.
        """
        if self.state is not State.DISCONNECTED:
            raise LocalProtocolError("the application is connected already")
        config = self._config
        login = Login(config.name, config.options, config.plugin, config.metrics)
        effects = self._say(login, now)
        self.state = State.READY if Option.QUIET in config.options else State.LOGGING_IN
        return effects

    def send(self, instruction: Outbound, now: int) -> list[ApplicationEffect]:
        """Send an instruction to the relay. It may follow the login at once, before the reply.

        Raises:
            LocalProtocolError: it cannot be encoded, or not be sent now.
        """
        if self.state not in (State.LOGGING_IN, State.READY):
            raise LocalProtocolError(f"nothing can be sent: the session is {self.state.value}")
        if isinstance(instruction, Login):
            raise LocalProtocolError("an application logs in once")
        effects = self._say(instruction, now)
        if isinstance(instruction, Exit):
            self.state = State.OVER
        return effects

    def respond(self, response: Response, now: int) -> list[ApplicationEffect]:
        """Answer a call, once.

        Raises:
            LocalProtocolError: there is no such open call, or it cannot be encoded.
        """
        if response.request_id not in self._asked:
            raise LocalProtocolError("no call of this id is open")
        effects = self.send(response, now)
        del self._asked[response.request_id]
        return effects

    def received(self, octets: bytes) -> list[ApplicationEffect]:
        """Handle octets from the relay."""
        effects: list[ApplicationEffect] = []
        for piece in self._lines.feed(octets):
            try:
                if isinstance(piece, ProtocolError):
                    raise piece
                one = read_line(piece, Reading.LENIENT, _DATES).instruction
            except ProtocolError as error:
                effects.append(Note("protocol-error", str(error)))
                continue
            if isinstance(one, Reply):
                effects += self._replied(one)
            elif isinstance(one, Execute):
                self._asked[one.request_id] = None
                if len(self._asked) > self._config.waiting:
                    del self._asked[next(iter(self._asked))]
                effects.append(Asked(one))
            else:
                effects.append(Note("unexpected-line", "a relay says M and E only"))
        return effects

    def ended(self) -> list[ApplicationEffect]:
        """Handle the end of the connection: instructions without an answer may have been taken or not."""
        effects: list[ApplicationEffect] = [Unacknowledged(one) for one in self._waiting.values()]
        self._lines = Lines()
        self._number = 0
        self._waiting.clear()
        self._asked.clear()
        self.state = State.DISCONNECTED
        return effects

    def _say(self, instruction: Outbound, now: int) -> list[ApplicationEffect]:
        time = now // MILLISECOND if self._config.timed else None
        numbered = replace(instruction, sequence=self._number, now=time)
        effects: list[ApplicationEffect] = [Sent(write_instruction(numbered))]
        if Option.QUIET not in self._config.options and not isinstance(instruction, Exit):
            self._waiting[self._number] = instruction
        self._number += 1
        while len(self._waiting) > self._config.waiting:
            effects.append(Unacknowledged(self._waiting.pop(next(iter(self._waiting)))))
        return effects

    def _replied(self, reply: Reply) -> list[ApplicationEffect]:
        instruction = self._waiting.pop(reply.answers, None)
        if instruction is None:
            return [Note("unexpected-reply", f"to number {reply.answers}")]
        if isinstance(instruction, Login):
            self.state = State.READY if reply.status == 0 else State.REFUSED
        return [Acknowledged(instruction, reply)]
