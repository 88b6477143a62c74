"""Revoked rights of gateway and agent are reported; all is right when they are granted again."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from gateway.sources.rabbitmq.rights import MANAGEMENT_VHOST
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.rights import Rights
from tests.end_to_end.story import Story

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

CANNOT_SEE: Final = "short-lived queues and connections cannot be seen"


async def test_permissions_of_the_gateway(
    observer: Observer, rightness: Rightness, rights: Rights, story: Story
) -> None:
    for vhost in ("%2F", MANAGEMENT_VHOST):
        await rights.change("DELETE", f"permissions/{vhost}/gateway")
    await rights.close_connections("gateway")
    refused = f"access to vhost '{MANAGEMENT_VHOST}' refused for user 'gateway'"
    await observer.until("the agents' source says so", partial(observer.says, AGENT_SOURCE, refused))
    await observer.until("its rows are stale", partial(observer.stale, AGENT_SOURCE))
    await observer.until("events are missed", partial(observer.says, SOURCE, CANNOT_SEE))
    unread = "contents of 2 virtual hosts may not be read"
    await observer.until("so are contents", partial(observer.says, SOURCE, unread))

    async def shown() -> bool:
        states = {
            cells["rmqVhostName"]: cells["rmqVhostState"]
            for index, cells in (await observer.walk("rmqVhostTable")).items()
            if index.startswith("1.")
        }
        return states == {
            "/": "notPermitted",
            MANAGEMENT_VHOST: "notPermitted",
            "shop": "running",
            "billing": "running",
        }

    await observer.until("virtual hosts are shown so", shown)
    await rights.give()
    await rightness.again()
    await story.end()


async def test_permissions_of_the_agent(
    observer: Observer,
    demonstration: Demonstration,
    rightness: Rightness,
    rights: Rights,
    story: Story,
) -> None:
    await rights.change("DELETE", f"permissions/{MANAGEMENT_VHOST}/agent")
    await rights.close_connections("agent")
    await observer.until("its rows are stale", partial(observer.stale, AGENT_SOURCE))
    assert not await observer.stale(SOURCE)
    await rights.give()
    await rightness.again()
    await story.end()
    refused = f"access to vhost '{MANAGEMENT_VHOST}' refused for user 'agent'"
    assert refused in demonstration.log_of("agent")


async def test_a_password_is_changed(
    observer: Observer, rightness: Rightness, rights: Rights, story: Story
) -> None:
    await rights.change("PUT", "users/gateway", {"password": "another", "tags": "monitoring"})
    refused = "the management API refuses user 'gateway'"
    await observer.until("reading is refused", partial(observer.says, SOURCE, refused))
    assert (await observer.sources())[SOURCE]["agSourceState"] == "down"
    await rights.close_connections("gateway")
    refused = "user 'gateway' was refused: check user and password"
    await observer.until("so are connections", partial(observer.says, AGENT_SOURCE, refused))
    await observer.until("everything is stale", observer.all_stale)
    await rights.give()
    await rightness.again()
    await story.end()


@pytest.mark.parametrize("tags", ["", pytest.param("management", marks=pytest.mark.prove)])
async def test_the_tag_monitoring_is_taken_away(
    tags: str,
    observer: Observer,
    demonstration: Demonstration,
    rightness: Rightness,
    rights: Rights,
    story: Story,
) -> None:
    password = demonstration.folder.joinpath("password-of-gateway").read_text("utf-8")
    await rights.change("PUT", "users/gateway", {"password": password, "tags": tags})
    said = "user 'gateway' may not read" if tags else "the management API refuses user 'gateway'"
    await observer.until("it is said", partial(observer.says, SOURCE, said))
    assert await observer.says(SOURCE, "'monitoring'")

    async def unaffected() -> bool:
        return not await observer.stale(AGENT_SOURCE)

    await observer.until("the agent's own source goes on", unaffected)
    await rights.give()
    await rightness.again()
    await story.end()
