"""What a core takes of a changed configuration, and when it refuses it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.config.files import load_configuration
from gateway.feed.operations import OperationAnswer, ReloadRequest
from gateway.model.operations import Outcome, Principal
from gateway.policy.rules import RoleSet
from gateway.service.processes import configuration_reload
from gateway.service.processes.configuration_reload import ConfigurationReload
from gateway.service.state.running_configuration import note_running, running_configuration
from gateway.service.state.snmp_security import USERS
from gateway.state_folder import RUNNING_FILES
from tests.components.command_line import Site, new_site

FORMER = "version: 1\nclasses: {'rabbitmq:queue': {label: Queue}}\n"
PRESENT = "version: 1\nclasses: {'rabbitmq:queue': {label: Row}}\n"
POLICY = {"principals": {"*": ["monitoring"]}}


class Core:
    """The part of a core that follows, which notes what it is given."""

    def __init__(self) -> None:
        self.policies: list[tuple[str, list[str]]] = []
        self.mappings: list[tuple[str, list[str]]] = []
        self.secrets: list[str] = []
        self.fault = ""

    def change_policy(self, roles: RoleSet, receivers: Collection[str], by: str, changes: list[str]) -> None:
        self.receivers = receivers
        assert roles.rules_of("jmx:monitor")
        self.policies.append((by, changes))
        if self.fault == "change_policy":
            raise OSError(self.fault)

    async def read_secrets_again(self) -> list[str]:
        if self.fault == "read_secrets_again":
            raise OverflowError(self.fault)
        return self.secrets

    def record_mappings(self, by: str, changes: list[str]) -> None:
        self.mappings.append((by, changes))


class Scene:
    """A core that runs with an override file, and its reload."""

    def __init__(self, folder: Path) -> None:
        self.site: Site = new_site(folder)
        self.file = folder / "overrides.yaml"
        self.file.write_text(FORMER, encoding="utf-8")
        self.site.configure(overrides=["overrides.yaml"])
        loaded = load_configuration(self.site.configuration)
        note_running(loaded)
        self.core = Core()
        self.reload = ConfigurationReload(running_configuration(loaded), self.core)

    @property
    def copies(self) -> bytes:
        return (self.site.state.path / RUNNING_FILES).read_bytes()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_nothing_has_changed(scene: Scene) -> None:
    before = scene.copies
    assert await scene.reload.reload("anna") == (Outcome.APPLIED, "the gateway runs with this configuration")
    assert (scene.copies, scene.reload.has_other_mappings) == (before, False)


async def test_replaced_secrets_are_named(scene: Scene) -> None:
    scene.core.secrets = ["secrets/orders", "$FIELD"]
    text = "secrets were replaced: secrets/orders, $FIELD"
    assert await scene.reload.reload("anna") == (Outcome.APPLIED, text)


async def test_other_mappings_are_copied_and_recorded_and_the_core_has_to_end(scene: Scene) -> None:
    scene.file.write_text(PRESENT, encoding="utf-8")
    outcome, text = await scene.reload.reload("anna")
    assert (outcome, text) == (Outcome.APPLIED, "1 changes of mappings and overrides: the core starts again")
    line = f"{scene.file}: classes.rabbitmq:queue.label was changed"
    assert scene.core.mappings == [("anna", [line])]
    assert scene.core.policies == []
    await asyncio.wait_for(scene.reload.until_other_mappings(), 10)
    assert b"label: Row" in scene.copies
    scene.file.write_text(FORMER, encoding="utf-8")
    assert (await scene.reload.reload("bert"))[0] is Outcome.APPLIED
    assert scene.core.mappings[1] == ("bert", [line]), "compared with what was taken last"
    assert b"label: Queue" in scene.copies


async def test_a_policy_alone_keeps_the_core(scene: Scene) -> None:
    scene.site.configure(overrides=["overrides.yaml"], policy=POLICY)
    assert (await scene.reload.reload("anna"))[0] is Outcome.APPLIED
    assert len(scene.core.policies) == 1
    assert not scene.reload.has_other_mappings
    assert not scene.core.mappings


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (
            "version: 1\nclasses:\n  rabbitmq:queu: {label: Row}\n",
            ":3: classes.rabbitmq:queu: matches no class",
        ),
        ("version: 1\nsecrets: ['(']\n", ":2: secrets.0: "),
        ("version: 1\nclasses: [\n", ":3: is not YAML"),
        ("", ":1: version: is required"),
    ],
)
async def test_a_wrong_file_is_refused_whole(scene: Scene, wrong: str, complaint: str) -> None:
    """Also the policy, which is right."""
    before = scene.copies
    scene.file.write_text(wrong, encoding="utf-8")
    scene.site.configure(overrides=["overrides.yaml"], policy=POLICY)
    outcome, text = await scene.reload.reload("anna")
    assert outcome is Outcome.REFUSED
    assert text.startswith(f"nothing was changed: {scene.file}{complaint}")
    assert scene.copies == before
    assert not scene.reload.has_other_mappings
    assert not scene.core.policies
    assert not scene.core.mappings


async def test_a_file_that_is_gone_is_refused(scene: Scene) -> None:
    scene.file.unlink()
    outcome, text = await scene.reload.reload("anna")
    assert (outcome, text) == (
        Outcome.REFUSED,
        f"nothing was changed: {scene.file}:1: cannot be read: No such file or directory",
    )


async def test_clients_that_snmp_could_not_take_are_refused(scene: Scene) -> None:
    before = scene.copies
    scene.site.state.secret_path(USERS).write_text("{", encoding="utf-8")
    snmp = {"notifications": {"noc": {"address": "127.0.0.1:9"}}}
    scene.site.configure(overrides=["overrides.yaml"], snmp=snmp, policy=POLICY)
    outcome, text = await scene.reload.reload("anna")
    assert outcome is Outcome.REFUSED
    assert text.startswith("nothing was changed: ")
    assert USERS in text
    assert (scene.copies, scene.core.policies) == (before, [])


async def test_copies_that_cannot_be_written_change_nothing(scene: Scene) -> None:
    (scene.site.state.path / RUNNING_FILES).unlink()
    (scene.site.state.path / RUNNING_FILES / "taken").mkdir(parents=True)
    scene.file.write_text(PRESENT, encoding="utf-8")
    assert (await scene.reload.reload("anna"))[0] is Outcome.REFUSED
    assert not scene.reload.has_other_mappings
    assert not scene.core.mappings


async def test_requests_that_were_taken_are_answered_before_the_core_ends(scene: Scene) -> None:
    scene.file.write_text(PRESENT, encoding="utf-8")
    answers: list[OperationAnswer] = []
    for number in (1, 2):
        scene.reload.requested(ReloadRequest(number, Principal("cli", "anna")), answers.append)
    scene.reload.announced("SIGHUP")
    await scene.reload.finish()
    assert [(each.request, each.outcome) for each in answers] == [(1, Outcome.APPLIED), (2, Outcome.APPLIED)]
    assert "the core starts again" in answers[0].text
    assert answers[1].text == "the gateway runs with this configuration"
    assert len(scene.core.mappings) == 1


async def requested(scene: Scene) -> tuple[Outcome, str]:
    """Return the answer to the request of a front end; the log has what is said to be in it."""
    answers: list[OperationAnswer] = []
    with capture_logs() as logged:
        scene.reload.requested(ReloadRequest(1, Principal("cli", "anna")), answers.append)
        await scene.reload.finish()
    (answer,) = answers
    assert ("see its log" in answer.text) is ("reload-failed" in [entry["event"] for entry in logged])
    return answer.outcome, answer.text


@pytest.mark.parametrize(
    ("fault", "error", "applied"),
    [
        ("change_policy", "OSError", ""),
        ("read_secrets_again", "OverflowError", "the policy was applied: 10 rules of principals changed; "),
    ],
)
async def test_an_error_of_the_gateway_is_answered_with_what_was_applied_before_it(
    scene: Scene, fault: str, error: str, applied: str
) -> None:
    scene.core.fault = fault
    scene.site.configure(overrides=["overrides.yaml"], policy=POLICY)
    said = f"{applied}an internal error of the gateway ({error}, see its log)"
    text = f"{said}: whether all else was applied is not known; reload again"
    assert await requested(scene) == (Outcome.UNKNOWN, text)
    scene.core.fault = ""
    outcome, text = await requested(scene)
    assert outcome is Outcome.APPLIED
    assert text.startswith("the policy was applied" if not applied else "the gateway runs with this")


async def test_an_error_of_the_gateway_before_anything_was_applied_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scene.copies
    scene.site.configure(overrides=["overrides.yaml"], policy=POLICY)
    monkeypatch.setattr(configuration_reload, "changes", lambda *_: 1 // 0)
    text = "nothing was changed: an internal error of the gateway (ZeroDivisionError, see its log)"
    assert await requested(scene) == (Outcome.REFUSED, text)
    assert (scene.copies, scene.core.policies) == (before, [])


@given(content=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
async def test_any_bytes_are_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    scene = Scene(tmp_path_factory.mktemp("any"))
    scene.file.write_bytes(content)
    outcome, _ = await scene.reload.reload("anna")
    assert outcome in {Outcome.APPLIED, Outcome.REFUSED}
    assert scene.reload.has_other_mappings is (outcome is Outcome.APPLIED)
