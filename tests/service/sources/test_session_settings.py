"""The settings of a session stand in its capture, and make the same session again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.sources import Source
from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.relay import RelayConfig
from gateway.dialects.ami.relay_publishing import ANYONE, PublishRule, PublishRules
from gateway.dialects.cml.console import ConsoleConfig as CmlConfig
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.links.capture_reading import CaptureError
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.secrets import SecretRules
from gateway.model.values import ValueType
from gateway.service.sources.captures import (
    KINDS,
    relay_settings_of,
    settings_of,
    with_relay_settings,
    with_settings,
)
from tests.components.open_amq import recorded_schema
from tests.components.shipped_mappings import shipped_mappings
from tests.dialects.qmf.recordings import definitions

AM2 = KINDS["qmf"]


def of_json(reported: object) -> Any:  # noqa: ANN401  whatever JSON has
    return json.loads(json.dumps(reported))


def test_every_kind_of_source_can_be_captured() -> None:
    (union, *_) = get_args(Source)
    assert {get_args(each.model_fields["kind"].annotation)[0] for each in get_args(union)} == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_of_every_kind_stand_in_a_capture(kind: str) -> None:
    form = KINDS[kind]
    config = form.config(SecretRules(), shipped_mappings())
    reported = form.settings(config, form.left_out)
    assert form.with_settings(config, of_json(reported), form.left_out) == config
    assert reported


def test_a_time_zone_is_the_same_again() -> None:
    config = RelayConfig(dates=DateRules(ZoneInfo("Europe/Berlin")))
    reported = of_json(relay_settings_of(config, KINDS["ami"].left_out))
    assert with_relay_settings(RelayConfig(secrets=config.secrets), reported, KINDS["ami"].left_out) == config


def test_what_peers_may_publish_is_the_same_again() -> None:
    rule = PublishRule(denies=True, classes=("ami:*",), objects=("a|*", "b"))
    config = RelayConfig(publishing=PublishRules({"pump": (rule,), ANYONE: ()}, (rule, rule)))
    reported = of_json(relay_settings_of(config, KINDS["ami"].left_out))
    assert with_relay_settings(RelayConfig(secrets=config.secrets), reported, KINDS["ami"].left_out) == config


@pytest.mark.parametrize("zone", [None, 5, "", "Europe/Nowhere", "../../etc/passwd", "\0", "Europe"])
def test_a_time_zone_that_is_none(zone: object) -> None:
    with pytest.raises(CaptureError, match=r"^line 1: 'settings' cannot be used: time_zone: "):
        with_relay_settings(RelayConfig(), {"time_zone": zone}, KINDS["ami"].left_out)


def test_what_was_chosen_is_chosen_again() -> None:
    secrets = SecretRules()
    chosen = ConsoleConfig(
        trusted_users=frozenset({"agent"}),
        packages=frozenset({"shop", "works"}),
        secrets=secrets,
        heartbeats=HeartbeatRules(interval=7),
        first_sequence=12345,
    )
    reported = of_json(settings_of(chosen, AM2.left_out))
    assert with_settings(ConsoleConfig(secrets=secrets), reported, AM2.left_out) == chosen


def test_settings_of_another_version_are_taken_as_far_as_they_are_known() -> None:
    config = ConsoleConfig()
    reported = {"believe_anyone": True, "from_the_future": {}, "heartbeats": {"of_the_past": 5}}
    assert with_settings(config, reported, AM2.left_out) == replace(config, trust_anyone=True)


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        (None, "'settings' is no object"),
        ([], "'settings' is no object"),
        ({"believe_anyone": "perhaps"}, "'settings' cannot be used: trust_anyone: must be true or false"),
        ({"believed": 5}, "'settings' cannot be used: trusted_users: takes a list"),
        ({"class_limit": -1}, "'settings' cannot be used: a number is below 0"),
        ({"heartbeats": {"interval": 2**63}}, "'settings' cannot be used: a number is below 0"),
        ({"believed": [float("inf")]}, "'settings' cannot be used: a number is below 0"),
        (
            {"heartbeats": {"interval": "soon"}},
            "'settings' cannot be used: heartbeats.interval: must be a whole number",
        ),
    ],
)
def test_what_is_no_setting_is_refused(reported: object, said: str) -> None:
    with pytest.raises(CaptureError, match=f"^line 1: {said}"):
        with_settings(ConsoleConfig(), reported, AM2.left_out)


CLASSES = (ClassSchema(ClassKey("ami", "Tank"), (Element("name", ValueType.STRING, index=True),)),)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("qmf", ConsoleConfig(definitions=tuple(definitions("java-0.8")))),
        ("cml", CmlConfig(schema=recorded_schema())),
        ("ami", RelayConfig(schemas=CLASSES)),
    ],
)
def test_what_was_known_before_is_known_again(kind: str, config: object) -> None:
    known = KINDS[kind].known
    assert known is not None
    text = of_json(known.text_of(config))
    unaware = KINDS[kind].config(SecretRules(), {})
    assert known.text_of(unaware) == ""
    assert known.with_known(unaware, "") is unaware
    again = known.with_known(unaware, text)
    assert getattr(again, known.field) == getattr(config, known.field)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].known is not None])
@given(text=st.text(min_size=1, max_size=20) | st.sampled_from(["[" * 5000, "<cml/>", "\ud800"]))
def test_what_cannot_have_been_known_is_refused(kind: str, text: str) -> None:
    known = KINDS[kind].known
    assert known is not None
    for line in (text, f"amqp-gateway classes 1: fields of each class in their order, JSON\n{text}"):
        with pytest.raises(CaptureError, match=r"^line 1: 'known' cannot be used: "):
            known.with_known(KINDS[kind].config(SecretRules(), {}), line)


def test_a_schema_that_cannot_be_written_is_left_out() -> None:
    known = KINDS["cml"].known
    assert known is not None
    schema = replace(recorded_schema(), name="\x01")
    assert known.text_of(CmlConfig(schema=schema)) == ""


@dataclass(frozen=True)
class Chosen:
    """Some settings."""

    number: int = 0
    names: tuple[str, ...] = ()
    left_out: object = dataclass_field(default_factory=object)


@given(st.integers(0, 2**63 - 1), st.lists(st.text(max_size=5), max_size=3).map(tuple))
def test_any_settings_come_back(number: int, names: tuple[str, ...]) -> None:
    chosen = Chosen(number, names)
    reported = of_json(settings_of(chosen, {"left_out"}))
    assert with_settings(Chosen(left_out=chosen.left_out), reported, {"left_out"}) == chosen
