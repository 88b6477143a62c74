"""Files of other users: what is trusted, and whose the files are that root makes beside a service's user."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.file_owners import as_owner, opened, user_name
from gateway.inventory.instance_file import InstanceIndexError, summary
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.machine import file_findings
from gateway.service.processes.exit_codes import ExitCode
from gateway.state_folder import StateError, StateFolder
from tests.components.command_line import COMMAND, Site, amqp_gateway, environment, new_site
from tests.components.every_command import FEWER, commands

OTHER = 65534
"""The number of another user."""

for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")

COMMANDS = (("check",), ("doctor",), ("health",), ("run",), ("tree",), ("state", "show"), ("snmp", "engine"))

REACHING = (
    ("source", "test", "orders"),
    ("source", "capture", "orders"),
    ("source", "schema", "orders"),
    ("schema", "export", "--source", "orders"),
    ("show", "orders"),
)
"""Commands that reach a source with the passwords of a configuration."""

WRITING_A_LOG = (("log", "compact"), ("log", "adopt"))
LOG = '{"version": 2, "log_id": "x", "next_seq": 1}'
"""What the file ``LOG`` of an empty event log has."""

WITHOUT_FILES = frozenset({"demo", "provision", "provision-cml", "quickstart", "manual", "version"})
"""Commands that make a configuration, or need none."""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can enter, as those of a test cannot be."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def refused(site: Site, *command: str) -> str:
    """Return the error of a command that must end for the owner of a file."""
    ended = amqp_gateway(*command, "--config", site.configuration)
    assert ended.code in {ExitCode.CONFIGURATION, ExitCode.STATE}, ended
    return "\n".join(ended.reported)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_configuration_that_everybody_can_write_is_refused(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    site = new_site(tmp_path)
    site.configuration.chmod(0o666)
    assert (
        f"can be written by everybody: look at what is in it, then chmod o-w {site.configuration}"
        in refused(site, *command)
    )


@pytest.mark.prove
def test_every_command_refuses_a_configuration_that_everybody_can_write(tmp_path: Path) -> None:
    site, refusing, others = new_site(tmp_path), 0, []
    (tmp_path / "x").write_text("{}")  # the word for each required argument
    site.configuration.chmod(0o666)
    for command in (*commands(), ["run"], ["agent", "x"]):
        if command[-1] == "--help" or command[0] in WITHOUT_FILES:
            continue
        ended = amqp_gateway(*command, folder=tmp_path)
        if "chmod o-w gateway.yaml" in ended.errors:
            refusing += 1
        elif ended.code is not ExitCode.USAGE:
            others.append(" ".join(command))
    # These ask no configuration: of modules and bodies, hashes, and saved schemas, which are no such here.
    others.remove(" ".join(("mib lint", *FEWER["mib lint"])))
    assert others == ["schema diff x x", "mib gen"]
    assert refusing > 40


@for_root
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_configuration_of_another_user_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    site = new_site(tmp_path)
    os.chown(site.configuration, OTHER, OTHER)
    assert f"then chown -h root {site.configuration}" in refused(site, *command)


@for_root
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configuration.rename(tmp_path / "elsewhere.yaml")
    site.configuration.symlink_to("elsewhere.yaml")
    assert amqp_gateway("check", folder=tmp_path).code is ExitCode.OK
    os.chown(site.configuration, OTHER, OTHER, follow_symlinks=False)
    assert amqp_gateway("check", folder=tmp_path).code is ExitCode.CONFIGURATION


@for_root
def test_an_owner_can_be_trusted(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    os.chown(site.configuration, OTHER, OTHER)
    for name in (user_name(OTHER), str(OTHER)):
        trusting = amqp_gateway("--trust-owner", name, "check", "--config", site.configuration)
        assert trusting.code is ExitCode.OK
        by_variable = amqp_gateway("check", "--config", site.configuration, AMQP_GATEWAY_TRUST_OWNER=name)
        assert by_variable.code is ExitCode.OK
    unknown = amqp_gateway("--trust-owner", "nobody at all", "check")
    assert (unknown.code, "no user 'nobody at all'" in unknown.errors) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("name", ["overrides", "policy", "mapping", "secrets", "secret"])
def test_what_a_configuration_names_is_refused_where_everybody_can_write_it(
    tmp_path: Path, name: str
) -> None:
    site = new_site(tmp_path)
    (tmp_path / "secrets").mkdir()
    for file in ("overrides", "policy", "mapping", "secrets/secret"):
        (tmp_path / file).write_text("version: 1\n")
    site.configure(
        snmp={"listen": ["127.0.0.1:1161"], "community": {"file": "secrets/secret"}},
        overrides=["overrides"],
        policy={"files": ["policy"], "principals": {"*": ["everything"]}},
        mappings=["mapping"] if name == "mapping" else [],
    )
    if name != "mapping":
        assert amqp_gateway("check", "--config", site.configuration).code is ExitCode.OK
    place = tmp_path / "secrets" / name if name == "secret" else tmp_path / name
    place.chmod(0o777)
    assert f"chmod o-w {place}" in refused(site, "check")


@pytest.mark.parametrize("name", ["", "secrets", "running.yaml"])
def test_a_state_that_everybody_can_write_is_refused(tmp_path: Path, name: str) -> None:
    site = new_site(tmp_path)
    (site.state.path / "running.yaml").touch(mode=0o600)
    place = site.state.path / name
    place.chmod(0o777)
    for command in (("check",), ("run",), ("state", "show"), ("snmp", "engine"), ("template", "snmptt")):
        assert f"chmod o-w {place}" in refused(site, *command)


@for_root
def test_a_state_that_another_user_made_is_refused(shared: Path) -> None:
    """The user here is that of a service, and the folder that of a third one, also of files in its own."""
    site, mine = new_site(shared), shared / "mine"
    mine.mkdir()
    os.chown(mine, OTHER - 1, OTHER - 1)
    os.chown(site.state.path, OTHER, OTHER)
    with as_owner(mine), pytest.raises(StateError, match=f"belongs to the user {user_name(OTHER)}, neither"):
        StateFolder(shared / "state")
    os.chown(shared / "state" / "secrets" / "community", OTHER, OTHER)
    os.chown(shared / "state", 0, 0)
    (shared / "state").chmod(0o755)
    (shared / "state" / "secrets").chmod(0o755)
    with as_owner(mine), pytest.raises(StateError, match="secrets/community: belongs to the user"):
        StateFolder(shared / "state")


def test_a_pipe_is_no_configuration_and_no_secret(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    ended = amqp_gateway("check", "--config", tmp_path / "pipe")
    assert (ended.code, "is no regular file" in ended.errors) == (ExitCode.CONFIGURATION, True)
    site.configure(snmp={"listen": ["127.0.0.1:1161"], "community": {"file": "pipe"}})
    ended = amqp_gateway("check", "--config", site.configuration)
    assert (ended.code, "is no regular file" in ended.errors) == (ExitCode.CONFIGURATION, True)
    with pytest.raises(IsADirectoryError), opened(tmp_path):
        pass


def given_away(shared: Path) -> Site:
    """Return a site whose state is another user's."""
    site = new_site(shared)
    for path in (site.state.path, *site.state.path.rglob("*")):
        os.chown(path, OTHER, OTHER)
    return site


