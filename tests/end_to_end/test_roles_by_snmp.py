"""What communities see of a real RabbitMQ by SNMP, by the default role and by others, asked with net-snmp."""

from __future__ import annotations

import asyncio
import getpass
import itertools
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp import message
from gateway.snmp.ber import NULL, Oid, encode_integer, encode_octets, encode_oid
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
)
from tests.components.alike import SURELY_DIFFERENT, rank_sum, without_names
from tests.components.command_line import Ended, Site, amqp_gateway, new_site, running
from tests.components.net_snmp import printed, with_modules
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import DEADLINE, wait_until
from tests.hypothesis_profiles import PROVING
from tests.snmp.datagrams import read_answer, request

pytestmark = pytest.mark.xdist_group("roles by SNMP")

ROOT = "1.3.6.1.4.1.8072.9999.9999"
_ROOT: Oid = tuple(map(int, ROOT.split(".")))
HIDDEN = 500 if PROVING else 4
USER = f"cli:{getpass.getuser()}"
STRANGER = f"stranger-{secrets.token_hex(6)}"
"""A user of the broker that all tests share."""


def policy(virtual_host: VirtualHost) -> Mapping[str, object]:
    """Return roles that show everything, or one queue: others have queues of this name, which come and go."""
    first = {
        "sources": ["orders"],
        "classes": ["rabbitmq:queue"],
        "objects": [f"{virtual_host.name}|first"],
        "read": ["*"],
        "invoke": ["purge"],
    }
    return {
        "roles": {"shop": {"allow": [first], "deny": [{"objects": ["*"], "read": ["messagesReady"]}]}},
        "principals": {
            **{principal: ["shop"] for principal in ("snmp:shop", "snmp:curious", USER)},
            "snmp:auditor": ["everything"],
        },
    }


@dataclass(frozen=True, slots=True)
class Shown:
    """A gateway that shows a RabbitMQ to three communities."""

    site: Site
    virtual_host: VirtualHost

    def walk(self, writer: str = "") -> str:
        """Return what a walk prints: of a writer's community, or of that which reads."""
        name = f"community-{writer}" if writer else "community"
        community = self.site.state.secret(name)
        agent = f"127.0.0.1:{self.site.snmp_port}"
        access = ("-v2c", "-c", community, "-t", "30", "-r", "3")
        words = (*access, "-m", "", "-On", "-Oa", "-Cr50", agent, ROOT)
        return printed(self.site.folder / "snmp", "snmpbulkwalk", *words).stdout

    def by_name(self, command: str, writer: str, *words: str) -> list[str]:
        """Return the lines of a command of net-snmp, with a writer's community and names of our modules."""
        community = self.site.state.secret(f"community-{writer}")
        access = ("-v2c", "-c", community, "-t", "30", "-r", "3", "-OSX", "-Ir")
        modules = with_modules(("AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB"))
        agent = f"127.0.0.1:{self.site.snmp_port}"
        done = printed(self.site.folder / "snmp", command, *modules, *access, agent, *words)
        return [*done.stdout.splitlines(), *done.stderr.splitlines()]

    def command(self, *words: str) -> Ended:
        """Run a command of the gateway."""
        return amqp_gateway(*words, "--config", self.site.configuration)

    def path(self, queue: str) -> str:
        """Return the name of a queue at the command line."""
        return f"orders/rabbitmq:queue/{self.virtual_host.name}|{queue}"


