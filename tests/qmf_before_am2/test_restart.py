"""The objects of an agent in the event log after an absence of the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
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
from tests.qmf_before_am2.gateway import am01_source

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


def _configure(site: Site, broker: PrivateBroker, vhost: str, revision: Revision) -> None:
    source = am01_source(site, broker, vhost)
    if revision is Revision.DESIGN_NOTES:
        source["republish_interval"] = f"{REPUBLISHED}s"
    site.configure(sources={SOURCE: source}, snmp={"enabled": False}, log={"compact": False})


@pytest.mark.parametrize(
    "revision", [Revision.FEBRUARY_2008, pytest.param(Revision.DESIGN_NOTES, marks=pytest.mark.prove)]
)
def test_objects_go_on_where_the_log_ended(
    rabbitmq: PrivateBroker, tmp_path: Path, revision: Revision
) -> None:
    site = new_site(tmp_path)
    with new_virtual_host(rabbitmq) as host:
        _configure(site, rabbitmq, host.name, revision)
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


def test_objects_of_an_agent_that_is_started_again_at_once_go_on(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    site, revision = new_site(tmp_path), Revision.DESIGN_NOTES

    def manage(stack: ExitStack, born: int) -> None:
        """Run an agent with a vat, whose number is no time."""
        made = lambda: _speaking(Am01Agent(rabbitmq, host.name, revision, born=born))  # noqa: E731
        agent = stack.enter_context(background(made))
        agent.do(partial(agent.is_.put, 1))

    with new_virtual_host(rabbitmq) as host, ExitStack() as stack:
        _configure(site, rabbitmq, host.name, revision)
        former = stack.enter_context(ExitStack())
        manage(former, 0)
        stack.enter_context(_core(site))
        wait_until(lambda: _of(_lines(site), "v1", "snapshot"), "its object is recorded")
        former.close()
        manage(stack, 70)
        wait_until(lambda: _numbered(_lines(site), 71), "its object is recorded under the other number")
        lines = _lines(site)
    assert {line["object_name"] for line in _numbered(lines, 71)} == {"v1"}
    assert len({line["object_id"] for line in lines if line.get("object_id")}) == 1


def _numbered(lines: list[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    return [line for line in lines if (line.get("native_id") or "").endswith(f"-{number}")]
