"""Lines of connections: held up behind P, carried out one after the other, answered and logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.dialects.ami.instructions import Command, Comment, Instruction, Pause, Reply
from gateway.dialects.ami.lines import Piece
from gateway.dialects.ami.reader import read_line, stated_sequence
from gateway.dialects.ami.relay_columns import without_secrets
from gateway.dialects.ami.relay_config import MILLISECOND, RelayConfig
from gateway.dialects.ami.relay_connections import Connection
from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.ami.relay_instructions import Instructions
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.ami.writer import write_instruction
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import Logged
from gateway.model.secrets import MASK, SecretRules
from gateway.model.texts import one_line


def logged_line(
    octets: bytes, one: Instruction | Comment, secrets: SecretRules, *, as_came: bool = True
) -> bytes:
    """The line of an instruction: as it came where nothing in it is secret.

    Args:
        octets: the line.
        one: what it says; without something that is secret where it is not ``as_came``.
        secrets: what else is.
        as_came: whether ``octets`` say no more than that.
    """
    if isinstance(one, Comment):  # it may be an instruction that was taken out, with all that it says
        return f"# a comment of {len(octets)} octets".encode()
    changes: dict[str, Any] = {}
    values: Mapping[str, AmiValue] = getattr(one, "values", {})
    shown = {key: _shown(key, value, secrets) for key, value in values.items()}
    if shown != values:
        changes["values"] = shown
    if isinstance(one, Command) and one.form is not None:
        changes["form"] = None  # it may bring passwords that are filled in
    if not changes and as_came:
        return _masked(octets, secrets)
    try:
        line = write_instruction(replace(one, **changes))
    except LocalProtocolError:
        return f"{one.letter}, with secrets".encode()
    return _masked(line.strip(), secrets)


def _shown(key: str, value: AmiValue, secrets: SecretRules) -> AmiValue:
    return MASK if secrets.hides(key) else without_secrets(value, secrets)


def _masked(octets: bytes, secrets: SecretRules) -> bytes:
    if b"://" not in octets:
        return octets
    return secrets.masked_uris(octets.decode(errors="replace")).encode()


class LineByLine:
    """Takes what connections say.

    Args:
        config: of the session.
        instructions: what lines lead to.
        out: what is to be done.
    """

    def __init__(self, config: RelayConfig, instructions: Instructions, out: Collected) -> None:
        self._config = config
        self._instructions = instructions
        self._out = out

    def take(self, known: Connection, piece: Piece, now: int) -> None:
        """A line came: carry it out, or hold it up."""
        if not known.paused_until:
            self._carry_out(known, piece, now)
            return
        limits, octets = self._config.limits, _octets(piece)
        if len(known.held) >= limits.held_lines or known.held_octets + octets > limits.held_octets:
            self._refuse(known, "too many lines wait behind P", _stated(piece))
            return
        known.held.append(piece)
        known.held_octets += octets

    def resume(self, known: Connection, now: int) -> None:
        """A pause is over: say so, and go on up to the next one."""
        number, text = known.pause_reply
        known.paused_until = 0
        self._reply(known, number, 0, text)
        while known.held and not known.paused_until and not known.over:
            piece = known.held.popleft()
            known.held_octets -= _octets(piece)
            self._carry_out(known, piece, now)

    def finish(self, known: Connection, now: int) -> None:
        """Carry out what is held up, as nothing more will be said: it was said before the end."""
        while known.held and not known.over:
            self._carry_out(known, known.held.popleft(), now)
        lost = known.lines.end()
        if lost and not known.over:
            self._out.note("line-unfinished", f"{who(known)}: {lost} octets without an end of the line")

    def say(self, known: Connection, line: bytes, shown: bytes) -> None:
        """Send a line, with its end; ``shown`` is what a log may have of it."""
        self._out.write(known.number, line)
        self._log(known, shown, outgoing=True)

    def _carry_out(self, known: Connection, piece: Piece, now: int) -> None:
        if isinstance(piece, ProtocolError):
            self._out.note("protocol-error", f"{who(known)}: {piece}")
            self._refuse(known, str(piece), None)
            return
        try:
            one = read_line(piece, self._config.reading, self._config.dates).instruction
        except ProtocolError as error:
            self._out.note("protocol-error", f"{who(known)}: {error}")
            self._refuse(known, str(error), _stated(piece))
            return
        shown = self._instructions.as_shown(known, one) if known.logs else one
        try:
            text = self._instructions.carry_out(known, one, len(piece), now)
        except RefusedError as error:
            self._out.note("refused-instruction", f"{who(known)}: {error}")
            self._refuse(known, str(error), _sequence(one))
            return
        if known.logs:
            self._log(known, logged_line(piece, shown, self._config.secrets, as_came=shown == one))
        number = self._count(known, one, now)
        if isinstance(one, Pause):
            known.pause_reply = (number, text)
        elif not known.over:
            self._reply(known, number, 0, text)

    def _count(self, known: Connection, one: Instruction | Comment, now: int) -> int:
        """An instruction was carried out; returns the number that the reply to it has."""
        number = known.sequence.take(_sequence(one))
        application = known.application
        if application is not None:
            application.instructions += 1
            if not isinstance(one, Comment) and one.now is not None:
                application.lag = now // MILLISECOND - one.now
            application.note_sequence(known.sequence)
            application.changed = True
        return number

    def _refuse(self, known: Connection, reason: str, sequence: int | None) -> None:
        """A line has no effect: its sender is told why, and it is counted."""
        text = one_line(self._config.secrets.masked_uris(reason))
        number = known.sequence.take(sequence)
        application = known.application
        if application is not None:
            application.note_refusal(text)
            application.note_sequence(known.sequence)
            application.changed = True
        self._log(known, f"refused: {text}".encode())
        self._reply(known, number, 1, text)

    def _reply(self, known: Connection, number: int, status: int, text: str) -> None:
        """Say what became of an instruction (M): as in the pages, without a time and number of its own."""
        if not known.quiet:
            line = write_instruction(Reply(number, status, text), known.end)
            self.say(known, line, line.strip())

    def _log(self, known: Connection, line: bytes, *, outgoing: bool = False) -> None:
        if known.logs and known.application is not None:
            self._out.log(Logged(known.application.name, line, outgoing))


def who(known: Connection) -> str:
    """Who is at the other end, for people."""
    name = known.application.name if known.application is not None else "nobody yet"
    return f"{name!r} from {known.peer.address}"


def _octets(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else 0


def _stated(piece: Piece) -> int | None:
    return stated_sequence(piece) if isinstance(piece, bytes) else None


def _sequence(one: Instruction | Comment) -> int | None:
    return None if isinstance(one, Comment) else one.sequence
