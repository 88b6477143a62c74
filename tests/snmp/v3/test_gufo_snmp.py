"""gufo-snmp as a manager, with every pair of protocols."""

from __future__ import annotations

import pytest
from gufo.snmp.aio import SnmpSession
from gufo.snmp.user import (
    Aes128Key,
    Aes192Key,
    Aes256Key,
    BaseAuthKey,
    BasePrivKey,
    DesKey,
    KeyExpansion,
    Md5Key,
    Sha1Key,
    Sha224Key,
    Sha256Key,
    Sha384Key,
    Sha512Key,
    User,
)

from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from tests.snmp.small_agent import DESCRIPTION, ENTRY, TEXT, SmallAgent
from tests.snmp.v3.conftest import AUTH_PASSPHRASE, PRIV_PASSPHRASE, ServeVersion3

AUTHENTICATION: dict[str, type[BaseAuthKey]] = {
    "md5": Md5Key,
    "sha1": Sha1Key,
    "sha224": Sha224Key,
    "sha256": Sha256Key,
    "sha384": Sha384Key,
    "sha512": Sha512Key,
}
PRIVACY: dict[str, type[BasePrivKey]] = {
    "des": DesKey,
    "aes128": Aes128Key,
    "aes192": Aes192Key,
    "aes256": Aes256Key,
    "aes192-reeder": Aes192Key,
    "aes256-reeder": Aes256Key,
}

pairs = pytest.mark.parametrize(
    ("protocol", "privacy"),
    [(protocol, privacy) for protocol in AUTHENTICATION_PROTOCOLS for privacy in PRIVACY_PROTOCOLS],
)


@pairs
async def test_gufo_snmp(serve_version_3: ServeVersion3, protocol: str, privacy: str) -> None:
    agent = SmallAgent()
    port, counters = serve_version_3(agent.store)
    expansion = KeyExpansion.Cisco if privacy.endswith("-reeder") else KeyExpansion.Blumenthal
    user = User(
        f"{protocol}-{privacy}",
        auth_key=AUTHENTICATION[protocol](AUTH_PASSPHRASE.encode()),
        priv_key=PRIVACY[privacy](PRIV_PASSPHRASE.encode()),
        key_expansion=expansion,
    )
    dotted = ".".join(map(str, DESCRIPTION))
    async with SnmpSession("127.0.0.1", port, user=user, timeout=20) as session:
        assert await session.get(dotted) == TEXT[2:]
        table = ".".join(map(str, ENTRY))
        got = {oid: value async for oid, value in session.getbulk(table)}
    assert got[f"{table}.2.1.1"] == b"in"
    assert len(got) == 5
    assert counters.wrong_digests + counters.decryption_errors + counters.parse_errors == 0
