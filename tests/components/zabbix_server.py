"""A Zabbix server of Debian 13 with its database and its web interface, operated by its API (JSON-RPC).

Its programs are in the folder that `gateway.demo.installation.ZABBIX` describes. All of them end with this
process, however that ends.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from gateway.demo.installation import NODE_PLACE, ZABBIX, entering, root_of
from gateway.demo.node_setup import free_ports
from tests.components.waiting import wait_until

GROUP: Final = "Applications"
"""The group of the hosts, which every new Zabbix has."""

_ROOT: Final = root_of(ZABBIX.folder)
_SECONDS: Final = 400.0
"""The seconds that filling the database may take; on an idle machine it takes some ten."""

_ITEM: Final = ("itemid", "key_", "name", "lastvalue", "lastclock", "state", "error", "units")
"""The properties of an item that tests look at: all of them take much of PHP's time."""

_SOCKET: Final = f"{NODE_PLACE}/database.sock"
_FRONTEND: Final = """<?php
$DB['TYPE'] = 'MYSQL'; $DB['SERVER'] = 'localhost'; $DB['PORT'] = '0'; $DB['DATABASE'] = 'zabbix';
$DB['USER'] = 'root'; $DB['PASSWORD'] = ''; $DB['SCHEMA'] = ''; $DB['ENCRYPTION'] = false;
$IMAGE_FORMAT_DEFAULT = IMAGE_FORMAT_PNG;
"""
_NONE: Final = ("Pingers", "Discoverers", "HTTPPollers", "HTTPAgentPollers", "AgentPollers", "ODBCPollers")
_ONE: Final = ("Pollers", "SNMPPollers", "Trappers", "Preprocessors", "LLDProcessors", "DBSyncers")
_SERVER: Final = f"""
LogType=console
AllowRoot=1
PidFile={NODE_PLACE}/server.pid
SocketDir={NODE_PLACE}
DBSocket={_SOCKET}
DBName=zabbix
DBUser=root
ListenIP=127.0.0.1
CacheUpdateFrequency=1
StartSNMPTrapper=1
SNMPTrapperFile={NODE_PLACE}/trapd.log
Timeout=10
UnreachablePeriod=15
UnreachableDelay=5
UnavailableDelay=5
"""
_UNSAFE_AND_QUICK: Final = (
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-innodb-doublewrite",
    "--innodb-log-file-size=64M",
)
"""The database is thrown away, so it need not survive anything."""

_OF_TEMPLATES: Final = frozenset(
    {
        *("items", "item_condition", "item_discovery", "item_parameter", "item_preproc", "item_rtname"),
        *("item_tag", "functions", "triggers", "trigger_depends", "trigger_tag", "hostmacro", "valuemap"),
        *("valuemap_mapping", "graphs", "graphs_items", "widget", "widget_field"),
        *("lld_macro_path", "lld_override", "lld_override_condition", "lld_override_operation"),
    }
)
"""Tables of what is in templates.

Those that Zabbix itself has are not used, and are 19 of 20 rows of a new database.
"""


class ZabbixError(Exception):
    """Zabbix refuses a request; the text is its own."""


