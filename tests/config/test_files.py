"""The places where the configuration is searched, and the default places of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import places
from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.places import NoConfigurationError, find_configuration
from gateway.yaml_documents import DocumentError


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove this machine's variables, and use an empty working folder."""
    for variable in ("AMQP_GATEWAY_CONFIG", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "PLACES", (Path("gateway.yaml"), tmp_path / "etc" / "gateway.yaml"))


def written(path: Path, text: str = "version: 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def loaded(tmp_path: Path, text: str = "version: 1\n") -> LoadedConfiguration:
    return load_configuration(written(tmp_path / "conf" / "gateway.yaml", text))


def test_the_first_place_that_has_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = written(tmp_path / "etc" / "gateway.yaml")
    assert find_configuration(None) == system

    written(tmp_path / "gateway.yaml")
    assert find_configuration(None) == Path("gateway.yaml")

    monkeypatch.setenv("AMQP_GATEWAY_CONFIG", "/named/by/variable.yaml")
    assert find_configuration(None) == Path("/named/by/variable.yaml")

    assert find_configuration(Path("/given.yaml")) == Path("/given.yaml")


@pytest.mark.parametrize("what", ["folder", "link"])
def test_the_next_place_does_not_stand_in_for_one_that_is_wrong(tmp_path: Path, what: str) -> None:
    place = tmp_path / "gateway.yaml"
    if what == "folder":
        place.mkdir()
    else:
        place.symlink_to("missing")
    written(tmp_path / "etc" / "gateway.yaml")
    with pytest.raises(DocumentError, match="cannot be read"):
        load_configuration(None)


def test_an_empty_variable_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_GATEWAY_CONFIG", "")
    written(tmp_path / "gateway.yaml")
    assert find_configuration(None) == Path("gateway.yaml")


def test_none_at_all_says_where_one_may_be(tmp_path: Path) -> None:
    with pytest.raises(NoConfigurationError) as raised:
        find_configuration(None)
    assert str(raised.value) == (
        "no configuration: name one with --config or $AMQP_GATEWAY_CONFIG, or write one of "
        f"gateway.yaml, {tmp_path}/etc/gateway.yaml (an example is in docs/configuration.md)"
    )


def test_the_path_of_what_was_found_is_absolute(tmp_path: Path) -> None:
    written(tmp_path / "gateway.yaml")
    found = load_configuration(None)
    assert found.path == tmp_path / "gateway.yaml"
    assert found.folder == tmp_path


# -- state


def test_state_as_configured_is_relative_to_the_configuration(tmp_path: Path) -> None:
    assert loaded(tmp_path, "version: 1\nstate: {folder: here}\n").state_folder == tmp_path / "conf" / "here"


def test_state_as_configured_may_be_absolute_or_of_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/operator")
    assert loaded(tmp_path, "version: 1\nstate: {folder: /srv/g}\n").state_folder == Path("/srv/g")
    assert loaded(tmp_path, "version: 1\nstate: {folder: ~/g}\n").state_folder == Path("/home/operator/g")


@pytest.mark.parametrize(
    ("home", "folder"),
    [
        ("/home/operator/.local/state", "/home/operator/.local/state/amqp-gateway"),
        ("", "/var/lib/amqp-gateway"),
        ("relative/does/not/count", "/var/lib/amqp-gateway"),
    ],
)
def test_state_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, folder: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", home)
    assert loaded(tmp_path).state_folder == Path(folder)


# -- the feed's socket


def test_socket_as_configured_is_relative_to_the_configuration(tmp_path: Path) -> None:
    assert loaded(tmp_path, "version: 1\nfeed: {socket: f}\n").feed_socket == tmp_path / "conf" / "f"


@pytest.mark.parametrize("runtime", ["", "/run/user/1000"])
def test_socket_in_the_state_folder_whatever_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert loaded(tmp_path, "version: 1\nstate: {folder: /srv/g}\n").feed_socket == Path("/srv/g/feed.sock")
