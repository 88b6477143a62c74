"""Boilers with everything that can be set or called, and a manager for them: observed, asked and answered.

Limit, label, mode and code are set by methods; speed, tag and seal by a request of the dialect's own,
and only where the source has one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    OperationAnswer,
    OperationRecord,
    OperationRequest,
    ReadFresh,
    SetElements,
)
from gateway.feed.records import Batch
from gateway.feed.values import FeedValue
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import class_schemas
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import (
    ClassLearned,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome, Principal
from gateway.model.schema import ClassSchema
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import Value
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.operations.operation import Effect, Publish, Reply, Send
from gateway.policy.marks import Marks
from gateway.yaml_documents import parse_document
from tests.components.opened_index import opened_index
from tests.components.permissions import Permission, policy_of

NOW = 1_700_000_000 * SECOND
AGENT = "1.0"
DEADLINE = 10 * SECOND
OPERATOR = Principal("jmx", "operator", "192.0.2.7:50123")
VISITOR = Principal("snmp", "visitor", "192.0.2.9:161")
BOILER_CLASS = "works:boiler"

MAPPING = parse_document(
    """
version: 1
package: works
module: WORKS-MIB
prefix: works
classes:
  boiler:
    methods:
      setLimit: {arguments: {value: {type: u32}}}
      setLabel:
        arguments:
          value: {type: string, max_length: 8, optional: true}
          why: {type: string, default: set}
      setMode: {arguments: {value: {type: string, values: [hot, cold]}}}
      setCode: {arguments: {value: {type: string}}}
      purge: {dangerous: true}
      move:
        arguments:
          to: {type: reference, references: boiler}
          litres: {type: u32, minimum: 1, maximum: 100}
          note: {type: string, optional: true}
          apiToken: {type: string, optional: true}
          pin: {type: string, secret: true, optional: true}
          left: {type: u64, direction: out}
          inTank: {type: reference, direction: out}
    properties:
      name: {type: string, index: true}
      limit: {type: u32, access: read-write, set_by: {method: setLimit, argument: value}, maximum: 1000}
      label:
        type: string
        optional: true
        access: read-write
        set_by: {method: setLabel, argument: value}
      mode:
        type: string
        values: [hot, cold]
        access: read-write
        set_by: {method: setMode, argument: value}
      code: {type: string, access: read-write, set_by: {method: setCode, argument: value}}
      lidPassword: {type: string, optional: true}
      speed: {type: u32, access: read-write, minimum: 1, maximum: 900000}
      tag: {type: string, access: read-write, optional: true, max_length: 9}
      seal: {type: string, access: read-write, values: [wax, lead]}
    statistics:
      heat: {type: u32}
