"""``amqp-gateway snmp``: the engine, and the users of version 3 with their keys."""

from __future__ import annotations

import json
import re
import stat

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.snmp_security import USERS, read_users, stored_user
from gateway.snmp.v3.algorithms import AES128, SHA256
from gateway.snmp.v3.users import credentials
from tests.components.command_line import Ended, Site

RECEIVER = "80001f8805aabbccddeeff001122334455"
PASSPHRASES = "authentication phrase\nprivacy phrase\n"


def command(site: Site, *arguments: str, typed: str = "") -> Ended:
    """Run ``amqp-gateway snmp …`` in this process; ``typed`` is its input."""
    line = ["snmp", *arguments, "--config", str(site.configuration)]
    result = CliRunner().invoke(main, line, input=typed)
    return Ended(ExitCode(result.exit_code), result.stdout, result.stderr)


def own_engine(site: Site) -> str:
    """Return the engine id that the command shows, in hexadecimal digits."""
    shown = re.search("engine id 0x([0-9a-f]+)", command(site, "engine").output)
    assert shown is not None
    return shown[1]


def test_the_engine_has_an_id_of_its_own_that_stays(site: Site) -> None:
    first = command(site, "engine")
    assert first.code is ExitCode.OK
    # The enterprise of the default root is net-snmp's, 8072, and format 5 is octets (RFC 3411 section 5).
    assert re.fullmatch("engine id 0x80001f8805[0-9a-f]{24}, 0 boots\n", first.output)
    assert command(site, "engine").output == first.output


def test_an_engine_id_begins_with_the_enterprise_of_the_root(site: Site) -> None:
    site.configure(snmp={"root": "1.3.6.1.4.1.32473.1"})
    assert own_engine(site).startswith("80007ed9")


def test_only_localised_keys_of_a_user_are_kept(site: Site) -> None:
    added = command(site, "user", "add", "nms", typed=PASSPHRASES)
    assert added.code is ExitCode.OK
    assert "snmp:\n  users:\n    nms: { level: authPriv }\n" in added.output
    engine = own_engine(site)
    (keys,) = read_users(site.state)["nms"]
    made = credentials("nms", SHA256, "authentication phrase", AES128, "privacy phrase")
    assert stored_user("nms", keys, None) == made.at(bytes.fromhex(engine))
    path = site.state.secret_path(USERS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = "".join(each.read_text(encoding="utf-8") for each in site.state.path.rglob("*") if each.is_file())
    assert "phrase" not in kept
    assert made.authentication_ku.hex() not in kept
    assert "phrase" not in added.output + added.errors


def test_a_user_who_is_configured_needs_no_further_line(site: Site) -> None:
    site.configure(snmp={"users": {"nms": {}}})
    added = command(site, "user", "add", "nms", typed=PASSPHRASES)
    assert "users:" not in added.output
    assert added.output.endswith("A running gateway answers the user by these keys from now on.\n")


def test_keys_for_a_receiver_of_informs_stand_beside_those_for_the_gateway(site: Site) -> None:
    assert command(site, "user", "add", "nms", typed=PASSPHRASES).code is ExitCode.OK
    added = command(site, "user", "add", "nms", "--engine-id", f"0x{RECEIVER}", typed=PASSPHRASES)
    assert added.code is ExitCode.OK
    assert {keys.engine_id for keys in read_users(site.state)["nms"]} == {own_engine(site), RECEIVER}
    again = command(site, "user", "add", "nms", "--privacy", "none", typed="another passphrase\n")
    assert again.code is ExitCode.OK
    listed = command(site, "user", "list").output.splitlines()
    assert sorted(listed)[:2] == [
        f"nms: is not in {site.configuration}, snmp.users",
        f"nms: sha256 aes128 for the engine 0x{RECEIVER}",
    ]
    assert "nms: sha256 no privacy" in listed


def test_a_configured_user_without_keys_is_listed_with_the_command_that_makes_them(site: Site) -> None:
    site.configure(snmp={"users": {"nms": {"level": "authNoPriv"}}})
    assert command(site, "user", "list").output == "nms: has no keys: amqp-gateway snmp user add nms\n"


def test_a_user_is_removed(site: Site) -> None:
    command(site, "user", "add", "nms", typed=PASSPHRASES)
    assert command(site, "user", "remove", "nms").output == "user nms: removed\n"
    assert read_users(site.state) == {}
    again = command(site, "user", "remove", "nms")
    assert again.code is ExitCode.NOT_FOUND
    assert again.reported == ["amqp-gateway: no user 'nms' has keys; there are: none"]


@pytest.mark.parametrize(("level", "is_answered"), [("noAuthNoPriv", True), ("authNoPriv", False)])
def test_who_is_answered_without_keys_is_said_to_be_when_they_are_removed(
    site: Site, level: str, *, is_answered: bool
) -> None:
    site.configure(snmp={"users": {"nms": {"level": level}}})
    command(site, "user", "add", "nms", typed=PASSPHRASES)
    removed = command(site, "user", "remove", "nms").output
    assert removed.startswith("user nms: removed\n")
    assert ("remove snmp.users.nms there, and run: amqp-gateway reload" in removed) is is_answered


@pytest.mark.parametrize(("option", "protocol"), [("--authentication", "md5"), ("--privacy", "des")])
def test_a_weak_protocol_has_to_be_permitted(site: Site, option: str, protocol: str) -> None:
    refused = command(site, "user", "add", "old", option, protocol, typed=PASSPHRASES)
    assert refused.code is ExitCode.CONFIGURATION
    assert f"{protocol} is weak: take the default, or write weak_algorithms: true" in refused.errors
    site.configure(snmp={"weak_algorithms": True})
    assert command(site, "user", "add", "old", option, protocol, typed=PASSPHRASES).code is ExitCode.OK


@pytest.mark.parametrize(
    ("typed", "purpose"),
    [("", "authentication"), ("short\n", "authentication"), ("long enough\nshort\n", "privacy")],
)
def test_a_short_passphrase_is_refused(site: Site, typed: str, purpose: str) -> None:
    refused = command(site, "user", "add", "nms", typed=typed)
    assert refused.code is ExitCode.USAGE
    assert refused.reported == [f"amqp-gateway: the passphrase for {purpose} needs 8 characters at least"]
    assert read_users(site.state) == {}


@pytest.mark.parametrize("written", ["0x12", "engine", "0x" + 33 * "80", "0x" + 12 * "00"])
def test_what_is_no_engine_id_is_refused(site: Site, written: str) -> None:
    refused = command(site, "user", "add", "nms", "--engine-id", written, typed=PASSPHRASES)
    assert refused.code is ExitCode.USAGE
    assert "is no engine id: write 5 to 32 bytes as 0x80" in refused.errors


def test_a_name_longer_than_snmp_permits_is_refused(site: Site) -> None:
    refused = command(site, "user", "add", 33 * "n", typed=PASSPHRASES)
    assert refused.code is ExitCode.USAGE
    assert "the name of a user has 1 to 32 bytes" in refused.errors


def test_a_damaged_file_of_keys_is_reported_with_what_to_do(site: Site) -> None:
    command(site, "user", "add", "nms", typed=PASSPHRASES)
    path = site.state.secret_path(USERS)
    users = json.loads(path.read_text(encoding="utf-8"))
    users["users"]["nms"][0]["authentication_key"] = "not hexadecimal"
    path.write_text(json.dumps(users), encoding="utf-8")
    refused = command(site, "user", "list")
    assert refused.code is ExitCode.STATE
    assert f"{path}: is damaged, or of a newer gateway: restore a backup" in refused.errors
    assert "not hexadecimal" not in refused.errors