@for_root
def test_what_root_writes_into_the_state_of_another_user_is_that_users(shared: Path) -> None:
    site = given_away(shared)
    (site.state.path / "secrets" / "community").unlink()
    added = subprocess.run(  # noqa: S603  our own command
        [*COMMAND, "snmp", "user", "add", "noc", "--config", str(site.configuration)],
        env=environment(),
        input="passphrase of noc\nanother of noc\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert added.returncode == ExitCode.OK, added.stderr
    (site.state.path / "log").mkdir()
    (site.state.path / "log" / "LOG").write_text(LOG)
    for path in (site.state.path / "log").rglob("*"):
        os.chown(path, OTHER, OTHER)
    os.chown(site.state.path / "log", OTHER, OTHER)
    rooted = ("mib", "gen", "--root", "1.3.6.1.4.1.99999.1")
    for command in (("state", "show"), ("log", "compact"), ("snmp", "user", "list"), rooted):
        assert amqp_gateway(*command, "--config", site.configuration).code is ExitCode.OK
    hashed = subprocess.run(  # noqa: S603  our own command
        [*COMMAND, "jmx", "password", "--output", str(site.state.path / "secrets" / "jmx-noc")],
        env=environment(),
        input="a password of noc\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert hashed.returncode == ExitCode.OK, hashed.stderr
    StateFolder(site.state.path).secret("community")
    with as_owner(shared):
        assert os.geteuid() == 0
    found = {path.relative_to(shared).as_posix(): path.stat().st_uid for path in site.state.path.rglob("*")}
    assert {
        "state/secrets/snmp-users.json",
        "state/snmp-engine.json",
        "state/secrets/community",
        "state/secrets/jmx-noc",
        "state/mibs",
        "state/mibs/AMQP-GATEWAY-MIB.mib",
    } <= found.keys()
    assert {name for name, owner in found.items() if owner != OTHER} == set()


@for_root
def test_keys_that_root_hands_into_a_folder_are_its_owners(shared: Path) -> None:
    made, folder = shared / "made", shared / "keys"
    folder.mkdir(mode=0o700)
    os.chown(folder, OTHER, OTHER)
    assert amqp_gateway("keys", "gen", "office", "--folder", made).code is ExitCode.OK
    output = folder / "office.private.jwks"
    export = ("keys", "export", "office", "--folder", made, "--private", "--output")
    assert amqp_gateway(*export, output).code is ExitCode.OK
    assert (output.stat().st_uid, output.stat().st_mode & 0o777) == (OTHER, 0o600)
    refused = amqp_gateway(*export, folder / "missing" / "office.private.jwks")
    assert (refused.code, "cannot be written: No such file" in refused.errors) == (ExitCode.FAILED, True)


@for_root
def test_root_runs_no_gateway_on_the_state_of_another_user(shared: Path) -> None:
    site = given_away(shared)
    before = sorted(site.state.path.rglob("*"))
    name = user_name(OTHER)
    assert f"belongs to the user {name}" in refused(site, "run")
    assert f"sudo -u {name}" in refused(site, "run")
    assert sorted(site.state.path.rglob("*")) == before


@for_root
def test_a_missing_permission_is_not_taken_for_damage(shared: Path) -> None:
    site = given_away(shared)
    os.chown(site.state.path / "boots", 0, 0)
    (site.state.path / "boots").chmod(0o600)
    with as_owner(site.state.path), pytest.raises(Exception, match="chown -R") as raised:
        StateFolder(site.state.path).next_boot()
    assert "restore a backup" not in str(raised.value)
    index = site.state.path / "instances.sqlite3"
    index.write_bytes(b"")
    index.chmod(0o600)
    with as_owner(site.state.path), pytest.raises(InstanceIndexError, match="chown -R"):
        summary(index)


def test_others_cannot_write_what_is_made_under_any_umask(tmp_path: Path) -> None:
    new_site(tmp_path)
    before = os.umask(0)
    try:
        made = subprocess.run(  # noqa: S603  our own command
            [*COMMAND, "mib", "install", "--user"],
            env=environment(HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path / "cache")),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.umask(before)
    assert made.returncode == ExitCode.OK, made.stderr
    places = [*(tmp_path / "home").rglob("*"), *(tmp_path / "cache").rglob("*")]
    assert places
    assert [path for path in places if path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("address", ["192.0.2.7:1161", "[fe80::1%nope]:1161"])
def test_an_address_that_this_machine_lacks_is_no_listener(tmp_path: Path, address: str) -> None:
    site = new_site(tmp_path, state=False)
    site.configure(snmp={"listen": [address]})
    ended = amqp_gateway("check", "--config", site.configuration)
    assert (ended.code, "snmp.listen.0: this machine has no address" in ended.errors) == (
        ExitCode.ADDRESS_IN_USE,
        True,
    )


def test_secrets_that_others_read_are_reported(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    secret = site.secret("of the community")
    (tmp_path / secret["file"]).chmod(0o644)
    site.configuration.chmod(0o660)
    if os.geteuid() == 0:
        os.chown(site.configuration, -1, 1)
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "community": secret})
    found = list(file_findings(load_configuration(site.configuration)))
    assert (found[-1].level, found[-1].subject) == (Level.WARNING, "snmp.community")
    assert f"chmod 600 {tmp_path / secret['file']}" in "".join(found[-1].lines())
    if os.geteuid() == 0:
        assert f"{site.configuration}: can be written by its group" in "".join(found[0].lines())


@for_root
def test_folders_in_which_a_group_can_replace_what_is_trusted_are_reported(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    folders = [tmp_path / name for name in ("passwords", "tls", "rings", "log")]
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o770)
        os.chown(folder, -1, OTHER)
    secret, ring = tmp_path / "passwords" / "community", tmp_path / "rings" / "field.public.jwks"
    for file in (secret, ring, tmp_path / "tls" / "key"):
        file.write_text("x")
        file.chmod(0o600)
    ring.chmod(0o660)
    os.chown(ring, -1, OTHER)
    amqp = {"url": "amqp://127.0.0.1:1", "user": "gateway", "password": {"file": "passwords/community"}}
    protected = {"keys": "rings", "sign_as": "office", "encrypt_for": "field", "trusted": ["field"]}
    site.configure(
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "community": {"file": "passwords/community"}},
        metrics={"tls": {"certificate": "tls/certificate", "key": "tls/key"}},
        log={"folder": "log"},
        sources={"broker": {"kind": "qmf", "trust_anyone": True, "amqp": amqp, "protected": protected}},
    )
    found = list(file_findings(load_configuration(site.configuration)))
    assert {one.advice for one in found} == {f"chmod g-w {each}" for each in (*folders, ring)}
    for folder in folders:
        folder.chmod(0o1770)  # no other can replace a file, as in /tmp
    found = list(file_findings(load_configuration(site.configuration)))
    assert {one.advice for one in found} == {f"chmod g-w {ring}"}


@for_root
def test_secrets_that_a_user_cannot_look_at_end_no_look_at_others(shared: Path) -> None:
    site, hidden = new_site(shared), shared / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "community").write_text("of the community")
    read = site.secret("of the broker")
    (shared / read["file"]).chmod(0o644)
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway", "password": read}
    snmp = {"listen": [f"127.0.0.1:{site.snmp_port}"], "community": {"file": "hidden/community"}}
    site.configure(snmp=snmp, sources={"orders": source})
    loaded, mine = load_configuration(site.configuration), shared / "mine"
    mine.mkdir()
    os.chown(mine, OTHER, OTHER)
    with as_owner(mine):
        found = list(file_findings(loaded))
    assert [one.subject for one in found] == ["sources.orders.password"]


