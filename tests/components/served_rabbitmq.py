"""A RabbitMQ source that is served by QMF, as `amqp-gateway agent` composes it, without I/O.

Everything happens at once: the observations of the source are applied to an inventory, the role takes what
the inventory publishes, and operations are carried out without a pause for the event log.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.session import Answered, Binding, Effect, Event, Observed, Send, TimerExpired, WakeAt
from gateway.feed.operations import OperationAnswer
from gateway.feed.records import Batch
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.secrets import SecretRules
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.operations.operation import Effect as OperationEffect
from gateway.operations.operation import Publish, Reply
from gateway.operations.operation import Send as SendToSource
from gateway.policy.marks import Marks
from gateway.service.serving import ServedExchange
from gateway.serving.qmf import QmfRole, RoleConfig, RoleEffect, Submit
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.components.opened_index import opened_index
from tests.components.permissions import Permission, policy_of
from tests.components.shipped_mappings import shipped_mappings

_MAPPINGS = shipped_mappings()
_METHODS = tuple(sorted({method for one in _MAPPINGS["rabbitmq"].classes.values() for method in one.methods}))

INDEXES = "AMQP_GATEWAY_TEST_INDEXES"
"""The variable that names the folder of the instance indexes; by default they are temporary files."""


class ServedRabbitMq:
    """The gateway of an agent, around a source of a test.

    Args:
        source: the source whose effects are passed to `publish`.
        config: the configuration of the source.
        session: configuration of the agent session; its allowed users may call every method.

    Attributes:
        vacancies: the number of events by which the serving agent may have ended.
    """

    def __init__(self, source: RabbitMqSource, config: RabbitMqSourceConfig, session: AgentConfig) -> None:
        folder = Path(tempfile.mkdtemp(prefix="served-", dir=os.environ.get(INDEXES)))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.vacancies = 0
        self._source = source
        self._exchange = ServedExchange(config.management_virtual_host, session.management_exchange)
        self._out: list[RoleEffect] = []
        self._operation_effects: deque[OperationEffect] = deque()
        self._is_operating = False
        self._now = 0
        self._source_wake = self._role_wake = self._woken_at = 0
        classes = ClassRegistry(_MAPPINGS)
        self._inventory = Inventory(
            "gateway", session.boot, classes, opened_index(folder / "index"), self._batch
        )
        self._served = self._inventory.add_source("rabbitmq", "rabbitmq")
        users = frozenset(f"qmf:{user}" for user in session.allowed_users)
        self._operations = OperationManager(
            self._inventory,
            classes,
            policy_of([Permission(users, invoke=_METHODS, read=True)]),
            Marks(_MAPPINGS),
            Audit("gateway", session.boot, Redaction(SecretRules())),
            ManagerSettings(300 * 10**9, 256),
        )
        self._operations.connect(self._served.identity.number, self._precheck)
        number = self._served.identity.number
        role = RoleConfig(session, number, "agent", numbered_by_facts=True)
        self.role = QmfRole(role, self._served.by_row, self._operations.is_seen)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The bindings of the agent's queue, for the link."""
        return self.role.bindings

    def publish(self, effects: Iterable[Effect], now: int) -> list[Effect]:
        """Publish the observations and answers of the source; return the effects for the link."""
        self._now = now
        self._from_source(effects)
        self.role.distrust(self._source.status.distrust)
        return self._taken()

    def _from_source(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Observed(observations):
                    self._inventory.observed(self._served, observations, self._now)
                case Answered(answer):
                    self._operate(self._operations.answered(answer, self._now))
                case WakeAt(time):
                    self._source_wake = time
                case _:
                    self._out.append(effect)

    def event(self, key: str, headers: Mapping[str, object], now: int) -> list[Effect]:
        """Handle an event of the broker, after the source has handled it."""
        self._now = now
        if self._exchange.is_console_bound(key, headers):
            self._do(self.role.console_bound(now))
        elif self._exchange.is_agent_ended(key, headers):
            self.vacancies += 1
        return self._taken()

    # ---- the session of the link -------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `QmfRole.handle`; a timer is also that of the source and the operations."""
        self._now = now
        if not isinstance(event, TimerExpired):
            self._do(self.role.handle(event, now))
            return self._taken()
        self._woken_at = 0
        if self._source_wake and now >= self._source_wake:
            self._source_wake = 0
            self._from_source(self._source.handle(TimerExpired(), now))
        if self._operations.wake_at is not None and now >= self._operations.wake_at:
            self._operate(self._operations.tick(now))
        self._inventory.tick(now)
        if self._role_wake and now >= self._role_wake:
            self._role_wake = 0
            self._do(self.role.handle(event, now))
        return self._taken()

    def stand_by(self, now: int) -> None:
        """Stand by, because another agent serves."""
        self.role.stand_by(now)

    def unsent(self, messages: Iterable[Send]) -> None:
        """Take messages that the link could not send."""
        self.role.unsent(messages)

    # ---- inventory and operations ------------------------------------------------------------------------

    def _batch(self, batch: Batch) -> None:
        self._do(self.role.take(batch.records, self._now))
        self._operate(self._operations.noticed(batch.records, self._now))

    def _do(self, effects: Iterable[RoleEffect]) -> None:
        for effect in effects:
            match effect:
                case Submit(request):
                    self._operate(self._operations.submit(request, self._answered, self._now))
                case WakeAt(time):
                    self._role_wake = time
                case _:
                    self._out.append(effect)

    def _answered(self, answer: OperationAnswer) -> None:
        self._do(self.role.operation_answered(answer, self._now))

    def _operate(self, effects: Iterable[OperationEffect]) -> None:
        self._operation_effects.extend(effects)
        if self._is_operating:
            return
        self._is_operating = True
        while self._operation_effects:
            match self._operation_effects.popleft():
                case Publish(record, lasting):
                    self._inventory.publish_operation(record)
                    if lasting:
                        self._operation_effects.extend(self._operations.recorded(record.number, self._now))
                case SendToSource(_, message):
                    self._send(message)
                case Reply(to, answer):
                    to(answer)
        self._is_operating = False

    def _send(self, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        match message:
            case MethodCall():
                self._from_source(self._source.handle(message, self._now))
            case ObjectFetch():
                self._from_source(self._source.handle(message, self._now))
            case _:
                raise AssertionError("a RabbitMQ has no request to set")

    def _precheck(self, message: MethodCall | ObjectModify) -> Answer | None:
        assert isinstance(message, MethodCall)
        return self._source.precheck(message, self._now)

    def _taken(self) -> list[Effect]:
        """Return the pending effects, and the next time to wake up, if that changed."""
        out, self._out = self._out, []
        effects = [one for one in out if not isinstance(one, Submit)]
        times = (self._source_wake, self._role_wake, self._operations.wake_at or 0)
        wake = min((time for time in times if time), default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects
