"""A test that fails in its middle leaves something broken: the next one begins with everything right."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from tests.end_to_end.chaos import Killer
from tests.end_to_end.half_open import Ways
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]


@pytest.mark.prove
async def test_what_a_failed_test_left_broken_is_mended_before_the_next_one(
    observer: Observer, witness: Witness, killer: Killer, ways: Ways, rightness: Rightness
) -> None:
    await rightness.at_first()
    # As if a test ended here: nothing of this is undone.
    observer.process("core").suspend()
    psutil.Process(observer.broker.node_process()).suspend()
    ways.http.fall_silent()
    await killer.kill("agent")
    witness.lies.append("something that was seen wrong")

    await rightness.at_first()
    story = await Story.begin(observer, rightness)
    await asyncio.to_thread(observer.broker.rabbitmqctl, "stop_app")
    await observer.until("everything is stale", observer.all_stale)

    await rightness.at_first()
    await rightness.again()
    await story.end({"broker"})
