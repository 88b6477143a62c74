"""NOTIFICATION-LOG-MIB as net-snmp reads it, by numbers: no package of Debian has its text."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.notifications.encoding import EncodedNotification, NotificationEncoder
from gateway.snmp.notifications.log import LAST_INDEX, NotificationLog
from gateway.snmp.store import Store
from gateway.snmp.tables.notification_log import FILTER_NAME, TYPES, serve_notification_log
from tests.components.net_snmp import printed as printed_by
from tests.components.net_snmp import with_modules
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY, varbind
from tests.snmp.net_snmp import dotted, plain, printed, run
from tests.snmp.notifications.story import GATEWAY, QUEUE_DELETED, ROOT, START, event

MODULE: Oid = (1, 3, 6, 1, 2, 1, 92)
CONFIGURATION, STATISTICS = (*MODULE, 1, 1), (*MODULE, 1, 2)
LOG, VARIABLES = (*MODULE, 1, 3, 1, 1), (*MODULE, 1, 3, 2, 1)
ALL = FILTER_NAME.hex(" ").upper()
COUNT: Oid = (*ROOT, 2, 1, 1, 1000, 1, 0)


def served(events: int, limit: int = 3, first: int = 1) -> tuple[Store, NotificationLog]:
    """Return a store with a log; every second event has an argument of type Gauge32."""
    store, log = Store(), NotificationLog(limit, first)
    encoder = NotificationEncoder(ROOT, (*ROOT, 4, 1, 1), 0)
    serve_notification_log(store, log, ("192.0.2.99", 161))
    for number in range(1, events + 1):
        arguments = {"arguments": (varbind(COUNT, ber.encode_gauge32(number)),), "types": 1 << ber.GAUGE32}
        made = event(number, **arguments if number % 2 == 0 else {})
        log.record(made, EncodedNotification(encoder, made, 100 * number), START)
    return store, log


def everything(store: Store) -> dict[Oid, bytes]:
    found: dict[Oid, bytes] = {}
    here: Oid = (1, 3)
    while (step := store.next(here)) is not None:
        here, found[step[0]] = step
    return found


def whole(lines: list[str]) -> list[str]:
    """Return the lines of net-snmp without the end of all, and octets that it breaks on one line each."""
    joined: list[str] = []
    for line in lines:
        if "No more variables left" in line:
            break
        if line.startswith("."):
            joined.append(line.rstrip())
        else:
            joined[-1] += f" {line.strip()}"
    return joined


async def test_net_snmp_walks_the_log_by_numbers(serve: Serve, tmp_path: Path) -> None:
    store, _ = served(4)
    port = serve(store)
    instances = everything(store)
    lines = whole(await run("snmpwalk", tmp_path, port, [dotted(MODULE)]))
    assert lines == [printed(oid, value) for oid, value in instances.items() if oid[: len(MODULE)] == MODULE]
    bulk = await run("snmpbulkwalk", tmp_path, port, [dotted(MODULE)], options=["-Cr7"])
    assert whole(bulk) == lines

    shown = {oid: plain(value) for oid, value in instances.items()}
    assert [shown[*CONFIGURATION, n, 0] for n in (1, 2)] == ["3", "0"]
    assert [shown[*CONFIGURATION, 3, 1, n, 0] for n in range(2, 8)] == [ALL, "3", "1", "2", "5", "1"]
    assert [shown[*STATISTICS, n, 0] for n in (1, 2)] == ["4", "1"]
    assert [shown[*STATISTICS, 3, 1, n, 0] for n in (1, 2)] == ["4", "1"]
    entry = [shown[*LOG, n, 0, 4] for n in range(2, 10)]
    address = [bytes((192, 0, 2, 99, 0, 161)).hex(" ").upper(), ".1.3.6.1.6.1.1"]
    assert entry[0] == "400"
    assert entry[2:] == ["", *address, "", "", dotted(QUEUE_DELETED)]
    assert shown[*VARIABLES, 8, 0, 4, 1] == f"{GATEWAY}.1.4".encode().hex(" ").upper()
    assert [shown[*VARIABLES, n, 0, 4, 11] for n in (2, 3, 5)] == [dotted(COUNT), "2", "4"]


async def test_net_snmp_walks_over_the_wrap_of_the_index(serve: Serve, tmp_path: Path) -> None:
    store, _ = served(4, first=LAST_INDEX - 1)
    lines = await run("snmpwalk", tmp_path, serve(store), [dotted((*LOG, 2))])
    assert [line.split(" = ")[0] for line in lines] == [
        dotted((*LOG, 2, 0, index)) for index in (1, 2, LAST_INDEX)
    ]


async def test_the_log_has_a_filter_by_which_all_notifications_pass(serve: Serve, tmp_path: Path) -> None:
    modules = with_modules(["SNMP-NOTIFICATION-MIB"])
    access = ["-v2c", "-c", COMMUNITY.decode(), "-t", "20", f"127.0.0.1:{serve(served(1)[0])}"]
    walked = await asyncio.to_thread(printed_by, tmp_path, "snmpwalk", *modules, *access, ".1.3.6.1.6.3.13")
    # Without one, nlmConfigLogOperStatus would have to be noFilter. The mask has any two numbers match.
    assert [line.rstrip() for line in walked.stdout.splitlines() if "No more" not in line] == [
        'SNMP-NOTIFICATION-MIB::snmpNotifyFilterMask."all".1.3 = Hex-STRING: 00',
        'SNMP-NOTIFICATION-MIB::snmpNotifyFilterType."all".1.3 = INTEGER: included(1)',
        'SNMP-NOTIFICATION-MIB::snmpNotifyFilterStorageType."all".1.3 = INTEGER: readOnly(5)',
        'SNMP-NOTIFICATION-MIB::snmpNotifyFilterRowStatus."all".1.3 = INTEGER: active(1)',
    ]


def test_an_empty_log_has_its_limits_and_counts_only() -> None:
    store, _ = served(0)
    assert not [oid for oid in everything(store) if oid[: len(MODULE) + 2] == (*MODULE, 1, 3)]


def test_each_variable_has_one_value_in_the_column_of_its_type() -> None:
    store, log = served(3)
    instances = everything(store)
    columns = dict(TYPES.values())
    for index, _ in log.entries(1):
        for place, (name, value) in enumerate(log.variables(index), start=1):
            row = (0, index, place)
            assert instances[*VARIABLES, 2, *row] == ber.encode_tlv(ber.OBJECT_IDENTIFIER, name)
            column, number = TYPES[value[0]]
            assert instances[*VARIABLES, 3, *row] == ber.encode_integer(number)
            filled = [other for other in columns if (*VARIABLES, other, *row) in instances]
            assert filled == [column]
            assert instances[*VARIABLES, column, *row] == value


SMALL = st.integers(0, 13) | st.integers(LAST_INDEX - 3, LAST_INDEX)


@given(
    events=st.integers(0, 5),
    first=st.sampled_from([1, LAST_INDEX - 1]),
    name=st.sampled_from([LOG, VARIABLES, STATISTICS, (*STATISTICS, 3, 1)]),
    rest=st.lists(SMALL, max_size=5),
)
def test_each_name_has_the_successor_that_the_sorted_instances_have(
    events: int, first: int, name: Oid, rest: list[int]
) -> None:
    store, _ = served(events, first=first)
    instances = everything(store)
    asked = (*name, *rest)
    following = min((oid for oid in instances if oid > asked), default=None)
    assert store.next(asked) == (None if following is None else (following, instances[following]))
    value = instances.get(asked)
    assert (store.get(asked) == value) if value else store.get(asked)[0] in (0x80, 0x81)
    assert list(instances) == sorted(instances)
