"""A check for every test of a link: no password is logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.demo.broker import PrivateBroker

PASSWORD = "hunter2-hunter2"
"""The password of users that tests make."""


@pytest.fixture
def logged() -> Iterator[list[structlog.typing.EventDict | str]]:
    """Provide the entries of our own loggers."""
    with structlog.testing.capture_logs() as entries:
        yield entries  # type: ignore[misc]


@pytest.fixture(autouse=True)
def no_password_is_logged(
    request: pytest.FixtureRequest,
    logged: list[structlog.typing.EventDict | str],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[None]:
    """Check that no logger has a password of the test's brokers, or of users that the test made."""
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
