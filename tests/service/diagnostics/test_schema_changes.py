"""What a change of schemas means for MIB, JMX, event log and policy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.config.policy import OperationRule, PolicySettings
from gateway.mapping.files import applied, class_schemas
from gateway.mapping.rules import Mapping
from gateway.mapping.schema_documents import SavedClass, SavedSchemas
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Element,
    EventSchema,
    Kind,
    Method,
)
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.rules import Role, RoleSet, Rule
from gateway.service.diagnostics.schema_changes import Change, Surroundings, compared
from gateway.snmp.registry_growth import new_registry
from gateway.yaml_documents import parse_document
from tests.components.shipped_mappings import shipped_mappings, shipped_registries
from tests.mapping.recorded_schemas import JAVA, QPID, QPIDD, recorded_class

TODAY = dt.date(2026, 11, 20)
SITE = new_registry("", 0, "AMQP-GATEWAY-PLANT-MIB", "plant", TODAY)
RULES = (
    OperationRule(who=("cli:ops",), set=("l*",), invoke=("re*",)),
    OperationRule(who=("jmx:admin",), classes=("plant:Pump",), invoke=("reset",)),
)
MAPPING = """
version: 1
package: plant
module: PLANT-MIB
prefix: plant
classes:
  Pump:
    methods:
      reset: {dangerous: true}
      rest: {}
    statistics:
      operatorName: {type: string, private: true}
