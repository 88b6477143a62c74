"""``amqp-gateway keys``: made, shown, handed out, taken, replaced, revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.protection.key_files import KeyFolder
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.rabbitmq import VirtualHost


def command(site: Site, *arguments: str | Path) -> Ended:
    """Run a command of `keys` in this process."""
    words = ["keys", *map(str, arguments), "--config", str(site.configuration)]
    result = CliRunner().invoke(main, words)
    return Ended(ExitCode(result.exit_code), result.stdout, result.stderr)


def said(ended: Ended) -> list[str]:
    """Return the lines that a command that succeeded wrote on standard output."""
    assert (ended.code, ended.errors) == (ExitCode.OK, "")
    return ended.output.splitlines()


def folder(site: Site) -> KeyFolder:
    """Return the default folder of keys: beside the configuration."""
    return KeyFolder(site.folder / "keys")


def test_new_keys_are_beside_the_configuration(site: Site) -> None:
    sign, read, private, public = said(command(site, "gen", "office"))
    assert sign.split()[2:] == ["sign", "private", "in", "use"]
    assert read.split()[2:] == ["read", "private", "in", "use"]
    assert private.endswith(str(site.folder / "keys" / "office.private.jwks"))
    assert public.endswith(str(site.folder / "keys" / "office.public.jwks"))
    assert len(folder(site).private("office").keys) == 2


def test_keys_are_not_made_twice(site: Site) -> None:
    said(command(site, "gen", "office"))
    before = folder(site).private("office")
    ended = command(site, "gen", "office")
    assert ended.code is ExitCode.REFUSED
    assert "amqp-gateway keys rotate office" in ended.errors
    assert folder(site).private("office") == before


def test_a_group_has_a_pair_that_only_reads_which_its_members_share(site: Site, tmp_path: Path) -> None:
    said(command(site, "gen", "consoles", "--use", "read"))
    copy = tmp_path / "consoles.private.jwks"
    said(command(site, "export", "consoles", "--private", "--output", copy))
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.read_text() == folder(site).private_path("consoles").read_text()


def test_private_keys_are_not_printed(site: Site) -> None:
    said(command(site, "gen", "office"))
    ended = command(site, "export", "office", "--private")
    assert ended.code is ExitCode.USAGE
    assert "--output" in ended.errors
    for words in (("list",), ("list", "--json"), ("export", "office")):
        assert '"d"' not in command(site, *words).output


def exported(site: Site, *words: str | Path) -> Path:
    """Make keys of `agent` in a folder of their own, unless there are some, and export them."""
    owner = site.folder / "owner"
    if not owner.exists():
        said(command(site, "gen", "agent", "--folder", owner))
    said(command(site, "export", "agent", "--folder", owner, "--output", site.folder / "agent.jwks", *words))
    return site.folder / "agent.jwks"


def kids(site: Site) -> set[str]:
    return {key.kid for key in folder(site).public("agent").keys}


def test_the_keys_of_a_peer_are_imported(site: Site) -> None:
    file = exported(site)
    *keys, last = said(command(site, "import", "agent", file))
    assert [line.split()[2:] for line in keys] == [
        ["sign", "public", "in", "use"],
        ["read", "public", "in", "use"],
    ]
    assert "agent.public.jwks: 2 new keys" in last
    assert folder(site).public_path("agent").read_bytes() == file.read_bytes()
    assert "0 new keys" in said(command(site, "import", "agent", file))[-1], "it is the same again"


def test_keys_are_imported_from_standard_input(site: Site) -> None:
    words = ["keys", "import", "agent", "-", "--config", str(site.configuration)]
    result = CliRunner().invoke(main, words, input=exported(site).read_bytes())
    assert result.exit_code == ExitCode.OK
    assert len(kids(site)) == 2


def test_keys_of_a_rotation_are_added_and_none_is_lost(site: Site) -> None:
    said(command(site, "import", "agent", exported(site)))
    former = kids(site)
    said(command(site, "rotate", "agent", "--after", "0", "--folder", site.folder / "owner"))
    assert "2 new keys" in said(command(site, "import", "agent", exported(site)))[-1]
    assert len(kids(site)) == 4
    assert former < kids(site)


def test_an_import_revives_no_key_that_was_revoked_here(site: Site) -> None:
    older = exported(site)
    said(command(site, "import", "agent", older))
    revoked = folder(site).public("agent").keys[0].kid
    said(command(site, "revoke", "agent", revoked))
    before = folder(site).public("agent").keys
    said(command(site, "import", "agent", older))
    assert set(folder(site).public("agent").keys) == set(before)
    assert [key.kid for key in before if key.revoked_at] == [revoked]


def test_private_keys_and_own_names_are_not_imported(site: Site) -> None:
    private = exported(site, "--private")
    ended = command(site, "import", "agent", private)
    assert ended.code is ExitCode.CONFIGURATION
    assert "has private keys, which are their owner's only" in ended.errors
    said(command(site, "gen", "office"))
    before = folder(site).private("office")
    ended = command(site, "import", "office", exported(site))
    assert (ended.code, "are own keys" in ended.errors) == (ExitCode.REFUSED, True)
    assert folder(site).private("office") == before


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"keys": []}', b"\xff", b'{"keys": [{"kty": "RSA"}]}', b"x" * 70_000]
)
def test_what_is_no_set_of_public_keys_is_not_imported(site: Site, content: bytes) -> None:
    file = site.folder / "file"
    file.write_bytes(content)
    ended = command(site, "import", "agent", file)
    assert (ended.code, ended.output) == (ExitCode.CONFIGURATION, "")
    assert str(file) in ended.errors
    assert not folder(site).public_path("agent").exists()


def test_what_is_exported_is_what_a_peer_trusts(site: Site, tmp_path: Path) -> None:
    said(command(site, "gen", "office"))
    text = command(site, "export", "office").output
    peer = KeyFolder(tmp_path / "peer")
    peer.path.mkdir()
    peer.public_path("office").write_text(text)
    assert peer.public("office") == folder(site).private("office").public()
    lines = said(command(site, "list", "--folder", peer.path))
    assert [line.split()[3] for line in lines] == ["public", "public"]


def test_a_rotation_says_when_the_new_keys_are_used(site: Site) -> None:
    said(command(site, "gen", "office", "--use", "sign"))
    former, new, advice = said(command(site, "rotate", "office", "--after", "2h", "--overlap", "3d"))
    assert "in use, accepted until " in former
    assert "used from " in new
    assert advice.endswith("office.public.jwks")
    found = json.loads(command(site, "list", "--json").output)
    assert [(one["name"], one["private"], one["accepted"]) for one in found] == [("office", True, True)] * 2


def test_a_rotation_at_once_leaves_the_former_key_accepted(site: Site) -> None:
    said(command(site, "gen", "office", "--use", "read"))
    former, new, _ = said(command(site, "rotate", "office", "--after", "0"))
    assert "replaced, accepted until " in former
    assert new.endswith("in use")


def test_a_revoked_key_stays_in_the_files_as_revoked(site: Site) -> None:
    kid = said(command(site, "gen", "office", "--use", "sign"))[0].split()[1]
    line, advice = said(command(site, "revoke", "office", kid))
    assert "revoked 2" in line
    assert advice.startswith("Hand out at once")
    assert folder(site).public("office").keys[0].revoked_at


def test_a_key_of_a_peer_can_be_revoked_here(site: Site) -> None:
    said(command(site, "gen", "agent", "--use", "sign"))
    place = folder(site)
    place.private_path("agent").unlink()
    kid = place.public("agent").keys[0].kid
    (line,) = said(command(site, "revoke", "agent", kid))
    assert "public   revoked" in line


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("revoke", "office", "another"), ExitCode.CONFIGURATION, "its keys are:"),
        (("rotate", "missing"), ExitCode.CONFIGURATION, "there is no such file"),
        (("export", "missing"), ExitCode.CONFIGURATION, "keys export missing"),
        (("gen", "../office"), ExitCode.USAGE, "a name has"),
        (("rotate", "office", "--after", "soon"), ExitCode.USAGE, "is no duration"),
    ],
)
def test_wrong_words_are_refused_with_advice(
    site: Site, arguments: tuple[str, ...], code: ExitCode, text: str
) -> None:
    said(command(site, "gen", "office"))
    ended = command(site, *arguments)
    assert ended.code is code
    assert text in ended.errors


def test_an_empty_folder_says_what_to_do(site: Site) -> None:
    (line,) = said(command(site, "list"))
    assert line.endswith("amqp-gateway keys gen NAME`")


# -- the keys that a configuration names


def configured(site: Site, **amqp: str) -> None:
    """Configure a protected source."""
    known = {"url": "amqp://127.0.0.1:1", "user": "gateway", "password": "guest", **amqp}
    account = {**known, "password": site.secret(known["password"])}
    protected = {"sign_as": "office", "encrypt_for": "agent", "trusted": ["agent"]}
    source = {"kind": "qmf", "amqp": account, "trusted_users": ["agent"], "protected": protected}
    site.configure(sources={"shop": source})


def test_check_names_a_key_that_is_missing(site: Site) -> None:
    configured(site)
    ended = amqp_gateway("check", "--config", site.configuration)
    assert ended.code is ExitCode.CONFIGURATION
    assert (
        "office.private.jwks: there is no such file: make it with `amqp-gateway keys gen office`"
        in ended.errors
    )
    said(command(site, "gen", "office"))
    ended = amqp_gateway("check", "--config", site.configuration)
    assert "agent.public.jwks: there is no such file: get it from its owner" in ended.errors
    said(command(site, "gen", "agent"))
    assert amqp_gateway("check", "--config", site.configuration).code is ExitCode.OK


def test_a_test_of_a_protected_source_asks_nothing_of_its_agents(
    site: Site, virtual_host: VirtualHost
) -> None:
    broker = virtual_host.broker
    with virtual_host.http() as http:
        http.put(f"exchanges/{virtual_host.path}/qpid.management", json={"type": "topic"}).raise_for_status()
    user, url = broker.administrator, f"amqp://127.0.0.1:{broker.ports.amqp}"
    configured(site, url=url, vhost=virtual_host.name, user=user.name, password=user.password)
    for name in ("office", "agent"):
        said(command(site, "gen", name))
    lines = said(amqp_gateway("check", "--connect", "--config", site.configuration))
    assert any("exchange qpid.management is there; bodies are protected" in line for line in lines)
