"""Objects known before a restart are shown again, but not yet as confirmed by an application."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.observations import AgentLost, ClassLearned, ObjectSeen, ResyncEnded
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType
from tests.dialects.ami.relay_play import START, RelayPlay, Step

TANKS = (
    r'O|T="Tank"|I="t1"|i=-3|l=9000000000L|f=12.5|d=21.25D|s="a|b"|e=' + r"'red'" + r'|b=true|raw="AQID"U'
    r'|at=1700000000000T|object="its own"',
    'O|T="Tank"|I="t2"|i=5|E=4102444800000L',
    'O|T="Tank"|i=6',
)


def before(*lines: str) -> tuple[list[ObjectSeen], tuple[ClassSchema, ...]]:
    """Return the objects and classes of a former relay, as the event log has them, after these lines."""
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|O="UNIX"|PL="com.example.Plugin"|rpm=900', *lines)
    latest: dict[str, ObjectSeen] = {}
    for one in play.left():
        if isinstance(one, ObjectSeen):
            former = latest.get(one.native_id)
            if former is not None and one.properties is None:
                latest[one.native_id] = replace(former, statistics=one.statistics)
            else:
                latest[one.native_id] = one
    learnt = {str(schema.key): schema for schema in play.schemas.values()}
    return [replace(one, key=learnt[str(one.key)].key) for one in latest.values()], tuple(learnt.values())


def after(*lines: str, limits: RelayLimits | None = None) -> RelayPlay:
    """Return a play of the relay that is started after the restart."""
    known, schemas = before(*lines)
    return RelayPlay(RelayConfig(schemas=schemas, limits=limits or RelayLimits()), known)


def test_objects_are_reported_as_they_were() -> None:
    known, _ = before(*TANKS)
    reported = [one for one in after(*TANKS).restored if isinstance(one, ObjectSeen)]
    was = {one.native_id: one for one in known if one.key.name == "Tank"}
    assert {one.native_id: one for one in reported if one.key.name == "Tank"} == was
    (metrics,) = (one for one in reported if one.key.name == "metrics")
    assert metrics in known


def test_their_classes_are_the_same_ones() -> None:
    _, schemas = before(*TANKS)
    learnt = {one.schema for one in after(*TANKS).restored if isinstance(one, ClassLearned)}
    assert {one.key for one in learnt if one.key.name == "Tank"} <= {one.key for one in schemas}


def test_classes_of_before_are_no_change_of_whose_objects_are_shown_again() -> None:
    lines = [f'O|T="Tank{number}"|I="t1"|a=1' for number in range(4)]
    play = after(*lines, limits=RelayLimits(versions=8))  # four types, three classes of the relay's own
    play.logs_in()
    play.says('O|T="Pump"|I="p1"|flow=1')
    assert "Pump p1 flow=1" in play.reported()


def test_an_application_is_there_and_not_connected() -> None:
    play = after()
    (seen,) = (o for o in play.restored if isinstance(o, ObjectSeen) and o.key.name == "application")
    name, connected, plugin, options, address, *_ = seen.properties or ()
    assert (name, connected, plugin, options) == ("pump-7", False, "com.example.Plugin", "UNIX")
    assert address == "127.0.0.1"
    play.calls("drain")
    (answer,) = play.answers()
    assert answer.text.startswith("not sent: ")


def test_what_was_there_before_has_come_into_being_when_it_did() -> None:
    known, schemas = before(*TANKS)
    earlier = {one.native_id: one.created - 1_000_000_000 for one in known}
    play = RelayPlay(
        RelayConfig(schemas=schemas), [replace(one, created=earlier[one.native_id]) for one in known]
    )
    reported = {one.native_id: one.created for one in play.restored if isinstance(one, ObjectSeen)}
    assert reported == earlier


def test_they_are_stale_until_their_application_speaks() -> None:
    play = after(*TANKS)
    assert not any(isinstance(one, ResyncEnded | AgentLost) for one in play.restored)
    play.connects()
    play.says('L|I="pump-7"')
    reported = play.left()
    assert len([one for one in reported if isinstance(one, ObjectSeen) and one.key.name == "Tank"]) == 3
    assert ResyncEnded(complete=True, agent="pump-7") in reported


def test_what_changes_in_part_keeps_its_rest() -> None:
    play = after(*TANKS)
    play.logs_in()
    play.says('O|T="Tank"|I="t1"|b=false|i=4')
    (changed,) = play.reported()
    assert "b=False" in changed
    assert "s=a|b" in changed
    play.says('D|T="Tank"|I="t1"')
    assert play.reported() == ["-Tank t1"]


def test_numbers_that_may_not_be_the_last_ones_are_stale() -> None:
    play = after('O|T="Tank"|I="t1"|i=5|n=6|s="open"')
    assert "Tank t1 s=open i=5 n=6" in [play.shown(o) for o in play.restored if isinstance(o, ObjectSeen)]
    play.connects()
    play.says('L|I="pump-7"|rpm=901')
    reported = play.reported()
    assert "Tank t1 s=open" in reported
    assert "metrics #metrics rpm=901" in reported
    play.says('O|T="Tank"|I="t1"|n=8')
    assert play.reported() == ["Tank t1 n=8"]


def test_they_expire_as_before() -> None:
    play = after('O|T="Tank"|I="t1"|i=5|E=-60000L', 'O|T="Tank"|I="t2"|i=5')
    play.time_passes(61)
    assert play.reported() == ["-Tank t1"]


def objects_and_notes(play: RelayPlay) -> list[Step]:
    """Return the observations of objects, and the notes, from before the relay listened."""
    return [step for step in play.restored if not isinstance(step, ClassLearned)]


def test_what_expired_meanwhile_is_not_shown_again() -> None:
    known, schemas = before('O|T="Tank"|I="t1"|i=5|E=-60000L')
    past = [replace(one, properties=(*(one.properties or ())[:2], START)) for one in known[-1:]]
    assert past[0].key.name == "Tank"
    assert objects_and_notes(RelayPlay(RelayConfig(schemas=schemas), past)) == ["objects-not-restored"]


def test_what_is_not_known_any_more_is_left_out() -> None:
    known, _ = before(*TANKS)
    assert objects_and_notes(RelayPlay(RelayConfig(), known)) == ["objects-not-restored"]
    stranger = ClassSchema(ClassKey("ami-relay", "stranger"), (Element("application", ValueType.STRING),))
    seen = ObjectSeen(stranger.key, "pump-7", "x", START, START, 0, ("pump-7",), ())
    assert objects_and_notes(RelayPlay(RelayConfig(schemas=(stranger,)), [seen])) == ["objects-not-restored"]


def test_what_the_bounds_do_not_allow_any_more_is_left_out() -> None:
    play = after(*TANKS, limits=RelayLimits(objects=3))
    assert play.restored[-1] == "objects-not-restored"
    assert len([one for one in play.restored if isinstance(one, ObjectSeen)]) == 3
    play = after(limits=RelayLimits(applications=0))
    assert play.restored[-1] == "objects-not-restored"


def test_values_that_the_log_has_otherwise_are_absent() -> None:
    known, schemas = before('O|T="Tank"|I="t1"|at=1700000000000T|n=5')
    tank = known[-1]
    assert tank.properties is not None
    odd = replace(tank, properties=(*tank.properties[:3], 1_700_000_000_000_000_001))
    restored = RelayPlay(RelayConfig(schemas=schemas), [odd]).restored
    (reported,) = (one for one in restored if isinstance(one, ObjectSeen))
    assert reported.properties is not None
    assert (reported.properties[3], reported.statistics) == (None, (5,))