def test_a_file_for_keys_of_tls_that_others_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, keys = new_site(tmp_path), tmp_path / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
    for mode, subjects in ((0o600, []), (0o644, ["SSLKEYLOGFILE"])):
        keys.touch()
        keys.chmod(mode)
        found = file_findings(load_configuration(site.configuration))
        assert [one.subject for one in found] == subjects


def test_a_private_key_that_others_can_change_or_read_is_reported(tmp_path: Path) -> None:
    """As a file with a password: who can write it can be the gateway to its peers."""
    site = new_site(tmp_path)
    folder = tmp_path / "tls"
    folder.mkdir()
    for name in ("key", "certificate"):
        (folder / name).write_text("PEM\n")
    (folder / "key").chmod(0o644)
    site.configure(
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
        metrics={"tls": {"certificate": "tls/certificate", "key": "tls/key"}},
    )
    loaded = load_configuration(site.configuration)
    (found,) = (one for one in file_findings(loaded) if one.subject == "metrics.tls.key")
    assert (found.level, f"chmod 600 {folder / 'key'}" in "".join(found.lines())) == (Level.WARNING, True)
    (folder / "key").chmod(0o666)
    assert f"metrics.tls.key: {folder / 'key'} can be written by everybody" in refused(site, "check")
    assert any(one.level is Level.PROBLEM for one in file_findings(loaded))


