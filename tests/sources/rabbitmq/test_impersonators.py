"""Users who could forge a sender: while there is one the agent refuses all requests, and reports the user."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from hypothesis import given, settings

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.messages import GetQuery
from gateway.dialects.session import Delivery, LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.management_api import Broken, Document, NotManagement, Unavailable, UsersRequest
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import (
    MANAGEMENT_VHOST,
    ImpersonatorCheck,
    UserRights,
    agent_rights,
    gateway_rights,
    impersonators,
)
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import ADMINISTRATORS_ONLY
from tests.components.command_line import Site, is_log_record, new_site, running
from tests.components.waiting import eventually
from tests.hypothesis_profiles import examples
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import World

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

QUERY = write(GetQuery(9, {"_class": "node"}))


@pytest.mark.parametrize(
    ("users", "found"),
    [
        ([], ()),
        ([{"name": "a", "tags": []}, {"name": "b", "tags": ["administrator", "monitoring"]}], ()),
        ([{"name": "z", "tags": ["impersonator"]}, {"name": "b", "tags": ["x", "impersonator"]}], ("b", "z")),
        ([{"name": "old", "tags": "monitoring,impersonator"}, {"name": "none", "tags": ""}], ("old",)),
        ([{"name": "a", "tags": ["impersonators"]}], ()),
        ({"items": []}, None),
        ([{"name": "a"}], None),
        ([{"tags": ["impersonator"]}], None),
        (["impersonator"], None),
    ],
)
def test_who_carries_the_tag(users: Json, found: tuple[str, ...] | None) -> None:
    assert impersonators(users) == found


@settings(max_examples=examples() // 4)
@given(any_json())
def test_any_answer_gives_names_or_nothing(users: Json) -> None:
    found = impersonators(users)
    assert found is None or all(isinstance(name, str) for name in found)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Unavailable("no answer within 20 s"), "no answer within 20 s"),
        (Broken("status 500"), "status 500"),
        (NotManagement("status 302"), "status 302"),
        (Document({"users": []}), "the answer is no listing of users"),
    ],
)
def test_an_answer_without_content_changes_no_trust_and_is_reported_once(
    answer: Unavailable | Broken | NotManagement | Document, reason: str
) -> None:
    check = ImpersonatorCheck(frozenset({"gateway"}), "agent")
    (note,) = check.learn(answer)
    assert note.event == "impersonators-not-checked"
    assert f"user 'agent' cannot read the users ({reason})" in note.detail
    assert (check.learn(answer), check.distrust) == ([], "")
    check.learn(Document([{"name": "mallory", "tags": ["impersonator"]}]))
    check.learn(answer)
    assert "'mallory'" in check.distrust


def test_several_are_counted() -> None:
    check = ImpersonatorCheck(frozenset({"gateway"}), "agent")
    check.learn(Document([{"name": name, "tags": ["impersonator"]} for name in ("gateway", "eve", "bob")]))
    assert check.distrust.startswith("user 'bob' (and 1 more) carries the tag 'impersonator'")


# -- the agent in stories


def world(users: dict[str, list[str]] | None) -> World:
    """Return an agent on a broker's management exchange after its start; the user ``loopback`` is allowed."""
    new = World(
        RabbitMqSourceConfig(
            user="agent", management_virtual_host="amqp-gateway", allowed_users=frozenset({"loopback"})
        )
    )
    new.broker.users = users
    new.broker.add_queue("orders")
    new.source_does(new.source.handle(LinkUp(""), new.now))
    new.run(12)
    return new


def answered(shop: World) -> bool:
    """Return whether a console's get query is answered now."""
    reported = len(shop.sent)
    shop.agent_does(shop.agent.handle(Delivery("", "broker", QUERY, "console", "loopback"), shop.now))
    return len(shop.sent) > reported


def details(shop: World, event: str) -> list[str]:
    return [note.detail for note in shop.notes if note.event == event]


def test_no_request_is_accepted_while_another_user_carries_the_tag() -> None:
    shop = world({"agent": ["administrator"], "app": []})
    assert answered(shop)

    shop.broker.users = {"agent": ["administrator"], "mallory": ["impersonator"]}
    shop.run(61)
    assert not answered(shop)
    assert "user 'mallory' carries the tag 'impersonator'" in shop.source.status.detail
    assert shop.source.status.state is SourceState.SYNCHRONISED
    (refused,) = details(shop, "distrusted-sender")
    assert "'mallory'" in refused
    assert "take the tag away" in refused

    shop.broker.users = {"agent": ["administrator"], "mallory": []}
    shop.run(61)
    assert answered(shop)
    assert shop.source.status.detail == ""
    assert (len(details(shop, "impersonator")), len(details(shop, "impersonator-gone"))) == (1, 1)


def test_heartbeats_and_publications_go_on_meanwhile() -> None:
    shop = world({"mallory": ["impersonator"]})
    shop.sent.clear()
    shop.queue_created("new")
    shop.run(11)
    keys = [send.routing_key for send in shop.sent]
    assert keys.count("console.heartbeat.1.0") == 2
    assert "console.obj.1.0.rabbitmq.queue" in keys
    assert not shop.silent


def test_an_allowed_user_may_carry_it() -> None:
    shop = world({"loopback": ["impersonator"]})
    assert answered(shop)
    assert details(shop, "impersonator") == []


def test_an_event_that_tags_were_set_is_enough() -> None:
    shop = world({"agent": ["administrator"]})
    shop.broker.users = {"mallory": ["impersonator"]}
    shop.event("user.tags.set", name="mallory", tags="[impersonator]")
    shop.run(0.05)
    assert not answered(shop)


