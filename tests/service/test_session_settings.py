"""What was chosen about a session stands in its capture, and makes the same session again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.relay import RelayConfig
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.links.capture_reading import CaptureError
from gateway.mapping.files import load_shipped_mappings
from gateway.model.secrets import SecretRules
from gateway.service.captures import KINDS
from gateway.service.session_settings import (
    relay_settings_of,
    settings_of,
    with_relay_settings,
    with_settings,
)

AM2 = KINDS["qmf"]


def of_json(told: object) -> Any:  # noqa: ANN401  whatever JSON has
    return json.loads(json.dumps(told))


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_of_every_kind_stand_in_a_capture(kind: str) -> None:
    form = KINDS[kind]
    config = form.config(SecretRules(), load_shipped_mappings())
    told = form.settings(config, form.left_out)
    assert form.with_settings(config, of_json(told), form.left_out) == config
    assert told


def test_a_time_zone_is_the_same_again() -> None:
    config = RelayConfig(dates=DateRules(ZoneInfo("Europe/Berlin")))
    told = of_json(relay_settings_of(config, KINDS["ami"].left_out))
    assert with_relay_settings(RelayConfig(secrets=config.secrets), told, KINDS["ami"].left_out) == config


@pytest.mark.parametrize("zone", [None, 5, "", "Europe/Nowhere", "../../etc/passwd", "\0", "Europe"])
def test_a_time_zone_that_is_none(zone: object) -> None:
    with pytest.raises(CaptureError, match=r"^line 1: 'settings' cannot be used: time_zone: "):
        with_relay_settings(RelayConfig(), {"time_zone": zone}, KINDS["ami"].left_out)


def test_what_was_chosen_is_chosen_again() -> None:
    secrets = SecretRules()
    chosen = ConsoleConfig(
        believed=frozenset({"agent"}),
        packages=frozenset({"shop", "works"}),
        secrets=secrets,
        heartbeats=HeartbeatRules(interval=7),
        first_sequence=12345,
    )
    told = of_json(settings_of(chosen, AM2.left_out))
    assert with_settings(ConsoleConfig(secrets=secrets), told, AM2.left_out) == chosen


def test_settings_of_another_version_are_taken_as_far_as_they_are_known() -> None:
    config = ConsoleConfig()
    told = {"believe_anyone": True, "from_the_future": {}}
    assert with_settings(config, told, AM2.left_out) == replace(config, believe_anyone=True)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, "'settings' is no object"),
        ([], "'settings' is no object"),
        ({"believe_anyone": "perhaps"}, "'settings' cannot be used: believe_anyone: "),
        ({"believed": 5}, "'settings' cannot be used: believed: "),
        ({"class_limit": -1}, "'settings' cannot be used: a number is below 0"),
        ({"heartbeats": {"interval": 2**63}}, "'settings' cannot be used: a number is below 0"),
        ({"believed": [float("inf")]}, "'settings' cannot be used: a number is below 0"),
        ({"heartbeats": {"interval": "soon"}}, "'settings' cannot be used: heartbeats.interval: "),
    ],
)
def test_what_is_no_setting_is_refused(told: object, said: str) -> None:
    with pytest.raises(CaptureError, match=f"^line 1: {said}"):
        with_settings(ConsoleConfig(), told, AM2.left_out)


@dataclass(frozen=True)
class Chosen:
    """Some settings."""

    number: int = 0
    names: tuple[str, ...] = ()
    left_out: object = dataclass_field(default_factory=object)


@given(st.integers(0, 2**63 - 1), st.lists(st.text(max_size=5), max_size=3).map(tuple))
def test_any_settings_come_back(number: int, names: tuple[str, ...]) -> None:
    chosen = Chosen(number, names)
    told = of_json(settings_of(chosen, {"left_out"}))
    assert with_settings(Chosen(left_out=chosen.left_out), told, {"left_out"}) == chosen
