"""A plant of machines with alarms of every kind: a mapping and its schemas, for use in a playbook."""

from __future__ import annotations

from pathlib import Path

from gateway.feed.records import AlarmRecord, EventRecord, Record
from gateway.feed.values import ObjectLink
from gateway.inventory.inventory import BatchSettings
from gateway.mapping.files import class_schemas, event_schemas
from gateway.mapping.rules import Mapping
from gateway.model.observations import EventSeen, ObjectSeen, Severity
from gateway.model.schema import ClassSchema, EventSchema
from gateway.model.values import Reference, Value
from gateway.yaml_documents import parse_document
from tests.inventory.playbook import AGENT, NOW, Playbook, of

MAPPING = """
version: 1
package: plant
module: PLANT-MIB
prefix: plant
classes:
  machine:
    alarms:
      overheated: {element: hot, equals: true, severity: critical, text: '{name} is too hot ({load} of 100)'}
      overloaded: {element: load, at_least: 90, clear_below: 70, severity: warning, text: 'load {load}'}
      leaking: {element: leaks, not_empty: true, severity: minor, text: 'leaks at {leaks}'}
      stopped: {element: state, equals: stopped, severity: major, text: '{name} is {state}'}
    properties:
      name: {type: string, index: true}
    statistics:
      hot: {type: bool}
      load: {type: u32}
      leaks: {type: list}
      state: {type: u8, values: [stopped, running]}
  visitor:
    lifetime: {default: transient}
    properties:
      badge: {type: string, index: true}
events:
  heatRose:
    severity: critical
    subject: machine
    text: '{machine} reports heat for {for} since {since}, seen by {witness}'
    raises: overheated
    arguments:
      machine: {type: reference, references: machine}
      for: {type: duration, optional: true}
      since: {type: time, optional: true}
      witness: {type: string, optional: true}
  heatFell:
    severity: info
    subject: machine
    clears: overheated
    arguments:
      machine: {type: reference, references: machine}
  doorOpened:
    severity: minor
    subject: machine
    text: a door of {machine} is open
    raises: open
    arguments:
      machine: {type: reference, references: machine}
  doorClosed:
    subject: machine
    clears: open
    arguments:
      machine: {type: reference, references: machine}
  strikeBegan: {severity: major, text: strike, raises: strike}
  strikeEnded: {clears: strike}
  visitorLeft:
    severity: info
    subject: visitor
    text: '{visitor} left through {door} after {rounds} rounds'
    arguments:
      visitor: {type: reference, references: visitor}
      door: {type: u8, values: [front, back]}
      rounds: {type: u32, optional: true}
  whistle:
    arguments:
      tone: {type: string, optional: true}
      times: {type: u32}
"""
PLANT = parse_document(MAPPING, Mapping, Path("plant.yaml"))
CLASSES: dict[str, ClassSchema] = class_schemas(PLANT)
EVENTS: dict[str, EventSchema] = event_schemas(PLANT)
SCHEMAS: tuple[ClassSchema | EventSchema, ...] = (*CLASSES.values(), *EVENTS.values())
MACHINE, VISITOR = CLASSES["machine"], CLASSES["visitor"]


def plant(state: Path, *, boot: int = 1, slicing: BatchSettings | None = None) -> Playbook:
    """Return a playbook of the plant, without observations so far."""
    return Playbook(state, boot=boot, mapping=PLANT, schemas=SCHEMAS, slicing=slicing)


def machine(
    name: str = "press",
    native_id: str = "m1",
    *,
    hot: Value | None = False,
    load: Value | None = 0,
    leaks: Value | None = (),
    state: Value | None = 1,
    deleted: int = 0,
) -> ObjectSeen:
    """Return a complete observation of a machine."""
    return ObjectSeen(MACHINE.key, AGENT, native_id, NOW, 0, deleted, (name,), (hot, load, leaks, state))


def visitor(badge: str, native_id: str, *, created: int = 0, deleted: int = 0) -> ObjectSeen:
    """Return a complete observation of a visitor."""
    return ObjectSeen(VISITOR.key, AGENT, native_id, NOW, created, deleted, (badge,), ())


def event(name: str, *arguments: Value | None, severity: Severity = Severity.WARNING) -> EventSeen:
    """Return an event with this severity on the wire."""
    return EventSeen(EVENTS[name].key, AGENT, NOW + 1, severity, arguments)


def about(name: str, native_id: str = "m1") -> EventSeen:
    """Return an event whose only present argument is its subject."""
    return event(name, Reference(native_id))


def link(name: str = "press", row: int = 1) -> ObjectLink:
    """Return the target of a reference to a machine."""
    return ObjectLink("plant:machine", row, name)


def events(records: list[Record]) -> list[EventRecord]:
    """Return the events among records."""
    return of(EventRecord, records)


def alarms(records: list[Record]) -> list[AlarmRecord]:
    """Return the alarms among records."""
    return of(AlarmRecord, records)


def standing(playbook: Playbook) -> list[str]:
    """Return the names of the active alarms in a snapshot."""
    return [alarm.name for alarm in alarms(playbook.snapshot())]
