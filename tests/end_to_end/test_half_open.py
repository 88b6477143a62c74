"""Half-open TCP: the way to the broker falls silent, and no connection is closed."""

from __future__ import annotations

from functools import partial

import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from tests.end_to_end.half_open import Ways
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.hypothesis_profiles import PROVING

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]


@pytest.mark.parametrize("silent", [{"amqp"}, {"http"}, {"amqp", "http"}] if PROVING else [{"amqp", "http"}])
async def test_the_way_to_the_broker_falls_silent(
    silent: set[str], ways: Ways, observer: Observer, rightness: Rightness, story: Story
) -> None:
    for name in silent:
        getattr(ways, name).fall_silent()
    if "amqp" in silent:
        unanswered = "no answer within 10 s"
        await observer.until("it is said of agents", partial(observer.says, AGENT_SOURCE, unanswered))
        await observer.until("their rows are stale", partial(observer.stale, AGENT_SOURCE))
    if "http" in silent:
        unanswered = "the management API does not answer (no answer within 20 s)"
        await observer.until("it is said of reading", partial(observer.says, SOURCE, unanswered))
        await observer.until("everything is stale", observer.all_stale)
        assert (await observer.sources())[SOURCE]["agSourceState"] == "down"
    else:
        await observer.until("events are missed", partial(observer.says, SOURCE, unanswered))
        assert not await observer.stale(SOURCE)
    for name in silent:
        await getattr(ways, name).speak_again()
    await rightness.again()
    await story.end()
