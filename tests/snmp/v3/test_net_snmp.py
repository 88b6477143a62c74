"""net-snmp's commands as managers, with each protocol that they have, which are all of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from tests.snmp.net_snmp import dotted, printed, run
from tests.snmp.sample_data import ROOT, sample
from tests.snmp.sorted_oracle import SortedOracle
from tests.snmp.v3.conftest import AUTH_PASSPHRASE, PRIV_PASSPHRASE, ServeVersion3
from tests.snmp.v3.secured_agent import BOOTS, ENGINE_ID

AUTHENTICATION = {
    "md5": "MD5",
    "sha1": "SHA",
    "sha224": "SHA-224",
    "sha256": "SHA-256",
    "sha384": "SHA-384",
    "sha512": "SHA-512",
}
PRIVACY = {
    "des": "DES",
    "aes128": "AES",
    "aes192": "AES-192",
    "aes256": "AES-256",
    "aes192-reeder": "AES-192-C",
    "aes256-reeder": "AES-256-C",
}


def options(protocol: str, privacy: str = "", *, name: str = "", level: str = "") -> list[str]:
    """Return the options of a user by protocols; ``level`` is by default the highest of them."""
    level = level or ("authPriv" if privacy else "authNoPriv")
    words = ["-u", name or f"{protocol}-{privacy or 'aes128'}", "-l", level]
    words += ["-a", AUTHENTICATION[protocol], "-A", AUTH_PASSPHRASE]
    return words + (["-x", PRIVACY[privacy], "-X", PRIV_PASSPHRASE] if privacy else [])


@pytest.fixture(scope="module")
def data() -> SortedOracle:
    return sample(seed=3)


@pytest.mark.parametrize("protocol", AUTHENTICATION_PROTOCOLS)
@pytest.mark.parametrize("privacy", ["", *PRIVACY_PROTOCOLS])
async def test_each_pair_of_protocols(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path, protocol: str, privacy: str
) -> None:
    port, counters = serve_version_3(data.store)
    asked = sorted(data.instances)[:40:8]
    words = options(protocol, privacy)
    got = await run("snmpget", tmp_path, port, [*map(dotted, asked)], version="3", options=words)
    assert got == [printed(oid, data.instances[oid]) for oid in asked]
    following = [data.after(oid, 1)[0] for oid in asked]
    got = await run("snmpgetnext", tmp_path, port, [*map(dotted, asked)], version="3", options=words)
    assert got == [printed(*pair) for pair in following]
    assert (counters.unknown_engine_ids, counters.get_requests, counters.get_nexts) == (2, 1, 1)
    assert counters.wrong_digests + counters.decryption_errors + counters.parse_errors == 0


async def test_snmpbulkwalk_and_snmpbulkget(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    port, _ = serve_version_3(data.store)
    words = options("sha256", "aes128")
    walked = await run("snmpbulkwalk", tmp_path, port, [dotted(ROOT)], version="3", options=[*words, "-Cr50"])
    assert walked[:-1] == [printed(oid, value) for oid, value in sorted(data.instances.items())]
    got = await run(
        "snmpbulkget", tmp_path, port, [dotted(ROOT)], version="3", options=[*words, "-Cn0", "-Cr7"]
    )
    assert got == [printed(*pair) for pair in data.after(ROOT, 7)]


async def test_without_authentication(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    port, _ = serve_version_3(data.store)
    oid = min(data.instances)
    words = ["-u", "guest", "-l", "noAuthNoPriv"]
    got = await run("snmpget", tmp_path, port, [dotted(oid)], version="3", options=words)
    assert got == [printed(oid, data.instances[oid])]


async def test_snmpset_comes_to_the_agent(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    port, counters = serve_version_3(data.store)
    name = dotted(min(data.instances))
    words = options("sha512", "aes256")
    got = await run("snmpset", tmp_path, port, [name, "i", "7"], version="3", options=words)
    assert got[1] == "Reason: notWritable (That object does not support modification)"
    assert counters.set_requests == 1


async def test_the_engine_is_what_the_manager_says_it_is(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    """With engine id, boots and time on the command line there is no discovery."""
    port, counters = serve_version_3(data.store)
    oid = min(data.instances)
    words = [*options("sha256", "aes128"), "-e", ENGINE_ID.hex(), "-Z", f"{BOOTS},1"]
    got = await run("snmpget", tmp_path, port, [dotted(oid)], version="3", options=words)
    assert got == [printed(oid, data.instances[oid])]
    assert counters.unknown_engine_ids == 0


@pytest.mark.parametrize(
    ("words", "reason", "counter"),
    [
        (options("sha256", "aes128", name="no-one"), "Unknown user name", "unknown_user_names"),
        (options("sha384", "aes128", name="sha256-aes128"), "Authentication failure", "wrong_digests"),
        (options("sha256", "aes256", name="sha256-aes128"), "Decryption error", "decryption_errors"),
        (options("sha256", name="guest"), "Unsupported security level", "unsupported_security_levels"),
        ([*options("sha256"), "-n", "shop"], "Bad context specified", "unknown_contexts"),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)
async def test_the_manager_says_what_is_wrong(
    serve_version_3: ServeVersion3,
    data: SortedOracle,
    tmp_path: Path,
    words: list[str],
    reason: str,
    counter: str,
) -> None:
    port, counters = serve_version_3(data.store)
    got = await run("snmpget", tmp_path, port, [dotted(ROOT)], version="3", options=words)
    assert any(reason.lower() in line.lower() for line in got), got
    assert getattr(counters, counter) >= 1


async def test_a_lower_level_than_the_users(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    port, _ = serve_version_3(data.store)
    words = options("sha256", level="noAuthNoPriv")
    got = await run("snmpget", tmp_path, port, [dotted(ROOT)], version="3", options=words)
    assert got[:2] == ["Error in packet", "Reason: authorizationError (access denied to that object)"]


async def test_a_manager_with_another_time_takes_over_the_agents(
    serve_version_3: ServeVersion3, data: SortedOracle, tmp_path: Path
) -> None:
    port, counters = serve_version_3(data.store)
    oid = min(data.instances)
    words = [*options("sha256", "aes128"), "-e", ENGINE_ID.hex(), "-Z", f"{BOOTS - 1},99999"]
    got = await run("snmpget", tmp_path, port, [dotted(oid)], version="3", options=words)
    assert got == [printed(oid, data.instances[oid])]
    assert (counters.not_in_time_windows, counters.get_requests) == (1, 1)
