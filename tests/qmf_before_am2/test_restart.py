"""The objects of an agent in the event log after an absence of the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.am01.messages import Revision
from gateway.eventlog.block import Block
from gateway.eventlog.segment import list_segments, scan_segment
from tests.components.am01_agent import REPUBLISHED, Am01Agent
from tests.components.background import background
from tests.components.command_line import Site, new_site, running
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until

SOURCE = "cellar"


@asynccontextmanager
async def _speaking(agent: Am01Agent) -> AsyncIterator[Am01Agent]:
    task = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _core(site: Site) -> Iterator[None]:
    """Run a core until the end of the block, which begins when it has read everything."""
    starts = _starts(site)
    with running("process", "core", "--config", site.configuration, log=site.folder / "core.log") as core:
        core.ready()
        wait_until(lambda: _starts(site) > starts, "it records")
        wait_until(partial(_is_synchronised, site), "the source is synchronised")
        yield
        core.terminate()


def _lines(site: Site) -> list[Mapping[str, Any]]:
    return [
        json.loads(line)
        for segment in list_segments(site.state.path / "log")
        for block in scan_segment(segment.path)
        if isinstance(block, Block)
        for line in block.split()
    ]


def _starts(site: Site) -> int:
    return sum(line["kind"] == "start" for line in _lines(site))


def _lines_of_now(site: Site) -> list[Mapping[str, Any]]:
    lines = _lines(site)
    return lines[max(number for number, line in enumerate(lines) if line["kind"] == "start") :]


def _is_synchronised(site: Site) -> bool:
    states = [line["state"] for line in _lines_of_now(site) if line["kind"] == "source"]
    return states[-1:] == ["synchronised"]


def _of(lines: list[Mapping[str, Any]], name: str, *kinds: str) -> list[Mapping[str, Any]]:
    return [line for line in lines if line.get("object_name") == name and line["kind"] in kinds]


@pytest.mark.parametrize(
    "revision", [Revision.FEBRUARY_2008, pytest.param(Revision.DESIGN_NOTES, marks=pytest.mark.prove)]
)
def test_objects_go_on_where_the_log_ended(
    rabbitmq: PrivateBroker, tmp_path: Path, revision: Revision
) -> None:
    site, user = new_site(tmp_path), rabbitmq.administrator
    with new_virtual_host(rabbitmq) as host:
        amqp = {
            "url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}",
            "vhost": host.name,
            "user": user.name,
            "password": site.secret(user.password),
        }
        source = {"kind": "am01", "amqp": amqp, "trusted_users": [user.name], "interval": "1s"}
        if revision is Revision.DESIGN_NOTES:
            source["republish_interval"] = f"{REPUBLISHED}s"
        site.configure(sources={SOURCE: source}, snmp={"enabled": False}, log={"compact": False})
        with background(lambda: _speaking(Am01Agent(rabbitmq, host.name, revision))) as agent:
            for number in (1, 2):
                agent.do(partial(agent.is_.put, number))
            with _core(site):
                pass
            before = _lines(site)
            agent.do(partial(agent.is_.delete, 2))
            agent.do(partial(agent.is_.put, 3))
            with _core(site):
                wait_until(lambda: _of(_lines_of_now(site), "v2", "delete"), "the end is recorded")
                now = _lines_of_now(site)
    (lived,) = {line["object_id"] for line in _of(before, "v1", "create", "snapshot")}
    assert [line["object_id"] for line in _of(now, "v1", "snapshot")][-1] == lived
    assert not _of(now, "v1", "create", "delete")
    (end,) = _of(now, "v2", "delete")
    assert (end["object_id"], end["inferred"]) == (
        _of(before, "v2", "create", "snapshot")[0]["object_id"],
        True,
    )
    assert _of(now, "v3", "create")
    assert [line for line in now if line["kind"] == "gap" and line.get("source") == SOURCE]
