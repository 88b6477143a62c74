"""The folder of keys: who may read it, and that a change needs no restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.times import HOUR, SECOND
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.protection.keys import KeyRingError, Use, generated, revoked, rotated
from tests.protection.parties import NOW, current

NAMES = KeyNames("gateway", "agents", ("gateway", "consoles"), ("agent",))


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    """A folder with what `NAMES` needs."""
    place = KeyFolder(tmp_path / "keys")
    place.write("gateway", generated([Use.SIGN, Use.READ], NOW))
    place.write("consoles", generated([Use.READ], NOW))
    place.write("agent", generated([Use.SIGN], NOW).public())
    place.write("agents", generated([Use.READ], NOW).public())
    return place


def test_private_keys_are_for_their_owner_only(folder: KeyFolder) -> None:
    assert folder.private_path("gateway").stat().st_mode & 0o777 == 0o600
    assert folder.public_path("gateway").stat().st_mode & 0o777 == 0o644
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not folder.private_path("agent").exists()
    folder.private_path("gateway").chmod(0o640)
    with pytest.raises(KeyRingError, match="chmod 600"):
        folder.private("gateway")


def test_keys_that_everybody_can_write_are_refused(folder: KeyFolder) -> None:
    """Who can write the public key of a sender can sign as that sender."""
    public = folder.public_path("agent")
    public.chmod(0o666)
    with pytest.raises(KeyRingError, match=f"can be written by everybody: .* chmod o-w {public}"):
        WatchedKeys(folder, NAMES)
    public.chmod(0o644)
    folder.path.chmod(0o777)
    with pytest.raises(KeyRingError, match=f"chmod o-w {folder.path}"):
        folder.public("agent")


def test_names_are_those_of_files(folder: KeyFolder) -> None:
    (folder.path / "notes.txt").touch()
    assert folder.names() == ["agent", "agents", "consoles", "gateway"]
    assert KeyFolder(folder.path / "missing").names() == []


def test_each_key_is_found_for_its_purpose_only(folder: KeyFolder) -> None:
    keys = WatchedKeys(folder, NAMES)
    own, agent = folder.private("gateway"), folder.public("agent")
    group, agents = folder.private("consoles"), folder.public("agents")
    assert keys.signing_key(NOW) == current(own, Use.SIGN)
    assert keys.recipient_key(NOW) == current(agents, Use.READ)
    for held in (own, group):
        assert keys.read_key(current(held, Use.READ).kid, NOW) == current(held, Use.READ)
    assert keys.sender_key(current(agent, Use.SIGN).kid, NOW) == current(agent, Use.SIGN)
    assert keys.sender_key(current(own, Use.SIGN).kid, NOW) is None
    assert keys.read_key(current(agents, Use.READ).kid, NOW) is None


def test_a_missing_file_is_named_at_the_start_with_what_to_do(folder: KeyFolder) -> None:
    folder.public_path("agent").unlink()
    with pytest.raises(
        KeyRingError, match=r"agent\.public\.jwks: there is no such file: .*keys export agent"
    ):
        WatchedKeys(folder, NAMES)
    folder.private_path("gateway").unlink()
    with pytest.raises(
        KeyRingError, match=r"gateway\.private\.jwks: there is no such file: .*keys gen gateway"
    ):
        WatchedKeys(folder, NAMES)


def test_a_rotation_is_noticed_while_the_gateway_runs(folder: KeyFolder) -> None:
    keys = WatchedKeys(folder, NAMES)
    former = keys.signing_key(NOW)
    folder.write("gateway", rotated(folder.private("gateway"), NOW, NOW, HOUR))
    new = keys.signing_key(NOW + 2 * SECOND)
    assert new is not None
    assert new != former
    assert new in folder.private("gateway").keys


def test_a_revocation_is_noticed_while_the_gateway_runs(folder: KeyFolder) -> None:
    keys = WatchedKeys(folder, NAMES)
    agent = folder.public("agent")
    kid = agent.keys[0].kid
    assert keys.sender_key(kid, NOW) is not None
    folder.write("agent", revoked(agent, kid, NOW))
    assert keys.sender_key(kid, NOW + 2 * SECOND) is None


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_file_that_cannot_be_read_any_more_counts_as_empty(
    folder: KeyFolder, content: bytes | None
) -> None:
    keys = WatchedKeys(folder, NAMES)
    kid = folder.public("agent").keys[0].kid
    path = folder.public_path("agent")
    path.unlink() if content is None else path.write_bytes(content)
    assert keys.sender_key(kid, NOW + 2 * SECOND) is None
    assert str(path) in keys.trouble
    assert keys.signing_key(NOW + 2 * SECOND) is not None
