"""Under any input and failure a console raises nothing, stays bounded, answers each request, and recovers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.console_config import Matching, ShortLived
from gateway.dialects.cml.messages import (
    InspectRequest,
    SchemaClass,
    SchemaField,
    SchemaReply,
)
from gateway.dialects.cml.session_state import State
from tests.dialects.cml.console_story import CONFIG, synchronised
from tests.dialects.cml.console_trial import Trial
from tests.dialects.cml.playbook import SCHEMA, ConsolePlay, Shop, shop


@given(st.data(), st.sampled_from(Matching), st.sampled_from(ShortLived))
def test_whatever_happens_all_comes_right_again(
    data: st.DataObject, matching: Matching, short_lived: ShortLived
) -> None:
    trial = Trial(data, matching, short_lived)
    for _ in range(data.draw(st.integers(0, 40))):
        trial.happens()
    trial.ends_well()


def test_a_broker_that_lists_what_is_never_there_fills_no_memory() -> None:
    """Each listing has new numbers: only those of the last one are kept."""
    play = synchronised(replace(CONFIG, object_limit=50), shop())
    for turn in range(100):
        for number in range(40):
            play.broker.objects[0][2].append(("queue", 1_000 + 40 * turn + number))
        play.time_passes(5)
        del play.broker.objects[0][2][3:]
    talk = play.session._state  # noqa: SLF001
    assert len(talk.tree) <= 51
    assert len(talk.tree.numbers()) <= 51
    assert len(talk.schedule) <= 51


def test_a_timer_that_went_off_without_a_connection_is_set_again() -> None:
    play = synchronised()
    play.disconnects()
    play.time_passes(60)
    play.connects()
    play.time_passes(3)
    play.stands(State.SYNCHRONISED)


def test_a_chain_of_objects_is_followed_within_the_bound() -> None:
    broker = shop()
    number = 7
    for following in range(100, 400):
        broker.put(following, "queue", number, name=f"q{following}", pending="0", exclusive="0")
        number = following
    schema = replace(
        SCHEMA,
        classes=tuple(
            replace(each, fields=(*each.fields, replace(SCHEMA.classes[0].fields[2])))
            if each.name == "queue"
            else each
            for each in SCHEMA.classes
        ),
    )
    broker.schema = schema
    play = ConsolePlay(replace(CONFIG, object_limit=100, short_lived=ShortLived.YES), broker)
    play.connects()
    play.time_passes(10)
    play.stands(State.SYNCHRONISED)
    assert len(play.session._state.tree) == 101  # noqa: SLF001
    broker.remove(7)
    play.time_passes(10)
    assert len(play.session._state.tree) == 3  # noqa: SLF001


def test_a_class_whose_name_no_request_can_carry_is_asked_for_without_it() -> None:
    schema = SchemaReply(
        "ok",
        "shop",
        "1.0",
        (
            SchemaClass(
                "broker", fields=(SchemaField("name"), SchemaField("line in", "objref", repeat=True))
            ),
            SchemaClass("line in", fields=(SchemaField("name"),)),
        ),
    )
    broker = Shop(schema)
    broker.put(0, "broker")
    broker.put(9, "line in", 0, name="till")
    play = synchronised(broker=broker)
    assert InspectRequest(9) in [play.read(send) for send in play.sent]
