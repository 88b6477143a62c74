"""The communities of managers that write by SNMP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.secret_places import SecretError
from gateway.service.state.snmp_communities import read_writers
from gateway.yaml_documents import DocumentError
from tests.components.command_line import Site, new_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


def loaded(site: Site, **writers: Any) -> LoadedConfiguration:  # noqa: ANN401  as YAML has them
    site.configure(snmp={"writers": writers})
    return load_configuration(site.configuration)


def test_a_writer_has_a_community_of_its_own_made_once(site: Site) -> None:
    configuration = loaded(site, noc={}, night={})
    made = read_writers(configuration, site.state, "reading")
    assert made.keys() == {"noc", "night"}
    assert len({"reading", *made.values()}) == 3
    assert made["noc"] == site.state.secret("community-noc")
    assert read_writers(configuration, site.state, "reading") == made


def test_a_community_may_be_configured(site: Site) -> None:
    configuration = loaded(site, noc={"community": site.secret("known to few")})
    assert read_writers(configuration, site.state, "reading") == {"noc": "known to few"}
    assert not site.state.secret_path("community-noc").exists()


@pytest.mark.parametrize(
    ("night", "whose"), [("reading", "the community that reads"), ("shared", "snmp.writers.noc")]
)
def test_no_manager_writes_with_the_community_of_another(site: Site, night: str, whose: str) -> None:
    noc = {"community": site.secret("shared")}
    configuration = loaded(site, noc=noc, night={"community": site.secret(night)})
    with pytest.raises(SecretError, match=f"snmp.writers.night: has the same community as {whose}"):
        read_writers(configuration, site.state, "reading")


@pytest.mark.parametrize("name", ["n" * 33, "-n", "a b", ""])
def test_a_writers_name_fits_an_index(site: Site, name: str) -> None:
    with pytest.raises(DocumentError):
        loaded(site, **{name: {}})


def test_a_name_of_32_characters_fits(site: Site) -> None:
    assert loaded(site, **{"n" * 32: {}}).settings.snmp.writers.keys() == {"n" * 32}
