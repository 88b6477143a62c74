"""Objects of a relay: identity, partial updates, expiry, ends; alerts."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.observations import EventSeen, ObjectSeen, Severity
from gateway.model.schema import ClassKey
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.ami.relay_play import START, RelayPlay, fixed


@pytest.fixture
def play() -> RelayPlay:
    """Return a play whose application has logged in."""
    play = RelayPlay()
    play.logs_in()
    return play


def test_a_type_becomes_a_class_and_an_object_one_of_its_objects(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|level=3|site="north"')
    assert play.reported() == ["class Tank", "Tank t1 site=north level=3"]
    (schema,) = [schema for key, schema in play.schemas.items() if key.name == "Tank"]
    assert schema.key.package == "ami"
    assert [(one.name, one.type, one.index) for one in schema.elements] == [
        ("application", ValueType.STRING, True),
        ("object", ValueType.STRING, True),
        ("expires", ValueType.TIME, False),
        ("site", ValueType.STRING, False),
        ("level", ValueType.S32, False),
    ]


def test_an_object_is_reported_whole_and_then_in_part(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|level=3|site="north"')
    (seen,) = play.objects()
    assert seen == ObjectSeen(
        seen.key, "pump-7", "pump-7|Tank|t1", START, START, 0, ("pump-7", "t1", None, "north"), (3,)
    )
    play.says('O|T="Tank"|I="t1"|level=4', 'O|T="Tank"|I="t1"|site="south"')
    statistics_only, whole = play.objects()
    assert (statistics_only.properties, statistics_only.statistics) == (None, (4,))
    assert (whole.properties, whole.statistics) == (("pump-7", "t1", None, "south"), (4,))


def test_the_alert_that_an_object_belongs_to_is_one_of_its_properties(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|A="a1"|level=3')
    assert play.reported()[-1] == "Tank t1 A=a1 level=3"
    play.says('O|T="Tank"|I="t1"|level=4', 'O|T="Tank"|I="t1"|A="a2"')
    assert play.reported() == ["Tank t1 level=4", "Tank t1 A=a2 level=4"]


def test_null_takes_one_value_away_and_what_is_not_reported_stays(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|level=3|vol=12.5', 'O|T="Tank"|I="t1"|level=null')
    assert play.reported()[-1] == "Tank t1 vol=12.5"
    play.says('O|T="Tank"|I="t1"|never=null')
    assert play.reported() == ["Tank t1 vol=12.5"]


def test_all_kinds_of_values_are_reported_as_what_they_are(play: RelayPlay) -> None:
    play.says(
        r'O|T="Tank"|I="t1"|i=-3|l=900L|f=12.5|d=21.25D|s="a|b"|e=' + r"'red'"
        r'|t=1700000000000T|j="{\"k\":[1,2]}"J|b="AQID"U|yes=true'
    )
    (seen,) = play.objects()
    assert play.values(seen) == {
        "i": -3,
        "l": 900,
        "f": 12.5,
        "d": 21.25,
        "s": "a|b",
        "e": "red",
        "t": 1_700_000_000 * SECOND,
        "j": '{"k":[1,2]}',
        "b": b"\1\2\3",
        "yes": True,
    }


def test_objects_without_an_id_are_new_each_time(play: RelayPlay) -> None:
    play.says('O|T="Tank"|level=3', 'O|T="Tank"|level=3', 'O|T="Tank"|I="#1"|level=3')
    first, second, named = play.objects()
    assert len({first.native_id, second.native_id, named.native_id}) == 3
    assert [fixed(seen)[1] for seen in (first, second, named)] == [f"#{START}", f"#{START + 1}", "#1"]
    assert named.native_id == r"pump-7|Tank|\#1"


def test_of_objects_without_an_id_only_the_last_ones_are_kept() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(inserted=2)))
    play.logs_in()
    play.says('O|T="Tank"|E=-1000L|n=1', 'O|T="Tank"|n=2', 'O|T="Tank"|n=3')
    assert play.reported()[-1] == f"-Tank #{START}"
    play.time_passes(2)
    play.says('O|T="Tank"|E=-1000L|n=4')
    play.time_passes(2)
    play.left()
    play.says('O|T="Tank"|n=5', 'O|T="Tank"|n=6')  # 3 is dropped for 5; 4 is gone already
    assert [reported for reported in play.reported() if reported.startswith("-")] == [f"-Tank #{START + 2}"]


def test_one_id_in_two_types_and_of_two_applications_are_different_objects(play: RelayPlay) -> None:
    play.logs_in("pump-8", number=2)
    play.says('O|T="Tank"|I="t1"|level=1', 'O|T="Pump"|I="t1"|level=2')
    play.says('O|T="Tank"|I="t1"|level=3', number=2)
    ids = [step.native_id for step in play.left() if isinstance(step, ObjectSeen)]
    assert ids == ["pump-7|Tank|t1", "pump-7|Pump|t1", "pump-8|Tank|t1"]


def test_a_deleted_object_ends_and_its_id_may_be_used_again(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|level=3|vol=1.5', 'D|T="Tank"|I="t1"')
    assert play.reported()[-1] == "-Tank t1"
    play.says('D|T="Tank"|I="t1"', 'D|T="Nowhere"|I="t1"', 'O|T="Tank"|I="t1"|L=0')
    assert [line[:14] for line in play.lines()] == ["1< M|Q=3|S=0|M", "1< M|Q=4|S=0|M", "1< M|Q=5|S=0|M"]
    play.says('O|T="Tank"|I="t1"|level=4')
    assert play.reported() == ["Tank t1 level=4"]


def test_a_delete_without_an_id_is_refused(play: RelayPlay) -> None:
    play.says('D|T="Tank"|level=3')
    assert play.lines()[0] == '1< M|Q=1|S=1|M="an object\\\'s id (I) is needed to delete it"'


# Expiry.


def test_an_object_lives_as_long_as_it_says_from_receipt_on(play: RelayPlay) -> None:
    play.says('O@1699999000000|T="Tank"|I="t1"|E=-60000L')
    (seen,) = play.objects()
    assert fixed(seen)[2] == START + 60 * SECOND
    play.time_passes(59)
    assert play.objects() == []
    play.time_passes(2)
    (seen,) = play.objects()
    assert seen.deleted == START + 60 * SECOND


def test_an_object_lives_until_the_time_that_it_says(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|E=1700000010000L')
    play.left()
    play.time_passes(11)
    assert play.objects()[0].deleted == START + 10 * SECOND


def test_later_expiry_times_replace_former_ones_and_zero_takes_them_away(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|E=-1000L', 'O|T="Tank"|I="t2"|E=-1000L', 'O|T="Tank"|I="t3"|E=-1000L')
    play.says('O|T="Tank"|I="t1"|level=3', 'O|T="Tank"|I="t2"|E=-5000L', 'O|T="Tank"|I="t3"|E=0L')
    play.left()
    play.time_passes(2)
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-Tank t1"]
    play.time_passes(4)
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-Tank t2"]
    play.time_passes(1000)
    assert [reported for reported in play.reported() if reported.startswith("-")] == []


def test_an_object_whose_time_is_past_ends_with_what_it_reported(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|E=1000L|level=3')
    assert play.reported() == ["class Tank", "Tank t1 level=3", "-Tank t1"]
    play.says('O#0|T="Tank"|I="t2"|E=1000L', 'O|T="Tank"|E=1000L')
    assert [line.partition("M=")[2] for line in play.lines()] == [
        '"ACK"',
        '"Expiry time (E) is past: the object has expired"',
    ]


def test_a_time_beyond_all_clocks_is_never(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|E=-9223372036854775808L', 'O|T="Tank"|I="t2"|E=9223372036854775807L')
    assert [fixed(seen)[2] for seen in play.objects()] == [None, None]


def test_many_times_of_one_object_take_no_room(play: RelayPlay) -> None:
    play.says(*(f'O|T="Tank"|I="t1"|E=-{1000 + n}L' for n in range(500)))
    play.left()
    play.time_passes(3)
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-Tank t1"]


def test_objects_expire_though_their_application_is_not_connected(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|E=-60000L')
    play.ends()
    play.left()
    play.time_passes(61)
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-Tank t1"]


# Alerts.


def test_an_alert_is_an_object_and_an_event(play: RelayPlay) -> None:
    play.says('A|I="a1"|L=3|T="Leak"|U="mori"|where="north"|at=1700000000000T')
    steps = play.left()
    event = next(step for step in steps if isinstance(step, EventSeen))
    values = {"where": "north", "at": "2023-11-14T22:13:20.000Z"}
    assert event.arguments == ("pump-7", "a1", "Leak", 3, "mori", values)
    assert event.severity is Severity.WARNING
    seen = next(step for step in steps if isinstance(step, ObjectSeen))
    assert seen.properties is not None
    assert seen.properties[:6] == ("pump-7", "a1", "Leak", 3, "mori", None)
    assert steps[-1] == '1< M|Q=1|S=0|M="OK, object accepted"'


def test_level_0_takes_an_alert_back(play: RelayPlay) -> None:
    play.says('A|I="a1"|L=3|T="Leak"', 'A|I="a1"|L=0|T="Leak"', 'A|I="a2"|L=0|T="Leak"')
    steps = play.left()
    events = [step for step in steps if isinstance(step, EventSeen)]
    assert [event.severity for event in events] == [Severity.WARNING, Severity.CLEARED, Severity.CLEARED]
    ends = [step for step in steps if isinstance(step, ObjectSeen) and step.deleted]
    assert [end.native_id for end in ends] == ["pump-7||a1"]


def test_an_alert_expires_and_can_be_deleted_as_an_object_of_its_type(play: RelayPlay) -> None:
    play.says('A|I="a1"|L=3|T="Leak"|E=-1000L', 'A|I="a2"|L=3|T="Leak"', 'A|I="a3"|L=1|T="Leak"|E=5L')
    assert play.lines()[-1].endswith('M="Expiry time (E) is past: the object has expired"')
    play.says('D|T="Other"|I="a2"', 'D|T="Leak"|I="a2"')
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-alert a2"]
    play.time_passes(2)
    assert [reported for reported in play.reported() if reported.startswith("-")] == ["-alert a1"]


def test_an_alert_that_is_refused_is_no_event() -> None:
    play = RelayPlay(RelayConfig(limits=RelayLimits(keys=1, name=20)))
    play.logs_in()
    play.says(
        'A|I="a1"|L=3|T="Leak"|a=1|b=2', f'A|I="{"x" * 21}"|L=1|T="Leak"', f'A|I="a"|L=1|T="{"x" * 21}"'
    )
    steps = play.left()
    assert not [step for step in steps if isinstance(step, ObjectSeen | EventSeen)]
    assert len([step for step in steps if isinstance(step, str) and "|S=1|" in step]) == 3


# Names and secrets.


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("Tank", "Tank"),
        ("tank.level-2", "tank.level-2"),
        ("a:b", "a_b_"),
        ("7 seas", "T7_seas_"),
        (r"\u5c71", "T_"),
    ],
)
def test_types_that_front_ends_could_not_show_are_named_by_what_they_have_and_a_hash(
    play: RelayPlay, kind: str, shown: str
) -> None:
    play.says(f'O|T="{kind}"|I="t1"')
    (seen,) = [step for step in play.left() if isinstance(step, ObjectSeen)]
    assert seen.key.name.startswith(shown)
    assert play.schemas[seen.key].label == kind.encode().decode("unicode-escape")


def test_no_type_can_pretend_to_be_another_one(play: RelayPlay) -> None:
    play.says('O|T="a:b"|I="t1"')
    (seen,) = [step for step in play.left() if isinstance(step, ObjectSeen)]
    play.says(f'O|T="{seen.key.name}"|I="t1"', f'D|T="{seen.key.name}"|I="t1"')
    assert [line[:14] for line in play.lines() if "<" in line] == ["1< M|Q=2|S=1|M", "1< M|Q=3|S=0|M"]


@pytest.mark.parametrize("kind", ["", "x" * 201, r"a\nb"])
def test_some_types_are_no_names(play: RelayPlay, kind: str) -> None:
    play.says(f'O|T="{kind}"|I="t1"')
    assert play.lines()[0].startswith("1< M|Q=1|S=1|M=")


def test_keys_that_are_called_as_elements_of_every_object_are_distinguished(play: RelayPlay) -> None:
    play.says('O|T="Tank"|I="t1"|object="a"|object_key="b"|expires="c"|level_key="d"')
    (seen,) = play.objects()
    schema = play.schemas[seen.key]
    assert [(one.name, one.label) for one in schema.properties[3:]] == [
        ("object_key", "object"),
        ("object_key_key", "object_key"),
        ("expires_key", "expires"),
        ("level_key", "level_key"),
    ]
    assert play.values(seen)["object"] == "a"


def test_what_is_secret_is_not_reported_and_not_kept() -> None:
    play = RelayPlay(RelayConfig(secrets=SecretRules([r"^pin$"])))
    play.logs_in()
    play.says(
        'O|T="Tank"|I="t1"|password="p"|pin=1|url="amqp://u:p@h/"'
        r'|j="{\"k\":[{\"password\":\"p\",\"u\":\"amqp://u:p@h/\",\"n\":null}],\"x\":1}"J|k="{\"a\": 1.50}"J'
        r'|l="[1,2]"J' + f'|m="{{\\"a\\":{"1" * 5000}}}"J'
    )
    (seen,) = play.objects()
    assert play.values(seen) == {
        "url": "amqp://***@h/",
        "j": '{"k":[{"u":"amqp://***@h/","n":null}],"x":1}',
        "k": '{"a":1.50}',
        "l": "[1,2]",
        "m": "null",
    }
    play.says('O|T="Tank"|I="t1"|password="p"|pin=2')
    assert play.values(play.objects()[0]) == {}
    play.says('A|I="a"|L=1|T="t"|U="amqp://u:p@h/"|password="p"|u="amqp://u:p@h/"')
    (event,) = [step for step in play.left() if isinstance(step, EventSeen)]
    assert event.arguments[-2:] == ("amqp://***@h/", {"u": "amqp://***@h/"})


def test_classes_known_from_before_keep_their_elements() -> None:
    before = RelayPlay()
    before.connects()
    before.says(
        'L|I="pump-7"|mem=1', 'O|T="a:b"|I="t1"|level=3|note="x"|object=1.5D|on=true|b="AA=="U|t=1T|l=1L|f=1F'
    )
    again = RelayPlay(RelayConfig(schemas=2 * before.session.schemas))
    assert set(again.schemas) >= {schema.key for schema in before.session.schemas}
    assert again.session.schemas == before.session.schemas
    again.logs_in()
    again.says('O|T="a:b"|I="t1"|note="y"')
    seen = next(step for step in again.left() if isinstance(step, ObjectSeen))
    assert seen.key == next(schema.key for schema in before.session.schemas if schema.key.package == "ami")
    assert seen.key != ClassKey("ami", seen.key.name)
