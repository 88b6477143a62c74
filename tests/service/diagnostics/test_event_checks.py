"""Before a RabbitMQ is relied on, what a proof that its events arrive will lack is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.config.sources import RabbitMqSource
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.service.diagnostics.broker_checks import SEE_PROOFS, check_rabbitmq
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.brokers import source_findings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from tests.components.changing_proxy import Reply, kept, proxy
from tests.sources.rabbitmq.watching import reading_user

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


def source(broker: PrivateBroker, user: Credentials, folder: Path, **more: Any) -> RabbitMqSource:  # noqa: ANN401  of a configuration
    path = folder / "password"
    path.touch(mode=0o600)
    path.write_text(user.password, encoding="utf-8")
    settings: dict[str, Any] = {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "user": user.name,
        "password": {"file": "password"},
        "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
    }
    return RabbitMqSource.model_validate({**settings, **more})


async def remarks(settings: RabbitMqSource, folder: Path) -> list[str]:
    lines: list[str] = []
    await check_rabbitmq(settings, folder, lines.append)
    return lines


async def test_of_a_user_with_the_documented_rights_nothing_is_remarked(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with reading_user(rabbitmq, []) as user:
        assert await remarks(source(rabbitmq, user, tmp_path), tmp_path) == []


def refusing(path: str, reply: Reply) -> Reply:
    """Return an answer as where the user may not see the virtual host of the events."""
    refused = 401, b'{"error":"not_authorized","reason":"User not authorised to access virtual host"}'
    return refused if re.match(r"/api/queues/%2F/", path) else reply


def missing(path: str, reply: Reply) -> Reply:
    """Return an answer as that of another broker than the one of the events."""
    there_is_none = 404, b'{"error":"Object Not Found","reason":"Not Found"}'
    return there_is_none if re.match(r"/api/queues/%2F/", path) else reply


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            refusing,
            "User not authorised to access virtual host: let user '{user}' see it: in virtual host '/'",
        ),
        (missing, "there is no such queue (404): 'management' and 'events' have to lead to one broker"),
    ],
)
async def test_a_management_api_that_does_not_show_the_queue_of_events_is_named_before(
    rabbitmq: PrivateBroker, tmp_path: Path, answer: Callable[[str, Reply], Reply], says: str
) -> None:
    with reading_user(rabbitmq, []) as user, proxy(rabbitmq.ports.management, kept) as hidden:
        hidden.answer = answer
        settings = source(rabbitmq, user, tmp_path, management=hidden.url)
        (line,) = await remarks(settings, tmp_path)
        assert "that all events arrive will not be proven, and the source be degraded" in line
        assert says.format(user=user.name) in line
        assert line.endswith(SEE_PROOFS)
        findings = await source_findings("orders", settings, tmp_path)
        assert [one.level for one in findings if one.text == line] == [Level.WARNING]


async def test_a_user_who_may_not_receive_the_event_of_a_proof_is_refused_before(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with reading_user(rabbitmq, []) as user:
        with rabbitmq.http() as client:
            rights = {"exchange": EVENT_EXCHANGE, "write": "", "read": r"^queue\."}
            client.put(f"topic-permissions/%2F/{user.name}", json=rights).raise_for_status()
        with pytest.raises(CommandError) as caught:
            await remarks(source(rabbitmq, user, tmp_path), tmp_path)
    assert caught.value.code is ExitCode.FORBIDDEN
    assert "'binding.created'" in str(caught.value)
