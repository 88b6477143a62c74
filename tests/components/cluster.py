"""A RabbitMQ cluster on one machine: private nodes that share a port mapper, a cookie and their users."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from gateway.demo import keeper
from gateway.demo.broker import BrokerPorts, BrokerSettings, Credentials, PrivateBroker
from gateway.demo.installation import RELEASES, machine_release
from gateway.demo.node_setup import NodeDescription, free_ports
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until

NET_TICK_SECONDS: Final = 8
"""The Erlang net tick time in seconds, after which a silent node is taken to be down; the default is 60."""

CLUSTER_SETTINGS: Final = replace(TEST_SETTINGS, grace=60.0)
"""The settings of a single node, except that nodes are stopped gracefully."""

_START_ATTEMPTS: Final = 3
_ERLANG: Final = f"-kernel net_ticktime {NET_TICK_SECONDS} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


@dataclass(frozen=True, slots=True)
class _Member(NodeDescription):
    """A node of a cluster; with ``shares`` it uses the port mapper of another node."""

    cookie: str = ""
    shares: bool = False

    def write(self) -> None:
        NodeDescription.write(self)  # without arguments `super` does not know a class with slots
        cookie = self.folder / "home" / ".erlang.cookie"
        cookie.chmod(0o600)
        cookie.write_text(self.cookie)
        cookie.chmod(0o400)
        if self.shares:
            file = self.folder / keeper.PLAN_FILE
            plan = json.loads(file.read_text())
            file.write_text(json.dumps({**plan, "port_mapper": ["sleep", "infinity"]}))

    def environment(self) -> dict[str, str]:
        inherited = NodeDescription.environment(self)
        return {**inherited, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG}


class ClusterNode(PrivateBroker):
    """One node of a `PrivateCluster`."""

    def __init__(self, member: _Member) -> None:
        super().__init__(member.folder, member.settings)
        self._node = member

    def kill(self) -> None:
        """Kill the node, as in a crash."""
        self.kill_node()

    def evaluate(self, expression: str) -> str:
        """Return the result of an Erlang expression on the node."""
        return self.rabbitmqctl("eval", expression).strip()

    def _found_port_taken(self) -> bool:
        return False  # other ports for one node are no way out: the port mapper's is shared

    def json(self, program: str, *arguments: str) -> Any:  # noqa: ANN401  what it prints
        """Return the JSON document that one of RabbitMQ's command line tools prints."""
        return json.loads(self.run_tool(program, *arguments, "--formatter", "json"))