class ZabbixServer:
    """A running Zabbix, by its API.

    Args:
        url: the address of the API.
        folder: what the server can read.

    Attributes:
        log: the log of the server.
        traps: the file of its trap receiver.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._client = httpx.Client(trust_env=False, timeout=120)
        self._url = url
        self._token = ""
        self.log = folder / "server.log"
        self.traps = folder / "trapd.log"

    def __call__(self, method: str, parameters: Sequence[str] | None = None, **named: object) -> Any:  # noqa: ANN401
        """Return the result of a method of the API.

        Raises:
            ZabbixError: it is refused.
        """
        request = {
            "jsonrpc": "2.0",
            "method": method,
            "params": named if parameters is None else parameters,
            "id": 1,
        }
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        answer = self._client.post(self._url, json=request, headers=headers).raise_for_status().json()
        if "error" in answer:
            raise ZabbixError(f"{method}: {answer['error']['data']}")
        return answer["result"]

    def log_in(self) -> None:
        """Log in as the first user of a new Zabbix."""
        self._token = self("user.login", username="Admin", password="zabbix")

    def import_template(self, text: str) -> str:
        """Import a template as the web interface does, with what is missing in it removed; return its id."""
        everything = {"createMissing": True, "updateExisting": True}
        pruned = {**everything, "deleteMissing": True}
        rules = {
            "template_groups": everything,
            "templates": everything,
            **dict.fromkeys(("items", "discoveryRules", "triggers", "valueMaps"), pruned),
        }
        assert self("configuration.import", format="yaml", source=text, rules=rules) is True
        (template,) = self("template.get", filter={"host": ["AMQP gateway by SNMP"]})
        return str(template["templateid"])

    def add_host(
        self,
        name: str,
        template: str,
        port: int,
        access: Mapping[str, object],
        address: str = "127.0.0.1",
        **macros: str,
    ) -> None:
        """Add a host with an SNMP interface at ``port`` of a loopback address.

        Args:
            name: the name of the host.
            template: the id of its template.
            port: the port of the SNMP agent.
            access: the details of the interface: version, community or user.
            address: the address, which the host has alone if it is to have traps of its own.
            macros: values of the template's macros, by their names without ``$AMQP``.
        """
        (group,) = self("hostgroup.get", filter={"name": [GROUP]})
        interface = {"type": 2, "main": 1, "useip": 1, "ip": address, "dns": "", "port": str(port)}
        self(
            "host.create",
            host=name,
            groups=[{"groupid": group["groupid"]}],
            templates=[{"templateid": template}],
            interfaces=[{**interface, "details": access}],
            macros=[{"macro": f"{{$AMQP.{macro}}}", "value": value} for macro, value in macros.items()],
        )

    def items(self, host: str) -> dict[str, dict[str, Any]]:
        """Return the items of a host, by key; of each the last value and its time, state, error and unit."""
        found = self("item.get", host=host, output=_ITEM, selectValueMap=["name"], webitems=True)
        return {item["key_"]: item for item in found}

    def rules(self, host: str) -> dict[str, dict[str, Any]]:
        """Return the discovery rules of a host, by key."""
        (found,) = self("host.get", filter={"host": [host]})
        rules = self("discoveryrule.get", hostids=found["hostid"], output=["key_", "state", "error"])
        return {rule["key_"]: rule for rule in rules}

    def tagged(self, host: str) -> dict[str, tuple[int, dict[str, str]]]:
        """Return severity and tags of the problems of a host that are not resolved, by their names."""
        (found,) = self("host.get", filter={"host": [host]})
        problems = self("problem.get", hostids=found["hostid"], selectTags=["tag", "value"])
        return {
            problem["name"]: (int(problem["severity"]), {tag["tag"]: tag["value"] for tag in problem["tags"]})
            for problem in problems
        }

    def problems(self, host: str) -> set[str]:
        """Return the names of the triggers of a host that have fired and are not resolved."""
        return set(self.tagged(host))

    def history(self, item: Mapping[str, Any]) -> list[tuple[float, float]]:
        """Return the values of an item of numbers with fractions, each after its time."""
        values = self("history.get", history=0, itemids=item["itemid"], sortfield="clock")
        return [(int(each["clock"]) + int(each["ns"]) / 1e9, float(each["value"])) for each in values]


@contextmanager
def zabbix_server(folder: Path) -> Iterator[ZabbixServer]:
    """Run a new Zabbix in ``folder``; provide it once its API answers and its server polls.

    The database, which has the secrets of its hosts, is removed at the end.
    """
    assert _ROOT.is_dir(), f"Zabbix is not at {_ROOT}; as root: python3 -m gateway.demo.install --tests"
    (folder / "zabbix.conf.php").write_text(_FRONTEND)
    workers = {**dict.fromkeys(_NONE, 0), **dict.fromkeys(_ONE, 1)}
    starts = "".join(f"Start{name}={number}\n" for name, number in workers.items())
    listening, port = free_ports(2)  # Zabbix takes no port above 32767
    (folder / "server.conf").write_text(f"{_SERVER}ListenPort={listening}\n{starts}")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder / "database", ignore_errors=True)
        _start_database(stack, folder)
        command = ("zabbix_server", "--foreground", "--config", f"{NODE_PLACE}/server.conf")
        server = stack.enter_context(_running(folder, "server", *command))
        settings = {"mysqli.default_socket": _SOCKET, "post_max_size": "64M", "max_execution_time": "300"}
        options = [f"-d{name}={value}" for name, value in settings.items()]
        place = ("-S", f"127.0.0.1:{port}", "-t", "/usr/share/zabbix")
        stack.enter_context(_running(folder, "php", "php", *options, *place))
        zabbix = ZabbixServer(f"http://127.0.0.1:{port}/api_jsonrpc.php", folder)

        def serves() -> bool:
            assert server.poll() is None, zabbix.log.read_text(encoding="utf-8")
            with contextlib.suppress(httpx.TransportError):
                return bool(zabbix("apiinfo.version")) and "snmp poller" in zabbix.log.read_text("utf-8")
            return False

        wait_until(serves, "Zabbix serves")
        zabbix.log_in()
        yield zabbix


def _start_database(stack: ExitStack, folder: Path) -> None:
    options = ("--no-defaults", "--user=root", f"--datadir={NODE_PLACE}/database")
    create = ("mariadb-install-db", *options, "--skip-test-db", "--skip-name-resolve")
    with _running(folder, "installation", *create) as installation:
        assert installation.wait(_SECONDS) == 0, (folder / "installation.log").read_text(encoding="utf-8")
    only_here = ("--skip-networking", "--skip-grant-tables", f"--socket={_SOCKET}")
    command = ("mariadbd", *options, *only_here, *_UNSAFE_AND_QUICK)
    stack.enter_context(_running(folder, "database", *command))
    wait_until((folder / "database.sock").is_socket, "the database listens")
    schema = _ROOT / "usr/share/zabbix-server-mysql"
    tables, rows = (gzip.decompress((schema / f"{name}.sql.gz").read_bytes()) for name in ("schema", "data"))
    _query(folder, b"create database zabbix character set utf8mb4 collate utf8mb4_bin; use zabbix;" + tables)
    rows = _without_templates(rows) + b"delete from changelog; commit;"
    _query(folder, b"use zabbix; set autocommit=0, foreign_key_checks=0;" + rows)


def _without_templates(rows: bytes) -> bytes:
    """Return the statements that fill a new database, without those for `_OF_TEMPLATES`."""
    insert = b"\nINSERT INTO `"
    first, *others = rows.split(insert)
    return insert.join(
        [first, *(one for one in others if one.partition(b"`")[0].decode() not in _OF_TEMPLATES)]
    )


def _query(folder: Path, text: bytes) -> None:
    command = [*entering(_ROOT, folder), "mariadb", "--no-defaults", f"--socket={_SOCKET}"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=_SECONDS)  # noqa: S603
    assert done.returncode == 0, done.stderr.decode()


@contextmanager
def _running(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of the folder with its children in a namespace of processes, which end together."""
    together = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child")
    words = [*together, *entering(_ROOT, folder), *command]
    with (
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,  # noqa: S603
    ):
        try:
            yield process
        finally:
            process.kill()
