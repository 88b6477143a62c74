"""The rights of communities, as they are configured."""

from __future__ import annotations

from gateway.config.snmp import SnmpSettings
from gateway.service.processes.snmp_rights import access_of
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store

SETTINGS = {
    "root": "1.3.6.1.4.1.99999",
    "allowed_networks": ["192.0.2.0/24"],
    "view": "few",
    "views": {
        "few": {"include": ["root", "1.3.6.1.2.1"], "exclude": ["root.2"]},
        "most": {"exclude": ["root.2.7"]},
    },
    "writers": {"operator": {"view": "most"}, "night": {"allowed_networks": ["::1"]}},
}
ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
ONE = ber.encode_gauge32(1)


def visible(writer: str = "") -> set[Oid]:
    """Return the objects that a writer sees, or the community that reads."""
    store = Store()
    names = [(1, 3, 6, 1, 2, 1, 1, 1, 0), (1, 3, 9, 0), (*ROOT, 1, 0), (*ROOT, 2, 7, 0), (*ROOT, 2, 8, 0)]
    for name in names:
        store.scalar(name, ONE)
    view = access_of(SnmpSettings.model_validate(SETTINGS), store, writer).view
    return {name for name in names if view.read(ber.encode_name(name)) == ONE}


def test_each_community_has_its_view() -> None:
    everything = visible("night")
    assert len(everything) == 5
    assert visible("operator") == everything - {(*ROOT, 2, 7, 0)}
    assert visible() == {(*ROOT, 1, 0), (1, 3, 6, 1, 2, 1, 1, 1, 0)}


def test_a_set_is_confined_to_the_view() -> None:
    settings = SnmpSettings.model_validate(SETTINGS)
    subtrees = access_of(settings, Store(), "operator").subtrees
    assert subtrees is not None
    assert ber.encode_name((*ROOT, 2, 8, 0)) in subtrees
    assert ber.encode_name((*ROOT, 2, 7, 0)) not in subtrees
    assert access_of(settings, Store(), "night").subtrees is None


def test_each_community_has_its_networks() -> None:
    settings = SnmpSettings.model_validate(SETTINGS)
    reading, night = (access_of(settings, Store(), writer).networks for writer in ("", "night"))
    assert reading is not None
    assert night is not None
    assert ("192.0.2.9" in reading, "::1" in reading) == (True, False)
    assert ("192.0.2.9" in night, "::1" in night) == (False, True)
    assert access_of(settings, Store(), "operator").networks is None