@pytest.mark.parametrize("key", ["sources.orders.ca_file", "metrics.tls.client_ca", "log.folder"])
def test_authorities_and_a_log_that_everybody_can_write_are_refused(tmp_path: Path, key: str) -> None:
    """With another's authorities a password goes to another's server."""
    site, folder = new_site(tmp_path), tmp_path / "authorities"
    for made in ("authorities", "log", "tls"):
        (tmp_path / made).mkdir()
    for name in ("authorities/ca", "tls/key", "tls/certificate"):
        (tmp_path / name).write_text("PEM\n")
    account = {"user": "gateway", "password": site.secret("sesame")}
    source = {"kind": "rabbitmq", "management": "https://127.0.0.1:9", "ca_file": "authorities/ca", **account}
    tls = {"certificate": "tls/certificate", "key": "tls/key", "client_ca": "authorities/ca"}
    site.configure(
        sources={"orders": source} if key.startswith("sources") else {},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
        metrics={"tls": tls} if key.startswith("metrics") else {},
        log={"folder": "log"},
    )
    place = tmp_path / "log" if key == "log.folder" else folder / "ca"
    for each in [place] if key == "log.folder" else [place, folder]:
        mode = each.stat().st_mode
        each.chmod(0o777)
        for command in ("check", "run"):
            said = refused(site, command)
            assert f"{key}: {each} can be written by everybody" in said
            assert f"chmod o-w {each}" in said
        each.chmod(mode)
    place.chmod(0o777)
    found = list(file_findings(load_configuration(site.configuration)))
    assert (found[-1].level, found[-1].subject) == (Level.PROBLEM, key)