def test_that_a_user_may_not_read_users_is_reported_once_and_the_rest_is_served() -> None:
    shop = world(None)
    shop.run(4_000)
    assert answered(shop)
    (note,) = details(shop, "impersonators-not-checked")
    assert "user 'agent' cannot read the users (Not administrator user)" in note
    assert shop.source.status.detail == ADMINISTRATORS_ONLY


def test_a_right_taken_away_clears_no_alarm() -> None:
    shop = world({"mallory": ["impersonator"]})
    shop.broker.users = None
    shop.run(61)
    assert not answered(shop)
    assert len(details(shop, "impersonators-not-checked")) == 1


def test_users_that_cannot_be_asked_for_stop_nothing_else() -> None:
    shop = World(
        RabbitMqSourceConfig(
            user="agent", management_virtual_host="amqp-gateway", allowed_users=frozenset({"loopback"})
        )
    )
    shop.broker.failure = lambda one: Unavailable("timed out") if isinstance(one, UsersRequest) else None
    shop.run(70)
    assert answered(shop)
    assert details(shop, "management-unavailable") == []
    assert shop.broker.requests.count(UsersRequest()) == 2


def test_over_the_loopback_no_sender_can_forge_and_no_user_is_asked_for() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.users = {"mallory": ["impersonator"]}
    shop.run(200)
    assert answered(shop)
    assert UsersRequest() not in shop.broker.requests


# -- on a real broker


class Log:
    """The log of a process so far."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def reported(self, event: str) -> dict[str, Any]:
        """Wait for an event, and return its record."""

        async def found() -> object:
            return self._records(event)

        await eventually(found, f"{event} in\n{self._path.read_text(encoding='utf-8')}")
        return self._records(event)[0]

    def _records(self, event: str) -> list[dict[str, Any]]:
        lines = filter(is_log_record, self._path.read_text(encoding="utf-8").splitlines())
        return [record for record in map(json.loads, lines) if record["event"] == event]


class Console:
    """A console that sends get queries with increasing sequences, and records which were answered."""

    def __init__(self, channel: AbstractChannel, reply_to: str) -> None:
        self.answered: set[int] = set()
        self._channel = channel
        self._reply_to = reply_to
        self._sequences = itertools.count(1)

    async def ask(self, user: Credentials) -> int:
        """Send a query with the user id ``user``; return its sequence."""
        sequence = next(self._sequences)
        query = write(GetQuery(sequence, {"_class": "node"}))
        exchange = await self._channel.get_exchange("qpid.management", ensure=False)
        await exchange.publish(aio_pika.Message(query, user_id=user.name, reply_to=self._reply_to), "broker")
        return sequence

    async def replied(self, message: AbstractIncomingMessage) -> None:
        """Record a reply; the sequence stands after the magic number and the operation code."""
        self.answered.add(int.from_bytes(message.body[4:8], "big"))


@asynccontextmanager
async def console(broker: PrivateBroker, user: Credentials) -> AsyncIterator[Console]:
    """Provide a console that logs in as ``user``."""
    async with await aio_pika.connect(broker.amqp_url(user, MANAGEMENT_VHOST)) as connection:
        channel = await connection.channel()
        replies = await channel.declare_queue(f"amqp-gateway.test.{user.name}", exclusive=True)
        await replies.bind("amq.direct", replies.name)
        asking = Console(channel, replies.name)
        await replies.consume(asking.replied, no_ack=True)
        yield asking


def configured(site: Site, broker: PrivateBroker, agent: Credentials) -> None:
    """Configure the agent: ``gateway`` is its allowed user, and it receives events."""
    user = {"user": agent.name, "password": site.secret(agent.password)}
    amqp = f"amqp://127.0.0.1:{broker.ports.amqp}"
    reading = {"kind": "rabbitmq", "management": broker.management_url, "events": {"url": amqp}, **user}
    publish = {"amqp": {"url": amqp, **user}, "allowed_users": ["gateway"]}
    site.configure(agents={"orders": {**reading, "publish": publish}})


@pytest.mark.xdist_group("disturbed")
async def test_a_request_is_refused_while_it_could_be_forged(
    disturbed: PrivateBroker, tmp_path: Path
) -> None:
    broker, site = disturbed, new_site(tmp_path, state=False)
    gateway, agent, mallory = map(Credentials.generate, ("gateway", "agent", "mallory"))
    reading_users = UserRights(("administrator",), agent_rights().grants)
    users = (
        ProvisionedUser(gateway.name, gateway.password, gateway_rights()),
        ProvisionedUser(agent.name, agent.password, reading_users),
        ProvisionedUser(mallory.name, mallory.password, UserRights((), gateway_rights().grants)),
    )
    log = Log(tmp_path / "log")
    configured(site, broker, agent)

    def tag(tags: str) -> None:
        with broker.http() as http:
            body = {"password": mallory.password, "tags": tags}
            http.put(f"users/{mallory.name}", json=body).raise_for_status()

    with broker.http() as http:
        provision(http, users)
    with running("agent", "orders", "--config", site.configuration, log=tmp_path / "log") as process:
        await asyncio.to_thread(process.ready)
        async with console(broker, gateway) as honest:

            async def answers() -> bool:
                await honest.ask(gateway)
                return bool(honest.answered)

            await eventually(answers, "the agent answers")
            tag("impersonator")
            assert "user 'mallory' carries the tag" in (await log.reported("impersonator"))["detail"]
            async with console(broker, mallory) as liar:
                await liar.ask(gateway)
                assert "request from 'gateway'" in (await log.reported("distrusted-sender"))["detail"]
                assert liar.answered == set()

            tag("")
            await log.reported("impersonator-gone")
            asked = await honest.ask(gateway)

            async def answered_again() -> bool:
                return asked in honest.answered

            await eventually(answered_again, "the agent answers again")