""",
    MappingFile,
    Path("works.yaml"),
)
_DEFINED = class_schemas(MAPPING)["boiler"]
BOILER: ClassSchema = dataclasses.replace(
    _DEFINED,
    properties=tuple(
        dataclasses.replace(element, readable=element.name not in {"code", "seal"})
        for element in _DEFINED.properties
    ),
)

ANYTHING = Permission(frozenset({str(OPERATOR)}), set=("*",), invoke=("*", "purge"), read=True)

SomeEffect = TypeVar("SomeEffect", bound=Effect)


def boiler(
    name: str = "north",
    *,
    limit: Value | None = 5,
    label: Value | None = "old",
    mode: Value = "hot",
    speed: Value | None = 20,
    tag: Value | None = None,
    sampled: int = NOW,
    deleted: int = 0,
) -> ObjectSeen:
    """Return a whole boiler; its native id is made of its name."""
    values = (name, limit, label, mode, None, None, speed, tag, None)
    return ObjectSeen(BOILER.key, AGENT, f"id-{name}", sampled, 0, deleted, values, (70,))


def _marked(dangerous: Mapping[str, str], at: Mapping[str, tuple[int, ...]]) -> MappingFile:
    """Return the mapping with elements that are dangerous to set, some of them to chosen values."""
    rule = MAPPING.classes["boiler"]
    marked = {
        name: known.model_copy(
            update={"dangerous": dangerous.get(name, ""), "dangerous_at": at.get(name, ())}
        )
        for name, known in rule.properties.items()
    }
    return MAPPING.model_copy(update={"classes": {"boiler": rule.model_copy(update={"properties": marked})}})


class Works:
    """A core's inventory and manager with one source, and all effects that they wanted."""

    def __init__(
        self,
        folder: Path,
        *permissions: Permission,
        max_running: int = 4,
        schema: ClassSchema = BOILER,
        sets_natively: bool = False,
        dangerous: Mapping[str, str] = MappingProxyType({}),
        dangerous_at: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self.now = NOW
        self.reported: list[OperationRecord] = []
        self.sent: list[MethodCall | ObjectModify | ObjectFetch] = []
        self.answers: dict[int, OperationAnswer] = {}
        self.order: list[str] = []
        self.auto_record = True
        self._schema = schema
        self._requests = 0
        folder.mkdir(exist_ok=True)
        self._index = opened_index(folder / "instances.sqlite3")
        classes = ClassRegistry({"works": MAPPING})
        self.inventory = Inventory("gw", 3, classes, self._index, self._published)
        self.source = self.inventory.add_source("works", "any", 1000, sets_natively=sets_natively)
        self.manager = OperationManager(
            self.inventory,
            classes,
            policy_of(permissions or (ANYTHING,)),
            Marks({MAPPING.package: _marked(dangerous, dangerous_at)}),
            Audit("gw", 3, Redaction(SecretRules())),
            ManagerSettings(DEADLINE, max_running),
        )
        self.objections: dict[object, Answer] = {}
        self.examined: list[object] = []
        self.manager.connect(self.source.identity.number, self._objection)
        self.synchronise(boiler(), boiler("south"))

    # ---- what happens south ---------------------------------------------------------------------------

    def publish(self, *observations: Observation) -> None:
        """Observe the contents of one message body."""
        self.inventory.observed(self.source, observations, self.now)

    def synchronise(self, *objects: ObjectSeen, restarted: bool = False) -> None:
        """Observe a whole resync."""
        self.publish(
            SourceStateSeen(SourceState.SYNCHRONISING),
            ClassLearned(self._schema),
            ResyncBegan(restarted=restarted),
            *objects,
            ResyncEnded(complete=True),
            SourceStateSeen(SourceState.SYNCHRONISED),
        )

    def answer(
        self,
        outcome: Outcome = Outcome.APPLIED,
        text: str = "",
        *,
        to: MethodCall | ObjectModify | ObjectFetch | None = None,
        code: int | None = 0,
        outputs: tuple[Value | None, ...] = (),
        found: ObjectSeen | None = None,
    ) -> None:
        """Answer the message that was sent last, behind the observations that it led to."""
        if found is not None:
            self.publish(found)
        message = to or self.sent[-1]
        self.perform(self.manager.answered(Answer(message.token, outcome, text, code, outputs), self.now))

    # ---- what happens north ---------------------------------------------------------------------------

    def ask(  # noqa: PLR0913  fields of a request
        self,
        action: Action,
        *,
        principal: Principal = OPERATOR,
        row: int = 1,
        timeout: int = DEADLINE,
        check_only: bool = False,
        class_name: str = BOILER_CLASS,
        source: int = 1,
        refusal: FrontEndRefusal | None = None,
        stable_name: str = "",
    ) -> int:
        """Submit a request; return its number."""
        self._requests += 1
        number = self._requests
        request = OperationRequest(
            *(number, principal, source, class_name, row, action, timeout, check_only, refusal),
            stable_name=stable_name,
        )
        self.perform(self.manager.submit(request, self._answered, self.now))
        return number

    def ask_of_life(self, action: Action, ends: int | None, row: int = 1, *, check_only: bool) -> int:
        """Submit a request for the life that an object had before ends with higher numbers."""
        self._requests += 1
        where = (1, BOILER_CLASS, row)
        request = OperationRequest(
            self._requests, OPERATOR, *where, action, DEADLINE, check_only=check_only, ends=ends
        )
        self.perform(self.manager.submit(request, self._answered, self.now))
        return self._requests

    def ask_of_snmp(self, action: Action, principal: Principal = OPERATOR) -> int:
        """Submit a request of a front end that records itself the requests that fail its check."""
        self._requests += 1
        request = OperationRequest(
            self._requests, principal, 1, BOILER_CLASS, 1, action, DEADLINE, reports_failed_check=True
        )
        self.perform(self.manager.submit(request, self._answered, self.now))
        return self._requests

    def set(self, row: int = 1, **values: FeedValue) -> int:
        """Ask for a set."""
        return self.ask(SetElements(values), row=row)

    def invoke(self, method: str, row: int = 1, **arguments: FeedValue) -> int:
        """Ask for a call."""
        return self.ask(InvokeMethod(method, arguments), row=row)

    def read(self, row: int = 1) -> int:
        """Ask for a fresh reading."""
        return self.ask(ReadFresh(), row=row)

    def check(self, action: Action, principal: Principal = OPERATOR) -> OperationAnswer:
        """Return the answer to a request that is only checked."""
        return self.answers[self.ask(action, principal=principal, check_only=True)]

    def _objection(self, message: MethodCall | ObjectModify) -> Answer | None:
        """Return the source's objection to a message: a method by its name, an element by its value."""
        named = [message.method] if isinstance(message, MethodCall) else [*message.values.values()]
        self.examined.append(named[0] if isinstance(message, MethodCall) else dict(message.values))
        return next((self.objections[one] for one in named if one in self.objections), None)

    # ---- time -----------------------------------------------------------------------------------------

    def wait(self, nanoseconds: int) -> None:
        """Let time pass; call the manager when it wants to be woken."""
        until = self.now + nanoseconds
        while (wake_at := self.manager.wake_at) is not None and wake_at <= until:
            self.now = max(self.now, wake_at)
            self.perform(self.manager.tick(self.now))
        self.now = until

    # ---- what was done --------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Carry out what the manager wants, as the core does."""
        for effect in effects:
            match effect:
                case Publish(record, lasting):
                    self.order.append(f"{record.state.value} {record.number}")
                    self.inventory.publish_operation(record)
                    if lasting and self.auto_record:
                        self.recorded(record.number)
                case Send(_, message):
                    self.order.append(type(message).__name__)
                    self.sent.append(message)
                case Reply(to, answer):
                    to(answer)

    def recorded(self, number: int, trouble: str = "") -> None:
        """Note that the log has the begin of an operation."""
        self.perform(self.manager.recorded(number, self.now, trouble))

    @property
    def calls(self) -> list[MethodCall]:
        """Methods that were called."""
        return [message for message in self.sent if isinstance(message, MethodCall)]

    @property
    def modifications(self) -> list[ObjectModify]:
        """Requests of the dialect's own to set something."""
        return [message for message in self.sent if isinstance(message, ObjectModify)]

    @property
    def record(self) -> OperationRecord:
        """The last record of an operation."""
        return self.reported[-1]

    def value(self, name: str, row: int = 1) -> FeedValue | None:
        """Return the value of an element in the inventory."""
        entry = self.source.by_row(BOILER_CLASS, row)
        assert entry is not None
        return entry.record.values.get(BOILER.positions[name])

    def _answered(self, answer: OperationAnswer) -> None:
        assert answer.request not in self.answers, "answered twice"
        self.order.append(f"answer {answer.request}")
        self.answers[answer.request] = answer

    def _published(self, batch: Batch) -> None:
        self.reported += [record for record in batch.records if isinstance(record, OperationRecord)]
        if hasattr(self, "manager"):
            self.perform(self.manager.noticed(batch.records, self.now))
