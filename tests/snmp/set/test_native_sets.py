"""Settings of a recorded OpenAMQ, set by SNMP: one request of CML, and its effect at the broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.feed.operations import OperationAnswer, OperationRecord, OperationRequest
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import Access as ElementAccess
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import OperationManager
from gateway.operations.operation import Effect, Publish, Reply, Send
from gateway.policy.marks import Marks
from gateway.snmp import message
from gateway.snmp.ber import GAUGE32, Oid, encode_tlv
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.requests import Access, Responder
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters
from tests.components.permissions import Permission, policy_of
from tests.components.shop import START
from tests.mapping.recorded_schemas import OPENAMQ, REGISTRIES
from tests.snmp.datagrams import read_answer
from tests.snmp.mib.recorded_site import RULES, Site, cml_observations
from tests.snmp.set.shop import WRITER, integer, set_request, text

REGISTRY = REGISTRIES[OPENAMQ]
(CONFIG,) = (each for each in REGISTRY.classes if each.name == "config")
COLUMNS = {each.name: each.column for each in CONFIG.elements if each.current}
ANYTHING = Permission(frozenset({"snmp:operator"}), set=("*",))
MODULE = Path(__file__).parents[3] / "mibs" / "AMQP-GATEWAY-OPENAMQ-MIB.mib"
LARGEST_BATCH = 2_097_152
NOTICE = "To activate the new port setting, restart the broker"


def at(element: str) -> Oid:
    """Return the variable of a setting."""
    return (*REGISTRY.entry_oid(DEFAULT_ROOT, CONFIG), COLUMNS[element], 1, 1)


def gauge(value: int) -> bytes:
    return encode_tlv(GAUGE32, value.to_bytes(value.bit_length() // 8 + 1, "big"))


class OpenAmq(Site):
    """A recorded broker as a core watches it, with its tables, a manager, and its settings.

    Attributes:
        modified: the values of each modification sent to the broker.
        reported: the records of operations.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        observations = list(cml_observations())
        (config,) = (one for one in observations if isinstance(one, ObjectSeen) and one.key.name == "config")
        self.config: ObjectSeen = config
        self.source = self.watch("openamq", iter(observations), sets_natively=True)
        self.show()
        self.modified: list[dict[str, object]] = []
        self.reported: list[OperationRecord] = []
        audit = Audit("gw", 1, Redaction(RULES))
        self.manager = OperationManager(self.inventory, self.classes, policy_of([ANYTHING]), Marks({}), audit)
        self.manager.connect(self.source.identity.number)
        sets = SetRequests(
            self.projection, (), self.ask, SnmpCounters(), SetSettings(10**10), lambda: self.now
        )
        self.failures: list[Exception] = []
        self.responder = Responder(
            {WRITER: Access(self.store, "operator")}, SnmpCounters(), self.failures.append, sets=sets
        )

    async def set(self, *bindings: tuple[Oid, bytes]) -> tuple[int, int]:
        """Send a SET; return its error-status and error-index."""
        response = self.responder.answer(set_request(bindings), ("192.0.2.1", 40_000))
        assert response is not None
        octets = response if isinstance(response, bytes) else await response
        assert self.failures == []
        answer = read_answer(octets)
        return answer.status, answer.index

    async def ask(self, request: OperationRequest) -> OperationAnswer:
        answers: list[OperationAnswer] = []
        self._perform(self.manager.submit(request, answers.append, START))
        (answer,) = answers
        return answer

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(record, lasting):
                    self.reported.append(record)
                    if lasting:
                        self._perform(self.manager.recorded(record.number, START))
                case Send(_, sent):
                    self._perform(self.manager.answered(self._carry_out(sent), START))
                case Reply(to, answer):
                    to(answer)

    def _carry_out(self, sent: MethodCall | ObjectModify | ObjectFetch) -> Answer:
        """Carry out a request as OpenAMQ does: it answers "ok" to everything, and limits values to bounds."""
        assert sent.native_id == self.config.native_id
        if isinstance(sent, ObjectFetch):
            self.inventory.observed(self.source, [self.config], START)
            return Answer(sent.token, Outcome.APPLIED)
        assert isinstance(sent, ObjectModify)
        self.modified.append(dict(sent.values))
        described = self.source.by_row("openamq.org.server:config", 1)
        assert described is not None
        values = list(self.config.properties or ())
        for name, value in sent.values.items():
            kept = min(value, LARGEST_BATCH) if isinstance(value, int) else value
            values[described.class_record.schema.positions[name]] = kept
        self.config = replace(self.config, properties=tuple(values), sampled=self.config.sampled + 1)
        return Answer(sent.token, Outcome.APPLIED, NOTICE if "port" in sent.values else "", 0)


@pytest.fixture
def broker(tmp_path: Path) -> OpenAmq:
    return OpenAmq(tmp_path)


async def test_what_one_set_names_is_one_request_and_its_notice_is_reported(broker: OpenAmq) -> None:
    status = await broker.set((at("port"), text("6673")), (at("monitor"), gauge(60)))
    assert status == (message.NO_ERROR, 0)
    assert broker.modified == [{"port": "6673", "monitor": 60}]
    assert broker.store.get(at("port")) == text("6673")
    assert (broker.reported[-1].outcome, broker.reported[-1].text) == (Outcome.APPLIED, NOTICE)


async def test_what_the_broker_put_within_its_bounds_was_not_set_as_asked_for(broker: OpenAmq) -> None:
    status = await broker.set((at("batching"), gauge(2**31 - 1)))
    assert status == (message.COMMIT_FAILED, 1)
    record = broker.reported[-1]
    assert (record.outcome, record.found) == (Outcome.APPLIED_DIFFERENTLY, {"batching": LARGEST_BATCH})


async def test_what_another_variable_of_the_set_came_to_is_known(broker: OpenAmq) -> None:
    variables = [(at("monitor"), gauge(60)), (at("batching"), gauge(2**31 - 1))]
    assert await broker.set(*reversed(variables)) == (message.UNDO_FAILED, 0)


@pytest.mark.parametrize(
    ("element", "value", "status"),
    [
        ("port", text("x" * 256), message.WRONG_LENGTH),
        ("port", integer(5), message.WRONG_TYPE),
        ("monitor", text("abc"), message.WRONG_TYPE),
        ("keep_logs", integer(3), message.WRONG_VALUE),
        ("auto_crash", gauge(1), message.NOT_WRITABLE),
    ],
)
async def test_what_cannot_be_set_is_refused_before_anything_is_sent(
    broker: OpenAmq, element: str, value: bytes, status: int
) -> None:
    assert await broker.set((at("monitor"), gauge(60)), (at(element), value)) == (status, 2)
    assert broker.modified == []


def test_what_can_be_set_is_what_the_mib_calls_writable(broker: OpenAmq) -> None:
    entry = broker.source.by_row("openamq.org.server:config", 1)
    assert entry is not None
    elements = entry.class_record.schema.elements
    settable = {each.name for each in elements if each.access is ElementAccess.READ_WRITE}
    objects = re.findall(r"^(\w+) OBJECT-TYPE$(.*?)::=", MODULE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    writable = {name for name, clauses in objects if re.search(r"MAX-ACCESS\s+read-write", clauses)}
    assert settable == {each.name for each in CONFIG.elements if each.descriptor in writable}