"""
MARKS = Marks({"plant": parse_document(MAPPING, Mapping, Path("plant.yaml"))})
JMX_ADMIN = "jmx:admin"
GONE = "matches nothing any more"


def around(roles: RoleSet) -> Surroundings:
    return Surroundings(shipped_registries(), SITE, roles, (JMX_ADMIN, "snmp:(reader)"), MARKS, TODAY)


AROUND = around(PolicySettings(principals={"*": ()}).role_set(RULES))
PUMP = ClassSchema(
    ClassKey("plant", "Pump"),
    (Element("id", ValueType.STRING, index=True), Element("limit", ValueType.U32, Access.READ_WRITE)),
    (Element("flow", ValueType.U32), Element("heat", ValueType.F64)),
    (Method("reset"), Method("rest")),
)
STOPPED = EventSchema(ClassKey("plant", "stopped"), (Argument("why", ValueType.STRING),))


def saved(*schemas: ClassSchema | EventSchema) -> SavedSchemas:
    return SavedSchemas(
        tuple(SavedClass(one) for one in schemas if isinstance(one, ClassSchema)),
        tuple(one for one in schemas if isinstance(one, EventSchema)),
    )


def changes(
    old: Sequence[ClassSchema | EventSchema], new: Sequence[ClassSchema | EventSchema]
) -> list[Change]:
    return compared(saved(*old), saved(*new), AROUND)


def lines(old: ClassSchema | EventSchema, new: ClassSchema | EventSchema) -> list[str]:
    return [line for change in changes([old], [new]) for line in change.lines()]


def with_flow(**fields: object) -> ClassSchema:
    flow = replace(PUMP.statistics[0], **fields)  # type: ignore[arg-type]
    return replace(PUMP, statistics=(flow, *PUMP.statistics[1:]))


def test_the_same_schemas_have_no_difference() -> None:
    assert changes([PUMP, STOPPED], [PUMP, STOPPED]) == []
    assert changes([PUMP], [replace(PUMP, key=ClassKey("plant", "Pump", b"other"))]) == []


def test_another_kind_has_a_new_column_and_deltas() -> None:
    assert lines(PUMP, with_flow(kind=Kind.COUNTER)) == [
        "element plant:Pump.flow: changed: kind: gauge becomes counter",
        (
            "  mib: new column plantPlantPumpFlow2 (106), and a new revision of AMQP-GATEWAY-PLANT-MIB: "
            "load it again; column plantPlantPumpFlow (103) has no values any more, and keeps its number"
        ),
        "  jmx: attribute flow (LONG)",
        "  log: deltas are recorded",
    ]


def test_another_type_concerns_jmx_and_log() -> None:
    found = lines(PUMP, with_flow(type=ValueType.STRING))
    assert found[0] == "element plant:Pump.flow: changed: type: u32 becomes string"
    assert "  jmx: attribute flow: LONG becomes STRING: clients that expect the former type fail" in found
    assert "  log: values of flow are string from now on, and u32 before" in found


def test_a_label_changes_no_number() -> None:
    (first, mib, *_) = lines(PUMP, with_flow(label="Durchfluss"))
    assert first == "element plant:Pump.flow: changed: label or description"
    assert mib == "  mib: the same column, column plantPlantPumpFlow (103)"


def test_what_is_gone_keeps_its_number() -> None:
    found = lines(PUMP, replace(PUMP, statistics=PUMP.statistics[:1]))
    assert found == [
        "element plant:Pump.heat: removed",
        (
            "  mib: column plantPlantPumpHeat (104) of AMQP-GATEWAY-PLANT-MIB has no values any more; "
            "its number stays"
        ),
        "  jmx: no attribute heat any more",
        "  log: values have no such key any more",
    ]


def test_rules_that_no_longer_match() -> None:
    (reset,) = changes([PUMP], [replace(PUMP, methods=PUMP.methods[1:])])
    assert reset.means["policy"] == (
        (
            "rule 2 of operations.allow no longer lets jmx:admin invoke reset of plant:Pump: 'reset' matches "
            "nothing any more"
        ),
    ), "reset is dangerous, so that the pattern of rule 1 never matched it"
    (rest,) = changes([PUMP], [replace(PUMP, methods=PUMP.methods[:1])])
    assert rest.means["policy"] == (
        "rule 1 of operations.allow no longer lets cli:ops invoke rest of plant:Pump: 're*' matches 1 others",
    )


def test_rules_that_match_more() -> None:
    level = Element("level", ValueType.U8, Access.READ_WRITE)
    (change,) = changes([PUMP], [replace(PUMP, properties=(*PUMP.properties, level))])
    assert (change.part, change.how) == ("level", "added")
    assert change.means["policy"] == ("rule 1 of operations.allow lets cli:ops set level of plant:Pump",)


ROLES = RoleSet(
    {
        "operating": Role(
            "operating",
            (
                Rule("deny rule 1", denies=True, classes=("plant:*",), objects=("cold*",), read=("level*",)),
                Rule("allow rule 1", classes=("plant:Pump",), read=("flow", "le*"), write=("level",)),
                Rule("allow rule 2", classes=("plant:P*",), invoke=("re*",), subscribe=("plant:sto*",)),
            ),
        ),
        "unused": Role("unused", (Rule("allow rule of the unused role", read=("*",)),)),
    },
    {JMX_ADMIN: ("operating",)},
)


def effects(
    old: Sequence[ClassSchema | EventSchema], new: Sequence[ClassSchema | EventSchema]
) -> list[tuple[str, ...]]:
    """Return what each change means for the rules of ``ROLES``."""
    return [change.means["policy"] for change in compared(saved(*old), saved(*new), around(ROLES))]


def test_who_reads_and_sets_a_new_element() -> None:
    level = Element("level", ValueType.U8, Access.READ_WRITE)
    taller = replace(PUMP, properties=(*PUMP.properties, level))
    assert effects([PUMP], [taller]) == [
        (
            "deny rule 1 denies jmx:admin to read level of plant:Pump, objects cold*",
            "allow rule 1 lets jmx:admin read level of plant:Pump",
            "the built-in role monitoring lets snmp:(reader) read level of plant:Pump",
            "allow rule 1 lets jmx:admin set level of plant:Pump",
        )
    ]
    lost = effects([taller], [PUMP])
    assert lost == [
        (
            (
                "deny rule 1 no longer denies jmx:admin to read level of plant:Pump, objects cold*: "
                f"'level*' {GONE}"
            ),
            f"allow rule 1 no longer lets jmx:admin read level of plant:Pump: 'le*' {GONE}",
            f"allow rule 1 no longer lets jmx:admin set level of plant:Pump: 'level' {GONE}",
        )
    ], "the role monitoring still reads everything that is there"


def test_what_is_private_is_not_read_by_a_pattern() -> None:
    named = replace(PUMP, statistics=(*PUMP.statistics, Element("operatorName", ValueType.STRING)))
    assert effects([PUMP], [named]) == [()]


def test_what_is_dangerous_is_not_called_by_a_pattern() -> None:
    without = replace(PUMP, methods=())
    assert effects([without], [PUMP]) == [(), ("allow rule 2 lets jmx:admin invoke rest of plant:Pump",)]


def test_events_come_and_go() -> None:
    assert effects([], [STOPPED]) == [
        (
            "allow rule 2 lets jmx:admin receive plant:stopped",
            "the built-in role monitoring lets snmp:(reader) receive plant:stopped",
        )
    ]
    assert effects([STOPPED], []) == [
        (f"allow rule 2 no longer lets jmx:admin receive plant:stopped: 'plant:sto*' {GONE}",)
    ]


def test_of_a_class_elements_are_counted_and_rules_without_any_are_named() -> None:
    assert effects([], [PUMP]) == [
        (
            "allow rule 1 lets jmx:admin read 1 of 4 elements of plant:Pump",
            "the built-in role monitoring lets snmp:(reader) read all elements of plant:Pump",
            "allow rule 2 lets jmx:admin invoke rest of plant:Pump",
        )
    ]
    valve = replace(PUMP, key=ClassKey("plant", "Valve"), methods=())
    (gone, _new) = effects([PUMP], [valve])
    assert "allow rule 1: its classes, plant:Pump, match nothing any more" in gone
    assert not any(text.startswith("deny rule 1") for text in gone), "it still has plant:Valve"


def test_another_index_makes_other_objects() -> None:
    indexed = tuple(replace(element, index=True) for element in PUMP.properties)
    first, second = changes([PUMP], [replace(PUMP, properties=indexed)])
    assert first.details == ("index: id becomes id, limit",)
    assert "another ObjectName" in first.means["jmx"][0]
    assert second.part == "limit"


def test_classes_come_and_go() -> None:
    valve = replace(PUMP, key=ClassKey("plant", "Valve"))
    gone, new = changes([PUMP], [valve])
    assert (gone.name, gone.how, new.name, new.how) == ("plant:Pump", "removed", "plant:Valve", "added")
    assert new.means["mib"] == (
        "new table plantPlantValveTable, and a new revision of AMQP-GATEWAY-PLANT-MIB: load it again",
    )
    assert any("no longer" in text for text in gone.means["policy"])


def test_events_grow_by_arguments() -> None:
    longer = replace(STOPPED, arguments=(*STOPPED.arguments, Argument("who", ValueType.STRING)))
    (change,) = changes([STOPPED], [longer])
    assert change.details == ("new argument who",)
    assert "new revision of AMQP-GATEWAY-PLANT-MIB" in change.means["mib"][0]
    assert change.means["jmx"] == ("notifications amqp.gateway.plant.stopped",)


def test_a_method_with_another_argument_is_called_otherwise() -> None:
    methods = (Method("reset", (Argument("hard", ValueType.BOOL),)), PUMP.methods[1])
    (change,) = changes([PUMP], [replace(PUMP, methods=methods)])
    assert change.details == ("new argument hard",)
    assert change.means["jmx"] == ("operation reset(hard): clients pass it otherwise",)
    assert change.means["policy"] == ()


def test_a_shipped_module_has_no_column_for_another_kind() -> None:
    queue = class_schemas(shipped_mappings()["rabbitmq"])["queue"]
    counted = tuple(
        replace(element, kind=Kind.COUNTER) if element.name == "messages" else element
        for element in queue.statistics
    )
    (change,) = changes([queue], [replace(queue, statistics=counted)])
    assert change.means["mib"][0].startswith(
        "SNMP does not show it: AMQP-GATEWAY-RABBITMQ-MIB has no column for it in this form; column "
    )


def test_recorded_qpid_brokers_differ() -> None:
    mapping = shipped_mappings()[QPID]
    old, new = (applied(mapping, recorded_class("broker", QPID, peer)) for peer in (JAVA, QPIDD))
    found = changes([old], [new])
    assert {change.how for change in found} >= {"added"}
    assert all(change.means["mib"] for change in found)
    assert changes([new], [new]) == []


def test_documents_for_programs() -> None:
    (change,) = changes([PUMP], [with_flow(kind=Kind.COUNTER)])
    document = change.as_json()
    assert (document["of"], document["name"], document["part"]) == ("element", "plant:Pump", "flow")
    assert document["details"] == ["kind: gauge becomes counter"]
    assert set(document["means"]) == {"mib", "jmx", "log"}  # type: ignore[call-overload]
