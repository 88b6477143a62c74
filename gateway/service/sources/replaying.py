"""Replays a capture to a session like the captured one, without a broker, and reports the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.session import Note, PropertiesMissing
from gateway.inventory.source import SourceInventory
from gateway.links.capture_file import CaptureHead
from gateway.links.capture_reading import CaptureError, opened_capture
from gateway.links.replay import Outcome, Witness
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import Observation
from gateway.model.operations import Answer
from gateway.service.sources.captures import KINDS
from gateway.service.sources.standalone import TemporaryInventory, temporary_inventory
from gateway.terminal.view import EventOccurred, FeedChange, GapFound, TerminalView

KEPT_REMARKS: Final = 100
_TICK: Final = 10**9
"""Nanoseconds of captured time between two ticks of the inventory, as in a core."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A note that the session made.

    Attributes:
        line: the line of the capture that caused it.
        event: its fixed name.
        detail: a text for people.
    """

    line: int
    event: str
    detail: str


@dataclass(slots=True)
class Replayed:
    """The result of a replay.

    Attributes:
        head: the head of the capture.
        kind: the kind of its source.
        view: the inventory's state at the end.
        outcome: the comparison with the captured session.
        end: captured time of the last input, nanoseconds since 1970.
        remarks: the number of notes of each kind that the session made.
        first_remarks: the first of them.
        events: the number of reported events of each class.
        gaps: the number of gaps.
        answers: the number of operations with each outcome.
    """

    head: CaptureHead
    kind: str
    view: TerminalView
    outcome: Outcome = field(default_factory=Outcome)
    end: int = 0
    remarks: Counter[str] = field(default_factory=Counter)
    first_remarks: list[Remark] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    gaps: int = 0
    answers: Counter[str] = field(default_factory=Counter)


Watcher = Callable[[FeedChange, TerminalView, int], None]


@contextmanager
def replayed(
    path: Path, mappings: Mapping[str, MappingFile], watch: Watcher, overrides: Overrides = NO_OVERRIDES
) -> Iterator[Replayed]:
    """Replay the capture whose newest file is ``path``; the result is valid within the block.

    Args:
        path: of the newest file.
        mappings: by package.
        watch: called with each change, and its captured time.
        overrides: the changes of the mappings.

    Raises:
        CaptureError: it is no capture, its kind of source is unknown, or it ends in something else.
        OSError: a file cannot be read.
    """
    with opened_capture(path) as capture:
        kind = capture.first.value("kind", str)
        if kind not in KINDS:
            raise CaptureError(f"line 1: sources of the kind {kind!r} cannot be replayed")
        form = KINDS[kind]
        with temporary_inventory(mappings, capture.head.ns, overrides) as passing:
            settings = capture.first.fields.get("settings")
            config = form.with_settings(form.config(passing.secrets, mappings), settings, form.left_out)
            if form.known is not None:
                config = form.known.with_known(config, capture.first.value("known", str, ""))
            source = passing.inventory.add_source(capture.head.source, kind)
            result = Replayed(capture.head, kind, passing.view)
            session = form.session(config)
            console = session if isinstance(session, ConsoleSession) and kind == "qmf" else None
            witness = _Witness(passing, source, result, watch, console)
            passing.begin(witness.happened)
            result.outcome = form.replay(capture, session, witness)
            yield result


class _Witness(Witness):
    """Passes the session's observations to the inventory, at the captured times.

    Args:
        console: given `PropertiesMissing`, as in a core, when the inventory lacks properties of an object;
            ``None`` for sessions that do not take it.
    """

    def __init__(
        self,
        passing: TemporaryInventory,
        source: SourceInventory,
        result: Replayed,
        watch: Watcher,
        console: ConsoleSession | None,
    ) -> None:
        self._passing = passing
        self._source = source
        self._result = result
        self._watch = watch
        self._ticked = 0
        self._now = 0
        self._console = console

    def happened(self, change: FeedChange) -> None:
        """Count a change that the inventory published, and pass it on."""
        if isinstance(change, EventOccurred):
            self._result.events[str(change.in_class.schema.key)] += 1
        elif isinstance(change, GapFound):
            self._result.gaps += 1
        self._watch(change, self._passing.view, self._now)

    def passed(self, now: int) -> None:
        self._now = self._result.end = max(now, self._now)
        if self._now - self._ticked >= _TICK:
            self._ticked = self._now
            self._passing.inventory.tick(self._now)

    def observed(self, observations: tuple[Observation, ...], now: int) -> None:
        unidentified = self._source.counters["unidentified"]
        self._passing.inventory.observed(self._source, observations, now)
        if self._console is not None and self._source.counters["unidentified"] != unidentified:
            self._console.handle(PropertiesMissing(), now)

    def answered(self, answer: Answer) -> None:
        self._result.answers[answer.outcome.value] += 1

    def noted(self, note: Note, line: int) -> None:
        self._result.remarks[note.event] += 1
        if len(self._result.first_remarks) < KEPT_REMARKS:
            self._result.first_remarks.append(Remark(line, note.event, note.detail))
