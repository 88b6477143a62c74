"""Sources of kind ``am01`` in the configuration."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.config.sources import Am01Source

AMQP = {"url": "amqp://bridge.example.org", "user": "gateway", "password": {"env": "P"}}


def settings(**more: object) -> Am01Source:
    return Am01Source.model_validate({"kind": "am01", "amqp": AMQP, "trusted_users": ["bridge"], **more})


def test_what_the_agent_speaks_is_found_out_unless_it_is_said() -> None:
    assert settings().revision == "auto"
    assert settings(revision="2008-02").revision == "2008-02"


def test_get_set_and_events_are_used_only_where_it_is_said() -> None:
    assert (settings().get_and_set, settings().events) == (False, False)


def test_nothing_is_kept_for_the_gateway_s_return() -> None:
    assert settings().durable is None


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"trusted_users": []}, "name under 'trusted_users'"),
        ({"revision": "2008"}, "2008-02"),
        ({"package": "with.dots"}, "pattern"),
        ({"interval": "10ms"}, "1s"),
    ],
)
def test_what_cannot_be_is_said(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        settings(**changed)
