"""In every test of a link: no password in anything that it logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.demo.broker import PrivateBroker

PASSWORD = "hunter2-hunter2"
"""Of users that tests make."""


@pytest.fixture
def logged() -> Iterator[list[structlog.typing.EventDict | str]]:
    """What our own loggers were told."""
    with structlog.testing.capture_logs() as entries:
        yield entries  # type: ignore[misc]


@pytest.fixture(autouse=True)
def no_password_is_logged(
    request: pytest.FixtureRequest,
    logged: list[structlog.typing.EventDict | str],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[None]:
    """The passwords of the test's brokers, and of users that it made, are in no line of any logger."""
    caplog.set_level(logging.INFO)
    passwords = {PASSWORD}
    for fixture in ("rabbitmq", "own_rabbitmq"):
        if fixture in request.fixturenames:
            broker = request.getfixturevalue(fixture)
            assert isinstance(broker, PrivateBroker)
            passwords.add(broker.administrator.password)
    yield
    text = f"{logged}{caplog.text}"
    assert not [password for password in passwords if password in text]