@pytest.fixture(scope="module")
def shown(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    site = new_site(tmp_path_factory.mktemp("roles"))
    account = {
        "user": rabbitmq.administrator.name,
        "password": site.secret(rabbitmq.administrator.password),
    }
    source = {
        "kind": "rabbitmq",
        "management": rabbitmq.management_url,
        "interval": "1s",
        "budget": 0.5,
        "writing": account,
        **account,
    }
    rule = {"who": [USER], "classes": ["rabbitmq:queue"], "invoke": ["purge"]}
    with ExitStack() as stack:
        virtual_host = stack.enter_context(new_virtual_host(rabbitmq))
        http = stack.enter_context(virtual_host.http())
        for queue in ("first", "second"):
            http.put(f"queues/{virtual_host.path}/{queue}", json={"durable": True}).raise_for_status()
        http.put(f"users/{STRANGER}", json={"password": "x", "tags": ""}).raise_for_status()
        stack.callback(http.delete, f"users/{STRANGER}")
        # Nothing listens there, so this source is never read.
        depot = {**source, "management": f"http://127.0.0.1:{free_tcp_port()}"}
        site.configure(
            sources={"orders": source, "depot": depot},
            snmp={
                "listen": [f"127.0.0.1:{site.snmp_port}"],
                "writers": {"auditor": {}, "shop": {}, "curious": {}},
            },
            policy=policy(virtual_host),
            operations={"allow": [rule]},
        )
        log = site.folder / "log"
        command = stack.enter_context(running("run", "--config", site.configuration, log=log))
        command.ready()
        there = Shown(site, virtual_host)
        second = f'"{virtual_host.name}|second"'
        wait_until(lambda: second in there.walk("auditor"), "queues are shown")
        yield there


@asynccontextmanager
async def connected(virtual_host: VirtualHost) -> AsyncIterator[str]:
    """Open a connection; yield the address and port of its client, as the broker reports them."""
    connection = await aio_pika.connect(virtual_host.amqp_url())
    found: list[str] = []

    def reported() -> bool:
        with virtual_host.http() as http:
            listed = http.get("connections").raise_for_status().json()
        found[:] = [
            f"{one['peer_host']}:{one['peer_port']}" for one in listed if one["vhost"] == virtual_host.name
        ]
        return bool(found)

    async with connection, connection.channel():
        await asyncio.to_thread(wait_until, reported, "the broker lists the connection")
        yield found[0]


async def test_by_default_no_address_no_user_and_no_operation_of_others_is_shown(shown: Shown) -> None:
    purged = shown.command("invoke", shown.path("first"), "purge")
    assert purged.code is ExitCode.OK, purged.errors
    async with connected(shown.virtual_host) as client:
        await asyncio.to_thread(
            wait_until,
            lambda: all(text in shown.walk("auditor") for text in (client, STRANGER, USER)),
            "who reads everything sees address, user and operation",
        )
        everything, walked = shown.walk("auditor"), shown.walk()
    assert f'"{shown.virtual_host.name}|first"' in walked, "what a monitoring tool needs is there"
    for hidden in (client, STRANGER, USER):
        assert f'"{hidden}' not in walked, hidden
        assert f" {hidden}" not in walked, hidden
    # The port alone may be any number of another row.
    port = re.compile(rf" = .*\b{client.partition(':')[2]}\b")
    of_client = {row_of(line) for line in everything.splitlines() if client in line}
    assert [line for line in everything.splitlines() if row_of(line) in of_client and port.search(line)]
    assert not [line for line in walked.splitlines() if row_of(line) in of_client and port.search(line)]


def row_of(line: str) -> tuple[str, ...]:
    """Return the row that a line of a walk belongs to: its object identifier without the column."""
    *entry, _column, source, number = f"0.0.{line.partition(' ')[0]}".split(".")
    return (*entry, source, number)


def test_a_role_sees_the_objects_and_elements_that_it_names(shown: Shown) -> None:
    walked, everything = shown.walk("shop"), shown.walk("auditor")
    first, second = (f'"{shown.virtual_host.name}|{queue}"' for queue in ("first", "second"))
    assert first in everything
    assert second in everything
    assert first in walked
    assert second not in walked
    mine, all_of_it = set(walked.splitlines()), set(everything.splitlines())
    columns = {line.partition(" ")[0] for line in mine}
    rows = {line.partition(" = ")[0].rsplit(".", 2)[-2:][-1] for line in mine if first in line}
    assert len(rows) == 1, "one row"
    assert columns < {line.partition(" ")[0] for line in all_of_it}, "nothing that others do not have"


def test_what_a_role_does_not_read_answers_like_what_is_not_there(shown: Shown) -> None:
    second = f'"{shown.virtual_host.name}|second"'
    instances = [line.partition(" = ")[0] for line in shown.walk("auditor").splitlines() if second in line]
    assert instances
    for instance in instances:
        community = shown.site.state.secret("community-shop")
        agent = f"127.0.0.1:{shown.site.snmp_port}"
        words = ("-v2c", "-c", community, "-m", "", "-On", "-Oa", agent, instance)
        got = printed(shown.site.folder / "snmp", "snmpget", *words).stdout
        assert "No Such " in got, got


def test_own_attempts_do_not_show_what_there_is(shown: Shown) -> None:
    """A SET and a command on a hidden row are answered and reported like those on one that is not there."""
    hidden = [f"hidden-{number}" for number in range(HIDDEN)]
    with shown.virtual_host.http() as http:
        for queue in hidden:
            path = f"queues/{shown.virtual_host.path}/{queue}"
            http.put(path, json={"durable": True}).raise_for_status()
    rows: dict[str, str] = {}

    def are_shown() -> bool:
        lines = shown.by_name("snmpwalk", "auditor", "rmqQueueRowFullName")
        found = (_ROW.search(line) for line in lines)
        of_host = [one for one in found if one is not None and one["host"] == shown.virtual_host.name]
        rows.update({one["name"]: f"{one['source']}.{one['row']}" for one in of_host})
        return rows.keys() >= set(hidden)

    wait_until(are_shown, "the queues are shown")
    answers: dict[bool, set[str]] = {True: set(), False: set()}
    source = rows[hidden[0]].partition(".")[0]
    for number, queue in enumerate(hidden):
        for exists, index in ((True, rows[queue]), (False, f"{source}.{900_000 + number}")):
            answers[exists].update(_answers(shown, index, f"{'is' if exists else 'no'}-{number}"))
    assert answers[True] == answers[False]
    operations = _operations(shown.by_name("snmpwalk", "curious", "agOperationEntry"))
    assert operations[True] == operations[False] != set()
    recorded = "\n".join(shown.by_name("snmpwalk", "auditor", "agOperationName"))
    assert "hidden-0" in recorded, "the true record"
    absent = [f"{source}.{900_000 + number}" for number in range(HIDDEN)]
    for kind, took in _times(shown, [rows[queue] for queue in hidden], absent).items():
        assert abs(rank_sum(*took)) < SURELY_DIFFERENT, kind


def test_own_attempts_do_not_show_that_there_is_a_source(shown: Shown) -> None:
    """What is asked of a source that is down, of which nothing is read, ends as if there were none."""
    for words in (("get",), ("tree",), ("explain",), ("invoke", "purge"), ("set", "maxLength=1")):
        ended = []
        for source in ("depot", "nowhere"):
            done = shown.command(words[0], f"{source}/rabbitmq:queue/{shown.virtual_host.name}|x", *words[1:])
            ended.append((done.code, *(without_names(text, source) for text in (done.output, done.errors))))
        assert ended[0] == ended[1], words
        assert ended[0][0] is not ExitCode.OK, words
    (named,) = (
        line for line in shown.by_name("snmpwalk", "auditor", "agSourceName") if line.endswith(": depot")
    )
    depot = named.partition("[")[2].partition("]")[0]
    answers = {
        exists: sorted(_answers(shown, f"{number}.1", f"source-{number}"))
        for exists, number in ((True, depot), (False, "999999"))
    }
    assert answers[True] == answers[False]
    assert "source-down" not in " ".join(shown.by_name("snmpwalk", "curious", "agOperationEntry"))
    sources = " ".join(shown.by_name("snmpwalk", "curious", "agSourceName"))
    assert "orders" in sources
    assert "depot" not in sources


CREATE_AND_GO, DESTROY, ENDED = 4, 6, 3
TIMES = 500 if PROVING else 250
"""The number of requests of a kind for hidden rows whose times are compared; as many for absent ones."""


def _times(
    shown: Shown, hidden: Sequence[str], absent: Sequence[str]
) -> Mapping[str, tuple[list[float], list[float]]]:
    """Return the seconds that requests for hidden and for absent rows took, in turn, by kind of request."""
    site = shown.site
    name = f'"{shown.virtual_host.name}|hidden-0"'
    named = (line.partition(" = ")[0] for line in shown.walk("auditor").splitlines() if name in line)
    # Operations, which are walked first, have the name in rows of their own.
    cell = next(cell for cell in named if cell.endswith(f".{hidden[0]}"))
    column = tuple(map(int, cell.strip(".").split(".")))[:-2]
    community = site.state.secret("community-curious").encode()
    kinds = {"get": message.GET, "next": message.GET_NEXT, "bulk": message.GET_BULK, "set": message.SET}
    took: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in (*kinds, "command")}
    numbers = itertools.count(1)  # a SET with the number of an earlier one would be its retransmission
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(DEADLINE)
        client.connect(("127.0.0.1", site.snmp_port))

        def asks(pdu_type: int, varbinds: Mapping[Oid, bytes]) -> bytes:
            client.send(request(pdu_type, varbinds, community=community, request_id=next(numbers)))
            return client.recv(65_536)

        for number in range(TIMES):
            for kind, of_kind in took.items():
                turns = list(zip(of_kind, (hidden, absent), strict=True))
                for times, rows in turns if number % 2 else reversed(turns):  # the second finds warm caches
                    oid = (*column, *map(int, rows[number % len(rows)].split(".")))
                    began = time.perf_counter()
                    if kind == "command":
                        _runs(asks, oid)
                    else:
                        asks(kinds[kind], {oid: encode_octets(b"other") if kind == "set" else NULL})
                    times.append(time.perf_counter() - began)
    return took


