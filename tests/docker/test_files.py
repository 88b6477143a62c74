"""The container files agree with each other, and with the gateway."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gateway.config.model import Configuration
from gateway.config.places import ENVIRONMENT_VARIABLE
from gateway.config.sources import RabbitMqSource
from gateway.yaml_documents import parse_document
from tests.distribution.building import ROOT, tracked
from tests.docker.chroot import copy_context
from tests.docker.composition import SECRETS, SETTINGS, STATE, composition, settings, setup_script
from tests.docker.dockerfile import FOLDER, Instruction, instructions, stages

OURS = ("setup", "gateway")


def configuration() -> Configuration:
    return parse_document(settings(), Configuration, FOLDER / "gateway.yaml")


def only(name: str) -> Instruction:
    """The one instruction of this name in the last stage."""
    (found,) = [one for one in stages()[-1] if one.name == name]
    return found


def listened() -> set[str]:
    """Return port and protocol of each address that the configuration listens on."""
    found = configuration()
    snmp = {f"{port}/udp" for _, port in found.snmp.listen}
    return snmp | {f"{found.jmx.listen[1]}/tcp", f"{found.metrics.listen[1]}/tcp"}


@pytest.mark.parametrize(
    "check",
    [
        ["hadolint", "docker/Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker/compose.yaml"],
    ],
    ids=["hadolint", "compose-spec"],
)
def test_the_files_are_lint_free(check: list[str]) -> None:
    command = [str(Path(sys.executable).parent / check[0]), *check[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  our own tools
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_step_is_one_that_is_taken_elsewhere_too() -> None:
    """The steps are of ``make demo`` (the packages, by the same program), ``make install``, or the system."""
    steps = [command for one in instructions() if one.name == "RUN" for command in one.commands]
    ours = [step for step in steps if not re.match(r"(apt-get|rm|groupadd|useradd|install) ", step)]
    assert ours == [
        "python3 -m gateway.demo.install --build",
        "make install PREFIX=/opt/amqp-gateway",
        "/opt/amqp-gateway/bin/python -m gateway.demo.install --run",
    ]


def test_it_runs_as_a_user_without_rights_under_an_init() -> None:
    user, group = only("USER").text.split(":")
    assert min(int(user), int(group)) > 999
    assert only("ENTRYPOINT").words == ["tini", "--", "amqp-gateway"]
    assert only("CMD").words == ["run"]
    assert only("STOPSIGNAL").text == "SIGTERM"
    assert only("HEALTHCHECK").text.partition(" CMD ")[2] == '["amqp-gateway", "health"]'


def test_its_state_is_in_a_volume_and_nothing_secret_in_the_image() -> None:
    assert only("VOLUME").words == [STATE]
    variables = dict(word.split("=", 1) for one in instructions() if one.name == "ENV" for word in one.words)
    assert variables == {
        "PATH": "/opt/amqp-gateway/bin:$PATH",
        ENVIRONMENT_VARIABLE: f"{SETTINGS}/gateway.yaml",
    }
    assert not [one for one in instructions() if one.name in {"ARG", "ADD"}]


def test_the_last_stage_takes_nothing_but_the_installation(tmp_path: Path) -> None:
    copied = [one.text for one in stages()[-1] if one.name == "COPY"]
    assert copied == ["--from=build /opt/amqp-gateway /opt/amqp-gateway"]
    copy_context(ROOT, tmp_path)
    context = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert context <= tracked()
    assert {"Makefile", "pyproject.toml", "requirements.txt", "gateway/py.typed", "LICENSE"} <= context


def test_the_ports_are_the_same_everywhere_and_published_to_this_machine_only() -> None:
    assert set(only("EXPOSE").words) == listened()
    published = composition()["services"]["gateway"]["ports"]
    assert {
        f"{port.split(':')[-1].removesuffix('/udp')}/{'udp' if 'udp' in port else 'tcp'}"
        for port in published
    } == listened()
    for service in composition()["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_do_nothing_that_they_need_not(name: str) -> None:
    service = composition()["services"][name]
    # Compose refuses a service that is read-only and has a secret that does not come from a file.
    secrets = (composition()["secrets"][secret] for secret in service.get("secrets", ()))
    assert service["read_only"] is all("file" in secret for secret in secrets)
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "user"} & service.keys()


@pytest.mark.parametrize("name", OURS)
def test_our_containers_are_of_the_image_that_is_built_here(name: str) -> None:
    service = composition()["services"][name]
    context, dockerfile = service["build"]["context"], service["build"]["dockerfile"]
    assert (FOLDER / context).resolve() == ROOT
    assert (ROOT / dockerfile).is_file()
    assert service["image"] == "amqp-gateway"


def test_who_is_set_up_is_who_reads() -> None:
    (source,) = configuration().sources.values()
    assert isinstance(source, RabbitMqSource)
    script = setup_script()
    (folder,) = re.findall(r"--secrets (\S+)", script)
    assert source.password is not None
    assert source.password.file is not None
    assert f"{SETTINGS}/{source.password.file}" == f"{folder}/{source.user}.password"
    assert all(url in script for url in source.management)
    assert configuration().state.folder == Path(STATE)


def test_what_is_mounted_is_there() -> None:
    for service in composition()["services"].values():
        for volume in service.get("volumes", ()):
            name = volume.split(":")[0]
            assert (FOLDER / name).is_file() if name.startswith(".") else name in composition()["volumes"]
    (password,) = composition()["secrets"]
    assert f"{SECRETS}/{password}" in setup_script()


def test_the_broker_has_the_plugins_that_the_gateway_reads() -> None:
    plugins = (FOLDER / "rabbitmq" / "enabled_plugins").read_text(encoding="ascii")
    assert plugins.strip() == "[rabbitmq_event_exchange,rabbitmq_management]."


def test_prometheus_asks_where_the_metrics_are() -> None:
    settings = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    for job in settings["scrape_configs"]:
        assert job["static_configs"] == [{"targets": [f"gateway:{configuration().metrics.listen[1]}"]}]
    assert {job.get("metrics_path", "/metrics") for job in settings["scrape_configs"]} == {
        "/metrics",
        "/metrics/objects",
    }
    assert configuration().metrics.objects is not None