def test_no_command_writes_into_a_log_that_everybody_can_write(tmp_path: Path) -> None:
    site, log = new_site(tmp_path), tmp_path / "log"
    log.mkdir()
    (log / "LOG").write_text(LOG)
    site.configure(log={"folder": "log"})
    assert amqp_gateway("log", "compact", "--config", site.configuration).code is ExitCode.OK
    log.chmod(0o777)
    for command in WRITING_A_LOG:
        assert f"log.folder: {log} can be written by everybody" in refused(site, *command)
    assert f"{log} can be written by everybody" in refused(site, "log", "compact", "--folder", str(log))
    assert (log / "LOG").read_text() == LOG


@for_root
def test_for_root_a_log_belongs_to_the_owner_of_the_state(shared: Path) -> None:
    site, log = given_away(shared), shared / "log"
    log.mkdir()
    (log / "LOG").write_text(LOG)
    site.configure(log={"folder": str(log)})
    for path in (log, log / "LOG"):
        os.chown(path, OTHER - 1, OTHER - 1)
    for command in (*WRITING_A_LOG, ("check",)):
        said = refused(site, *command)
        assert f"log.folder: {log} belongs to the user {OTHER - 1}, neither to {user_name(OTHER)} nor" in said
        assert f"chown -h {user_name(OTHER)} {log}" in said
    for path in (log, log / "LOG"):
        os.chown(path, OTHER, OTHER)
    assert amqp_gateway("log", "compact", "--config", site.configuration).code is ExitCode.OK
    assert {path.stat().st_uid for path in log.rglob("*")} == {OTHER}


@pytest.mark.parametrize("command", REACHING, ids=" ".join)
def test_no_command_sends_a_password_by_authorities_that_everybody_can_write(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Nothing listens where the source is: a command that tries says that."""
    site, folder = new_site(tmp_path), tmp_path / "authorities"
    folder.mkdir()
    (folder / "ca").write_text("PEM\n")
    amqp = {"url": "amqps://127.0.0.1:9", "user": "gateway", "password": site.secret("sesame")}
    site.configure(
        sources={
            "orders": {"kind": "cml", "amqp": {**amqp, "ca_file": "authorities/ca"}},
            "others": {"kind": "cml", "amqp": amqp},
        }
    )
    for place in (folder, folder / "ca"):
        mode = place.stat().st_mode
        place.chmod(0o777)
        expected = f"sources.orders.amqp.ca_file: {place} can be written by everybody"
        assert expected in refused(site, *command)
        place.chmod(mode)
    folder.chmod(0o777)
    of_another = (word.replace("orders", "others") for word in command)
    assert amqp_gateway(*of_another, "--config", site.configuration).code is ExitCode.UNREACHABLE


def test_doctor_sends_no_password_by_authorities_that_everybody_can_write(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    (tmp_path / "ca").write_text("PEM\n")
    (tmp_path / "ca").chmod(0o666)
    amqp = {"url": "amqps://127.0.0.1:9", "user": "gateway", "password": site.secret("sesame")}
    site.configure(sources={"orders": {"kind": "cml", "amqp": {**amqp, "ca_file": "ca"}}})
    ended = amqp_gateway("doctor", "--json", "--config", site.configuration)
    found = [json.loads(line) for line in ended.output.splitlines()]
    (of_source,) = (one for one in found if one["check"] == "source")
    assert (of_source["level"], of_source["subject"]) == ("not-checked", "orders")
    assert f"sources.orders.amqp.ca_file: {tmp_path / 'ca'} can be written by everybody" in of_source["text"]
