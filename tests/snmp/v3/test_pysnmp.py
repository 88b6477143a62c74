"""pysnmp as a manager, with every pair of protocols."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdgen

from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from tests.snmp.small_agent import DESCRIPTION, TEXT, SmallAgent
from tests.snmp.v3.conftest import AUTH_PASSPHRASE, PRIV_PASSPHRASE, ServeVersion3

AUTHENTICATION: dict[str, Any] = {
    "md5": config.USM_AUTH_HMAC96_MD5,
    "sha1": config.USM_AUTH_HMAC96_SHA,
    "sha224": config.USM_AUTH_HMAC128_SHA224,
    "sha256": config.USM_AUTH_HMAC192_SHA256,
    "sha384": config.USM_AUTH_HMAC256_SHA384,
    "sha512": config.USM_AUTH_HMAC384_SHA512,
}
PRIVACY: dict[str, Any] = {
    "des": config.USM_PRIV_CBC56_DES,
    "aes128": config.USM_PRIV_CFB128_AES,
    "aes192": config.USM_PRIV_CFB192_AES_BLUMENTHAL,
    "aes256": config.USM_PRIV_CFB256_AES_BLUMENTHAL,
    "aes192-reeder": config.USM_PRIV_CFB192_AES,
    "aes256-reeder": config.USM_PRIV_CFB256_AES,
}


@pytest.mark.parametrize("protocol", AUTHENTICATION_PROTOCOLS)
async def test_pysnmp(serve_version_3: ServeVersion3, protocol: str) -> None:
    agent = SmallAgent()
    port, counters = serve_version_3(agent.store)
    # An engine takes far longer to make than a request: it has all users of the protocol.
    manager = engine.SnmpEngine()
    config.add_transport(manager, udp.DOMAIN_NAME, udp.UdpTransport().open_client_mode())
    try:
        for privacy in PRIVACY_PROTOCOLS:
            name = f"{protocol}-{privacy}"
            config.add_v3_user(
                manager, name, AUTHENTICATION[protocol], AUTH_PASSPHRASE, PRIVACY[privacy], PRIV_PASSPHRASE
            )
            config.add_target_parameters(manager, name, name, "authPriv")
            config.add_target_address(
                manager, name, udp.DOMAIN_NAME, ("127.0.0.1", port), name, timeout=2_000, retryCount=0
            )
            failure, status, index, (oid, value) = await description(manager, name)
            assert (failure, status, index) == (None, 0, 0), name
            assert (tuple(oid), bytes(value)) == (DESCRIPTION, TEXT[2:]), name
    finally:
        manager.close_dispatcher()
    assert counters.get_requests == len(PRIVACY_PROTOCOLS)


async def description(manager: Any, target: str) -> list[Any]:  # noqa: ANN401  pysnmp has no types
    """Ask for the description of the system; return failure, status, index and varbinds."""
    answered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def receive(*answer: Any) -> None:  # noqa: ANN401
        _, _, failure, status, index, varbinds, _ = answer
        answered.set_result([failure, int(status), int(index), *varbinds])

    cmdgen.GetCommandGenerator().send_varbinds(manager, target, None, "", [(DESCRIPTION, None)], receive)
    return await answered
