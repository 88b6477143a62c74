"""The work of the composition's containers, done here: the same script and configuration, other places."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import amqp_gateway, running
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.waiting import wait_until
from tests.docker.composition import SECRETS, SETTINGS, STATE, settings, setup_script


class Places:
    """The places here of the containers' files and addresses.

    Args:
        folder: an empty one.
        broker: stands for the service ``rabbitmq``.
    """

    def __init__(self, folder: Path, broker: PrivateBroker) -> None:
        self._other = {
            SETTINGS: str(folder / "settings"),
            STATE: str(folder / "state"),
            SECRETS: str(folder / "run"),
            "http://rabbitmq:15672": broker.management_url,
            "amqp://rabbitmq:5672": f"amqp://127.0.0.1:{broker.ports.amqp}",
            "--administrator administrator ": f"--administrator {broker.administrator.name} ",
            "0.0.0.0:1161": f"127.0.0.1:{free_udp_port()}",
            "0.0.0.0:9990": f"127.0.0.1:{free_tcp_port()}",
            "0.0.0.0:9464": f"127.0.0.1:{free_tcp_port()}",
        }
        self.configuration = folder / "settings" / "gateway.yaml"
        for name in ("settings", "run"):
            (folder / name).mkdir()
        (folder / "run" / "rabbitmq-administrator").write_text(broker.administrator.password)
        self.configuration.write_text(self.here(settings()), encoding="utf-8")

    def here(self, text: str) -> str:
        for there, here in self._other.items():
            text = text.replace(there, here)
        return text

    def set_up(self) -> subprocess.CompletedProcess[str]:
        """Run the service ``setup``."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(  # noqa: S603  our own script
            ["sh", "-euc", self.here(setup_script())],  # noqa: S607
            env={**os.environ, "PATH": path, "AMQP_GATEWAY_CONFIG": str(self.configuration)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def places(tmp_path: Path, own_rabbitmq: PrivateBroker) -> Places:
    return Places(tmp_path, own_rabbitmq)


def test_once_set_up_the_gateway_runs_and_is_healthy(places: Places, tmp_path: Path) -> None:
    first = places.set_up()
    assert first.returncode == 0, first.stderr
    identity = (tmp_path / "state" / "identity").read_text()
    again = places.set_up()
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "state" / "identity").read_text() == identity, "done again, it changes nothing"

    with running("run", "--config", places.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()

        def healthy() -> bool:
            return amqp_gateway("health", "--config", places.configuration).code is ExitCode.OK

        wait_until(healthy, "the health check of the image succeeds")
        assert gateway.terminate().code is ExitCode.OK
