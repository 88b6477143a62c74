"""A reload while informs wait: a silent receiver gets what it may have by then, and nothing else."""

from __future__ import annotations

from pathlib import Path

from gateway.snmp.fixed_mib import HEALTH, TARGET_ENTRY, Health, NotificationObject, TargetColumn
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.components.command_line import Site, new_site, running
from tests.components.net_snmp import printed
from tests.components.waiting import wait_until
from tests.policy.evaluator import Evaluator
from tests.policy.facts import Expected
from tests.policy.published import core_at
from tests.policy.test_front_ends import MAPPINGS
from tests.policy.world import GATEWAY_ID
from tests.snmp.notifications.story import Received
from tests.snmp.notifications.udp_receiver import udp_receiver

WHO = "notify:desk"
BEFORE = "policy: {principals: {'notify:desk': [everything]}}"
AFTER = """
policy:
  roles:
    some:
      allow: [{read: ["*"], subscribe: ["*:*"]}]
      deny: [{subscribe: ["*:full", "*:connection*"]}, {sources: [depot], read: ["*"]}]
  principals: {"notify:desk": [some]}
"""
STAMP = 1


def test_what_waits_is_decided_by_the_policy_that_was_reloaded(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    with udp_receiver() as desk, core_at(tmp_path / "feed.sock") as core:
        informs = {"desk": {"address": desk.address, "kind": "inform", "rate": 1_000, "window": 100}}
        site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "notifications": informs})
        with running("process", "snmp", "--config", site.configuration, log=tmp_path / "snmp.log") as agent:
            agent.ready()
            wait_until(lambda: core.front_ends == 1, "the SNMP agent")
            core.apply(BEFORE)
            core.begin(STAMP)
            before = Expected(Evaluator(BEFORE, MAPPINGS), WHO, STAMP)
            wait_until(lambda: len(facts(desk.drain())) == len(before.events()), "all informs once")
            snapshots = scalar(site, (*HEALTH, Health.FEED_SNAPSHOTS, 0))
            core.apply(AFTER)
            wait_until(
                lambda: scalar(site, (*HEALTH, Health.FEED_SNAPSHOTS, 0)) > snapshots, "the other policy"
            )
            early = len(desk.drain())
            after = Expected(Evaluator(AFTER, MAPPINGS), WHO, STAMP)
            wanted = {(fact[1], fact[2]) for fact in after.events()}
            desk.answering = True
            wait_until(lambda: facts(desk.drain()[early:]) == wanted, "what is permitted")
            # What is drained is answered.
            wait_until(lambda: bool(desk.drain()) and target(site, TargetColumn.WAITING) == 0, "all answers")
            assert facts(desk.drain()[early:]) == wanted
            assert target(site, TargetColumn.FAILED) == len(before.events()) - len(wanted)


def facts(received: list[Received]) -> set[tuple[object, object]]:
    """Return ids and texts of the events of the core."""
    return {
        (one.event_id, one.content(NotificationObject.TEXT).decode())
        for one in received
        if one.event_id.startswith(f"{GATEWAY_ID}.")
    }


def target(site: Site, column: TargetColumn) -> int:
    return scalar(site, (*TARGET_ENTRY, column, *b"desk"))


def scalar(site: Site, oid: tuple[int, ...]) -> int:
    """Return a number that everybody sees."""
    name = ".".join(map(str, (*DEFAULT_ROOT, *oid)))
    how = ("-v2c", "-c", site.state.secret("community"), "-t", "30", "-m", "", "-Oqv")
    done = printed(site.folder / "snmp", "snmpget", *how, f"127.0.0.1:{site.snmp_port}", f".{name}")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
