"""The standard groups of a whole gateway below a root of its own, read with net-snmp."""

from __future__ import annotations

from pathlib import Path

from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import parse_oid
from gateway.snmp.mib.lint import base_folders
from gateway.snmp.mib.roots import write_rooted_modules
from tests.components.command_line import new_site, running
from tests.components.net_snmp import printed
from tests.components.ports import free_udp_port
from tests.components.waiting import wait_until

ROOT = "1.3.6.1.4.1.99999.7"


def test_a_gateway_lists_what_it_serves_and_counts_what_it_sends(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    receiver = {"address": f"127.0.0.1:{free_udp_port()}"}
    url = "http://127.0.0.1:1"
    unreachable = {"kind": "rabbitmq", "management": url, "user": "gateway", "password": site.secret("none")}
    site.configure(
        sources={"orders": unreachable},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "root": ROOT, "notifications": {"nms": receiver}},
        jmx={"enabled": False},
        policy={"principals": {"snmp:*": ["everything"]}},
    )
    write_rooted_modules(shipped_folder("mibs"), tmp_path / "mibs", parse_oid(ROOT))
    modules = ["-m", "ALL", "-M", ":".join(map(str, (*base_folders(), tmp_path / "mibs")))]
    access = ["-v2c", "-c", site.state.secret("community"), "-t", "20", f"127.0.0.1:{site.snmp_port}"]

    def values(subtree: str) -> dict[str, str]:
        walked = printed(tmp_path, "snmpwalk", *modules, "-Oqs", *access, subtree)
        return dict(line.split(" ", 1) for line in walked.stdout.splitlines() if " " in line)

    with running("run", "--config", site.configuration, log=tmp_path / "log"):
        wait_until(lambda: values(".1.3.6.1.2.1.11").get("snmpOutTraps.0", "0") != "0", "coldStart")
        system = values(".1.3.6.1.2.1.1")
        assert system["sysObjectID.0"] == "agGateway"
        listed = [text.split(":")[0] for name, text in system.items() if name.startswith("sysORDescr.")]
        assert listed[:9] == [
            "SNMPv2-MIB",
            "SNMP-FRAMEWORK-MIB",
            "SNMP-MPD-MIB",
            "SNMP-TARGET-MIB",
            "SNMP-NOTIFICATION-MIB",
            "SNMP-USER-BASED-SM-MIB",
            "NETWORK-SERVICES-MIB",
            "NOTIFICATION-LOG-MIB",
            "AMQP-GATEWAY-MIB",
        ]
        assert system["sysORID.1"] == "agSnmpv2Capabilities"
        first, second = values(".1.3.6.1.2.1.11"), values(".1.3.6.1.2.1.11")
        for name in ("snmpInPkts.0", "snmpOutPkts.0", "snmpInGetNexts.0", "snmpOutGetResponses.0"):
            assert int(second[name]) > int(first[name]), name
        services = ".1.3.6.1.2.1.27.1.1"
        wait_until(lambda: list(values(f"{services}.6").values()) == ["2"], "the source is down")
        assert any(url in text for text in values(f"{services}.17").values())
        logged = values(".1.3.6.1.2.1.92.1.3.1.1.9")
        assert next(iter(logged.values())).endswith("coldStart")
        targets = values(".1.3.6.1.6.3.12")
        assert targets["snmpTargetParamsSecurityName.'nms'"] == "nms"
