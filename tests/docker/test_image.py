"""The image, built and run without a container engine.

It takes root and a bare Debian, and minutes, so `make prove` does it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.components.jmx_client import JmxClient
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.waiting import wait_until
from tests.distribution.building import ROOT
from tests.docker.chroot import Container, Image, build, first_process, make_base
from tests.hypothesis_profiles import PROVING

CONFIGURATION = """
version: 1
snmp: {{ listen: ["127.0.0.1:{snmp}"] }}
jmx: {{ enabled: true, listen: "127.0.0.1:{jmx}", heap: 64 }}
metrics: {{ enabled: true, listen: "127.0.0.1:{metrics}" }}
state: {{ folder: /var/lib/amqp-gateway }}
"""

if PROVING and os.geteuid() == 0:

    @pytest.fixture(scope="module")
    def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
        folder = tmp_path_factory.mktemp("image")
        make_base(folder / "base")
        return build(folder / "base", ROOT, folder)

    @pytest.fixture
    def container(image: Image, tmp_path: Path) -> Container:
        user, group = map(int, image.user.split(":"))
        state, settings = tmp_path / "state", tmp_path / "settings"
        state.mkdir(mode=0o700)
        os.chown(state, user, group)
        settings.mkdir()
        return Container(image, state, settings)

    @pytest.mark.timeout(3600)
    async def test_it_runs_in_a_container_that_can_only_change_its_state(
        container: Container, tmp_path: Path
    ) -> None:
        snmp, jmx, metrics = free_udp_port(), free_tcp_port(), free_tcp_port()
        text = CONFIGURATION.format(snmp=snmp, jmx=jmx, metrics=metrics)
        (container.settings / "gateway.yaml").write_text(text)
        assert container.run("amqp-gateway", "version").stdout.startswith("amqp-gateway ")
        assert container.run("touch", "/opt/amqp-gateway/changed").returncode != 0
        assert container.run("sh", "-c", "id --user; id --group").stdout.split() == ["10001", "10001"]
        made = container.run("amqp-gateway", "init")
        assert made.returncode == 0, made.stderr

        with container.running(tmp_path / "log") as process:

            def healthy() -> bool:
                return container.run(*container.image.health_check).returncode == 0

            wait_until(healthy, "the image's health check succeeds")
            async with httpx.AsyncClient(trust_env=False) as scraping:
                reported = (await scraping.get(f"http://127.0.0.1:{metrics}/metrics")).text
            assert 'amqp_gateway_process_up{process="jmx"} 1.0' in reported
            password = (container.state / "secrets" / "jmx-monitor").read_text().strip()
            client = await JmxClient.connect(tmp_path / "jar", f"127.0.0.1:{jmx}", "monitor", password)
            async with client:
                gateway = await client.read("amqp.gateway:type=Gateway")
            assert gateway["FeedConnected"].value is True
            os.kill(first_process(process), signal.SIGTERM)
            assert process.wait(30) == 0, (tmp_path / "log").read_text()
