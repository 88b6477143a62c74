"""A check for every test of a link: no password is logged; and a broker that some of them share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.demo.broker import BrokerSettings, PrivateBroker

PASSWORD = "hunter2-hunter2"
"""The password of users that tests make."""


@pytest.fixture(scope="package")
def troubled(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """Provide a RabbitMQ that tests kill, and whose alarms they raise; it runs on without behind each."""
    with PrivateBroker(settings=rabbitmq_settings) as broker:
        yield broker


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
    for fixture in ("rabbitmq", "own_rabbitmq", "troubled"):
        if fixture in request.fixturenames:
            broker = request.getfixturevalue(fixture)
            assert isinstance(broker, PrivateBroker)
            passwords.add(broker.administrator.password)
    yield
    text = f"{logged}{caplog.text}"
    assert not [password for password in passwords if password in text]