def _runs(asks: Callable[[int, Mapping[Oid, bytes]], bytes], target: Oid) -> None:
    """Let a command for a row begin and end, and remove it."""
    index = (7, *b"curious", 5, *b"timed")

    def cell(column: CommandColumn) -> Oid:
        return (*_ROOT, *COMMAND_ENTRY, column, *index)

    argument = (*_ROOT, *COMMAND_ARGUMENT_ENTRY, CommandArgumentColumn.VALUE, *index, 1, ord("1"))
    begins = {
        cell(CommandColumn.TARGET): encode_oid(target),
        cell(CommandColumn.METHOD): encode_octets(b"delete"),
        argument: encode_octets(b"true"),
        cell(CommandColumn.ROW_STATUS): encode_integer(CREATE_AND_GO),
    }
    assert read_answer(asks(message.SET, begins)).status == 0
    state = cell(CommandColumn.STATE)
    until = time.monotonic() + DEADLINE
    while read_answer(asks(message.GET, {state: NULL})).varbinds != [(state, encode_integer(ENDED))]:
        assert time.monotonic() < until, "the command has not ended"
    asks(message.SET, {cell(CommandColumn.ROW_STATUS): encode_integer(DESTROY)})


_ABSENT = re.compile(r"row 9\d{5}|\.9\d{5}")
_ROW = re.compile(
    r"rmqQueueRowFullName\[(?P<source>\d+)\]\[(?P<row>\d+)\] = STRING: (?P<host>[^|]*)\|(?P<name>.*)"
)