class PrivateCluster:
    """A cluster of several nodes; a context manager.

    Args:
        size: the number of nodes.
        settings: the settings of each node.

    Attributes:
        nodes: the nodes; the first one's port mapper serves all, so its process ends last.
    """

    def __init__(self, size: int = 3, settings: BrokerSettings = CLUSTER_SETTINGS) -> None:
        self._settings = settings
        self._size = size
        self._folder = Path(tempfile.mkdtemp(prefix="amqp-gateway-cluster-"))
        self.nodes: Sequence[ClusterNode] = ()
        self._cut_off: ClusterNode | None = None

    def __enter__(self) -> Self:
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            self.nodes = self._new_nodes()
            try:
                self._start()
            except BaseException:
                taken = any("eaddrinuse" in node.log_tail(lines=sys.maxsize).lower() for node in self.nodes)
                self.close()
                # Between the choice of a port and its use somebody else may have taken it.
                if not taken or not attempts_left:
                    raise
            else:
                break
        return self

    def _start(self) -> None:
        # Since 3.13 nodes wait for each other and agree on the one that forms the cluster. Before, each that
        # finds no other forms one of its own.
        alone = 1 if (self._settings.debian or machine_release()) == RELEASES["3.10"] else 0
        start_together(self.nodes[:alone])
        start_together(self.nodes[alone:])
        self.wait_until_whole()

    def _new_nodes(self) -> Sequence[ClusterNode]:
        run = secrets.token_hex(3)
        names = [f"rabbit-{number}-{run}@localhost" for number in range(1, self._size + 1)]
        formation = [
            "cluster_formation.peer_discovery_backend = classic_config",
            *(
                f"cluster_formation.classic_config.nodes.{number} = {name}"
                for number, name in enumerate(names, 1)
            ),
        ]
        settings = replace(self._settings, configuration=(*self._settings.configuration, *formation))
        count = len(fields(BrokerPorts))
        ports = iter(free_ports(count * self._size))
        chosen = [BrokerPorts(*islice(ports, count)) for _ in names]
        administrator, cookie = Credentials.generate("administrator"), secrets.token_hex(20)
        return [
            ClusterNode(
                _Member(
                    folder=self._folder / name.partition("@")[0],
                    name=name,
                    ports=replace(own, port_mapper=chosen[0].port_mapper),
                    administrator=administrator,
                    settings=settings,
                    remove=True,
                    cookie=cookie,
                    shares=name != names[0],
                )
            )
            for name, own in zip(names, chosen, strict=True)
        ]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all nodes, and remove their files."""
        for node in reversed(self.nodes):
            if node.node_process() is not None:
                node.kill()
            node.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def names(self) -> list[str]:
        """The nodes' Erlang names."""
        return [node.node_name for node in self.nodes]

    @contextmanager
    def partition_handling(self, mode: str) -> Iterator[None]:
        """Set the partition handling mode of all nodes within the block, such as ``pause_minority``."""
        self._handle_partitions(mode)
        try:
            yield
        finally:
            self._handle_partitions("ignore")

    def _handle_partitions(self, mode: str) -> None:
        arguments = f"[rabbit, cluster_partition_handling, {mode}]"
        self.nodes[0].evaluate(f"rpc:multicall([node()|nodes()], application, set_env, {arguments}).")

    def cut_off(self, node: ClusterNode) -> None:
        """Cut the connections between ``node`` and the others, and prevent new ones by wrong cookies.

        The two sides have different ones: two nodes with the same wrong cookie would connect.
        """
        self._cut_off = node
        others = self._others(node)
        node.evaluate(
            f"rpc:multicall({others}, erlang, set_cookie, [node(), wrong]),"
            f" [erlang:set_cookie(Other, wrong_as_well) || Other <- {others}],"
            f" [erlang:disconnect_node(Other) || Other <- {others}]."
        )

    def reconnect(self, node: ClusterNode) -> None:
        """Restore the cookies, so that ``node`` and the others connect again."""
        others = self._others(node)
        reached = next(other for other in self.nodes if other is not node)
        right = f"['{node.node_name}', erlang:get_cookie()]"
        reached.evaluate(f"rpc:multicall({others}, erlang, set_cookie, {right}).")
        node.evaluate(f"[erlang:set_cookie(Other, erlang:get_cookie()) || Other <- {others}].")
        self._cut_off = None

    def _others(self, node: ClusterNode) -> str:
        return "[" + ", ".join(f"'{name}'" for name in self.names if name != node.node_name) + "]"

    def wait_until_whole(self) -> None:
        """Wait until each node reports that all nodes run and that there is no partition."""
        for node in self.nodes:
            wait_until(partial(_sees, node, self.names), f"{node.node_name} sees all nodes")

    def restore(self) -> None:
        """Connect and start all missing nodes, and wait until the cluster is whole, for the next test."""
        if self._cut_off is not None:
            self.reconnect(self._cut_off)
        start_together([node for node in self.nodes if node.node_process() is None])
        self.wait_until_whole()


def start_together(nodes: Iterable[PrivateBroker]) -> None:
    """Start nodes at the same time, and wait until each serves."""
    waiting = list(nodes)
    if not waiting:
        return
    with ThreadPoolExecutor(len(waiting)) as starting:
        for started in [starting.submit(node.start) for node in waiting]:
            started.result()


def _sees(node: ClusterNode, names: list[str]) -> bool:
    with node.http(timeout=10.0) as client:
        answer = client.get("nodes", params={"columns": "name,running,partitions,being_drained"})
    if not answer.is_success:
        return False
    seen = answer.json()
    return sorted(one["name"] for one in seen if one.get("running") and not one.get("partitions")) == names
