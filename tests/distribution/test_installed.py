"""A wheel installed alone, in an empty environment outside the checkout, is a whole gateway."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.jmx_client import JmxClient
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.distribution.building import ROOT, built
from tests.distribution.environments import Environment, clean_environment
from tests.eventlog.logs import some_segments
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("distribution")

HOW = ["wheel", "wheel with pip", "sdist with pip"] if PROVING else ["wheel"]
"""The ways of installing.

With pip, all requirements come from the registry, and a source distribution is built on its own.
"""
HELP_OF_EACH = """
import sys
from gateway.cli.main import main
for name in sys.argv[1:]:
    try:
        main([name, "--help"])
    except SystemExit as end:
        if end.code:
            raise
"""
"""A program that imports the modules of each command; a process for each would take half a minute."""


@pytest.fixture(scope="module", params=HOW)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    kind, _, resolved = request.param.partition(" with ")
    package = built(kind, tmp_path_factory.mktemp("dist"))
    environment = Environment(tmp_path_factory.mktemp("alone") / "environment")
    if resolved:
        environment.install(package)
    else:
        environment.borrow(package)
        # What is imported is compiled then, which is not all.
        environment.install("--no-deps", "--no-index", "--no-compile", package)
    return environment


@pytest.fixture(scope="module")
def site(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = new_site(tmp_path_factory.mktemp("site"), state=False)
    listen = f"127.0.0.1:{free_tcp_port()}"
    made.configure(
        jmx={"enabled": True, "listen": f"127.0.0.1:{free_tcp_port()}", "heap": 64},
        metrics={"enabled": True, "listen": listen},
    )
    code, said = command(installed, made, "init")
    assert code is ExitCode.OK, said
    return made


def command(installed: Environment, site: Site, *words: str) -> tuple[ExitCode, str]:
    """Run one of its commands in a folder far from the checkout; return its exit code and output."""
    done = subprocess.run(  # noqa: S603  our own command
        [installed.program, *words],
        cwd=site.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ExitCode(done.returncode), done.stdout + done.stderr


@pytest.fixture(scope="module")
def gateway(installed: Environment, site: Site) -> Iterator[RunningCommand]:
    program = ("env", "--chdir", site.folder, "--unset", "PYTHONPATH", installed.program)
    with running("run", log=site.folder / "log", program=program) as started:
        started.ready()
        yield started
        assert started.terminate().code is ExitCode.OK


def test_it_is_the_installed_one_that_runs(installed: Environment, site: Site) -> None:
    reported = subprocess.run(  # noqa: S603  our own Python
        [installed.python, "-c", "import gateway; print(gateway.__file__)"],
        cwd=site.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(reported.stdout.strip()).is_relative_to(installed.folder)
    assert not Path(reported.stdout.strip()).is_relative_to(ROOT)


def test_it_says_its_version_and_checks_a_configuration(installed: Environment, site: Site) -> None:
    code, said = command(installed, site, "version")
    assert (code, said.split(",")[0]) == (ExitCode.OK, "amqp-gateway 0.1.0")
    code, said = command(installed, site, "check")
    assert code is ExitCode.OK, said


def test_every_command_is_there(installed: Environment, site: Site) -> None:
    code, listed = command(installed, site, "--help")
    assert code is ExitCode.OK
    reported = listed.partition("Show this message and exit.\n")[2]
    names = [line.split()[0] for line in reported.splitlines() if line.startswith("  ")]
    assert {"run", "check", "health", "provision", "init", "state", "mib", "version"} <= set(names)
    done = subprocess.run(  # noqa: S603  our own commands
        [installed.python, "-c", HELP_OF_EACH, *names],
        cwd=site.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Usage: ") == len(names)


def test_it_answers_by_snmp_with_the_modules_that_it_brought(
    installed: Environment, site: Site, gateway: RunningCommand
) -> None:
    code, mibs = command(installed, site, "mib", "path")
    assert code is ExitCode.OK
    ours = mibs.strip().split(":")[-1]
    assert Path(ours).is_relative_to(installed.folder)
    access = ["-v2c", "-c", site.state.secret("community"), "-M", mibs.strip(), "-m", "ALL", "-OQs"]
    walked = subprocess.run(  # noqa: S603  net-snmp's
        ["snmpwalk", *access, f"127.0.0.1:{site.snmp_port}", "AMQP-GATEWAY-MIB::agHealth"],  # noqa: S607
        env={**clean_environment(), "SNMP_PERSISTENT_DIR": str(site.folder / "snmp")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "agVersion.0 = 0.1.0" in walked.stdout
    assert gateway.process.poll() is None


async def test_it_answers_by_jmx_with_the_classes_that_it_brought(
    site: Site, gateway: RunningCommand, tmp_path: Path
) -> None:
    port = next(record["port"] for record in gateway.log if record["event"] == "jmx-ready")
    address, password = f"127.0.0.1:{port}", site.state.secret("jmx-monitor")
    async with await JmxClient.connect(tmp_path / "client.jar", address, "monitor", password) as client:
        attributes = await client.read("amqp.gateway:type=Gateway")
    assert (attributes["Version"].value, attributes["FeedConnected"].value) == ("0.1.0", True)


def test_it_is_healthy_and_measured(installed: Environment, site: Site, gateway: RunningCommand) -> None:
    code, said = command(installed, site, "health")
    assert code is ExitCode.OK, said
    url = next(record["url"] for record in gateway.log if record["event"] == "metrics-ready")

    def all_up() -> bool:
        text = served_page(url).text
        return all(
            f'amqp_gateway_process_up{{process="{name}"}} 1.0' in text for name in ("core", "snmp", "jmx")
        )

    wait_until(all_up, "all processes answer")


def test_it_makes_parquet_of_the_log_and_asks_it(installed: Environment, site: Site, tmp_path: Path) -> None:
    some_segments(tmp_path, 1, records=25)
    code, said = command(installed, site, "log", "compact", "--folder", str(tmp_path))
    assert code is ExitCode.OK, said
    forms = [("SELECT seq, ingest_ts FROM log",), *([("--class", "queue")] if PROVING else [])]
    for question in forms:
        code, said = command(installed, site, "log", "query", *question, "--json", "--folder", str(tmp_path))
        assert code is ExitCode.OK, said
        assert [json.loads(line)["seq"] for line in said.splitlines()] == list(range(1, 26))


if PROVING:

    def test_the_extra_for_spark_can_be_resolved(tmp_path: Path) -> None:
        wheel = built("wheel", tmp_path / "dist")
        reported = Environment(tmp_path / "environment").install("--dry-run", f"{wheel}[spark]")
        assert "pyspark-" in reported.splitlines()[-1]