def _answers(shown: Shown, index: str, name: str) -> Iterator[str]:
    """Yield what is answered to a SET, and to commands with and without an argument, of a row."""
    # The second argument is no truth value, which is known only of a method that is known.
    commands = {
        f'"curious"."{name}{mark}"': value for mark, value in (("", ""), ("-r", "true"), ("-w", "7s"))
    }
    target = f"AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueRowName.{index}"
    attempts = [(f"rmqQueueMaxLength.{index}", "u", "1"), (f"rmqQueueRowName.{index}", "s", "other")]
    for command, value in commands.items():
        given = (f'agCommandArgumentValue.{command}."1"', "s", value) if value else ()
        attempts.append(
            (
                *(f"agCommandTarget.{command}", "o", target),
                *(f"agCommandMethod.{command}", "s", "delete" if value else "purge"),
                *given,
                *(f"agCommandRowStatus.{command}", "i", "createAndWait"),
            )
        )
    read = [f'agCommandArgumentValue.{command}."1"' for command, value in commands.items() if value]
    for words in attempts:
        yield without_names(" ".join(shown.by_name("snmpset", "curious", *words)), name, index)
    yield without_names(" ".join(shown.by_name("snmpget", "curious", *read)), name, index)
    active = (word for command in commands for word in (f"agCommandRowStatus.{command}", "i", "active"))
    shown.by_name("snmpset", "curious", *active)
    columns = [
        f"agCommand{column}.{command}"
        for column in ("State", "Outcome", "Element", "Code", "Text")
        for command in commands
    ]
    ended: list[str] = []

    def have_ended() -> bool:
        ended[:] = shown.by_name("snmpget", "curious", *columns, *read)
        return all("ended(3)" in line for line in ended[: len(commands)])

    wait_until(have_ended, "the commands have ended")
    yield without_names(" ".join(ended), name, index)
    gone = (word for command in commands for word in (f"agCommandRowStatus.{command}", "i", "destroy"))
    shown.by_name("snmpset", "curious", *gone)


def _operations(lines: list[str]) -> dict[bool, set[str]]:
    """Return the rows of operations on hidden rows (``True``) and on absent ones, without numbers."""
    columns: dict[str, list[str]] = {}
    for line in lines:
        column, _, rest = line.partition("[")
        index, _, value = rest.partition("] = ")
        columns.setdefault(index, []).append(f"{column} {value}")
    found: dict[bool, set[str]] = {True: set(), False: set()}
    attempts = (row for row in map(" ".join, columns.values()) if "more attempts within a minute" not in row)
    for row in attempts:
        found[_ABSENT.search(row) is None].add(without_names(row, "is-", "no-"))
    return found
