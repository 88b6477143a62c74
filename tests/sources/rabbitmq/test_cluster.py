"""Conclusions from several answers: features, nodes that fail, and queues without a majority."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from gateway.dialects.session import LinkDown, LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND, MINUTE, SECOND
from gateway.sources.rabbitmq.cluster import RECOVERY, Features, Nodes, NodeStart, ResourceAlarms
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    ListingRequest,
    ManagementRequest,
    NotFound,
    ObjectRequest,
    Refused,
    Unavailable,
    UsedFeaturesRequest,
)
from gateway.sources.rabbitmq.status import ADMINISTRATORS_ONLY
from tests.sources.rabbitmq.imitation import NODE, World
from tests.sources.rabbitmq.story import world

RIGHTS = Refused(login=False, reason="Not administrator user")
TRANSIENT = "transient_nonexcl_queues"


def flag(name: str, state: str = "enabled") -> dict[str, Json]:
    return {"name": name, "state": state, "stability": "stable", "provided_by": "rabbit", "desc": ""}


def asked(shop: World, class_name: str) -> list[bool]:
    """Return whether each request for a listing of the class was made as the administrator."""
    return [
        request.as_administrator
        for request in shop.broker.requests
        if isinstance(request, ListingRequest) and request.class_name == class_name
    ]


def test_definitions_are_in_khepri_where_its_flag_is_enabled() -> None:
    features = Features()
    assert features.metadata_store == ""
    for state, store in (("enabled", "khepri"), ("disabled", "mnesia")):
        features.listed_flag(flag("quorum_queue"))
        features.listed_flag(flag("khepri_db", state))
        features.flags_listed()
        assert features.metadata_store == store
    features.flags_listed()  # 3.10 has no such flag
    assert features.metadata_store == "mnesia"


def test_feature_flags_are_objects_and_a_node_shows_where_definitions_are() -> None:
    shop = World()
    shop.broker.objects["featureFlag"]["khepri_db",] = flag("khepri_db")
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(20)
    assert shop.names("featureFlag") == ["khepri_db"]
    assert shop.value("featureFlag", "khepri_db", "state") == "enabled"
    assert shop.value("node", NODE, "metadataStore") == "khepri"


def test_a_deprecated_feature_shows_whether_it_is_in_use_and_keeps_showing_it() -> None:
    shop = World()
    shop.broker.objects["deprecatedFeature"][TRANSIENT,] = {
        "name": TRANSIENT,
        "deprecation_phase": "permitted_by_default",
    }
    shop.broker.used_features = [{"name": TRANSIENT}]
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(20)
    assert shop.value("deprecatedFeature", TRANSIENT, "inUse") is True
    received = len(shop.seen)
    shop.run(700)
    assert all(seen.key.name != "deprecatedFeature" or not seen.deleted for seen in shop.seen[received:])
    assert shop.value("deprecatedFeature", TRANSIENT, "inUse") is True
    shop.broker.used_features = []
    shop.run(400)
    assert shop.value("deprecatedFeature", TRANSIENT, "inUse") is False


def test_a_broker_that_knows_neither_is_asked_seldom_and_all_is_well() -> None:
    def lacks(request: ManagementRequest) -> Answer | None:
        names = {"featureFlag", "deprecatedFeature"}
        return NotFound() if isinstance(request, ListingRequest) and request.class_name in names else None

    shop = World()
    shop.broker.failure = lacks
    shop.run(300)
    assert (len(asked(shop, "featureFlag")), len(asked(shop, "deprecatedFeature"))) == (1, 1)
    assert not any(isinstance(request, UsedFeaturesRequest) for request in shop.broker.requests)
    assert shop.source.status.state is SourceState.SYNCHRONISED


def test_flags_that_only_an_administrator_may_read_are_asked_for_as_one() -> None:
    """RabbitMQ 3.10 requires an administrator for feature flags; 4.x does not."""

    def refuses(request: ManagementRequest) -> Answer | None:
        if not isinstance(request, ListingRequest) or request.class_name != "featureFlag":
            return None
        return None if request.as_administrator else RIGHTS

    shop = World()
    shop.broker.failure = refuses
    shop.broker.objects["featureFlag"]["quorum_queue",] = flag("quorum_queue")
    shop.run(20)
    assert shop.names("featureFlag") == ["quorum_queue"]
    assert asked(shop, "featureFlag") == [False, True]
    assert "administrator" not in shop.source.status.detail


def test_permissions_belong_to_user_and_virtual_host_and_end_with_the_user() -> None:
    shop = world()
    shop.event("user.created", name="app")
    shop.broker.objects["permission"]["/", "app"] = {
        "vhost": "/",
        "user": "app",
        "configure": "",
        "write": "^app",
        "read": ".*",
    }
    shop.broker.objects["topicPermission"]["/", "app", "till"] = {
        "vhost": "/",
        "user": "app",
        "exchange": "till",
        "write": "w",
        "read": "r",
    }
    shop.broker.objects["user"]["app",] = {"name": "app", "tags": []}
    # RabbitMQ says by events that there are new ones, so that they are listed soon.
    shop.event("permission.created", vhost="/", user="app", configure="", write="^app", read=".*")
    shop.event("topic.permission.created", vhost="/", user="app", exchange="till", write="w", read="r")
    shop.run(3)
    assert (shop.names("permission"), shop.names("topicPermission")) == (["//app"], ["//app/till"])
    assert shop.value("permission", "app", "configure") == ""
    shop.event("permission.deleted", vhost="/", user="app")
    assert shop.names("permission") == []
    shop.event("user.deleted", name="app")
    assert shop.names("topicPermission") == []


def test_where_users_may_not_be_read_permissions_are_not_even_asked_for() -> None:
    """The broker logs each refusal, so that useless requests are avoided."""

    def refuses(request: ManagementRequest) -> Answer | None:
        wanted = {"user", "parameter", "permission", "topicPermission"}
        return RIGHTS if isinstance(request, ListingRequest) and request.class_name in wanted else None

    shop = World()
    shop.broker.failure = refuses
    shop.run(120)
    assert (len(asked(shop, "user")), asked(shop, "permission"), asked(shop, "topicPermission")) == (
        1,
        [],
        [],
    )
    assert shop.source.status.detail.count(ADMINISTRATORS_ONLY) == 1
    assert shop.source.status.state is SourceState.SYNCHRONISED
    # Somebody gives the right, which RabbitMQ says by an event.
    shop.broker.failure = lambda _: None
    shop.event("user.tags.set", name="gateway", tags=["administrator"])
    shop.run(10)
    assert (len(asked(shop, "permission")), len(asked(shop, "topicPermission"))) == (1, 1)
    assert ADMINISTRATORS_ONLY not in shop.source.status.detail


def test_an_operator_policy_is_no_policy() -> None:
    shop = world()
    policy: dict[str, Json] = {"vhost": "/", "name": "limit", "pattern": "^q", "priority": 1}
    shop.broker.objects["operatorPolicy"]["/", "limit"] = {**policy, "definition": {"max-length": 9}}
    value = {"pattern": "^q", "priority": 1, "definition": {"max-length": 9}, "apply-to": "queues"}
    shop.event("parameter.set", component="operator_policy", vhost="/", name="limit", value=value)
    shop.event("policy.set", vhost="/", name="limit", **value)
    shop.run(3)
    assert (shop.names("operatorPolicy"), shop.names("policy")) == (["//limit"], [])
    shop.event("operator.policy.cleared", vhost="/", name="limit")
    assert shop.names("operatorPolicy") == []


WITHOUT_REQUEST = {"user": "rmq-internal"}
"""The headers of RabbitMQ 3.10 for the end of a durable classic queue whose node went down."""
BY_ITSELF = {"user_who_performed_action": "rmq-internal"}
"""The headers for the end of that queue's bindings, and of queues that expire."""
BINDING: Mapping[str, str] = {
    "vhost": "/",
    "source_name": "till",
    "source_kind": "exchange",
    "destination_name": "bills",
    "destination_kind": "queue",
    "routing_key": "bills",
}
OTHER = "other@shop"


def shop_with_a_bound_queue(queue: Mapping[str, Json] = MappingProxyType({})) -> World:
    """Return a world with a queue ``bills`` on a second node, ``OTHER``, bound to an exchange ``till``.

    All of them are known.
    """
    shop = World()
    broker = shop.broker
    broker.add_node(uptime=3_600_000)
    broker.objects["node"][OTHER,] = {**broker.objects["node"][NODE,], "name": OTHER, "os_pid": "101"}
    broker.add_exchange("till", "/")
    reported: dict[str, Json] = {"node": OTHER, "state": "running", "messages": 7, **queue}
    broker.add_queue("bills", "/", **reported)
    broker.objects["binding"]["/", "till", "queue", "bills", "bills"] = {
        "vhost": "/",
        "source": "till",
        "destination": "bills",
        "destination_type": "queue",
        "routing_key": "bills",
        "properties_key": "bills",
        "arguments": {},
    }
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(30)
    assert shop.names("queue") == ["//bills"]
    assert len(shop.names("binding")) == 1
    return shop


def ended(shop: World) -> set[str]:
    return {one.key.name for one in shop.seen if one.deleted}


def node_goes_down(shop: World) -> None:
    shop.broker.objects["node"][OTHER,] = {"name": OTHER, "type": "disc", "running": False}
    shop.broker.objects["binding"].clear()


def test_durable_queues_and_bindings_of_a_node_that_went_down_are_kept() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    shop.broker.objects["queue"]["/", "bills"] |= {"state": "down"}
    shop.event("binding.deleted", **BINDING, **BY_ITSELF)
    shop.event("queue.deleted", vhost="/", name="bills", **WITHOUT_REQUEST)
    assert shop.value("queue", "bills", "state") == "down"
    assert shop.value("queue", "bills", "messages") is None
    shop.run(300)
    assert ended(shop) == set()
    assert not [event for event in shop.events() if event.name == "queueDeleted"]


def test_what_is_not_listed_while_its_node_starts_is_kept_without_values() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    queue = shop.broker.objects["queue"].pop(("/", "bills"))
    shop.run(60)
    assert ended(shop) == set()
    assert (shop.value("queue", "bills", "state"), shop.value("queue", "bills", "messages")) == (None, None)
    shop.broker.objects["node"][OTHER,] = {**shop.broker.objects["node"][NODE,], "name": OTHER, "uptime": 500}
    shop.run(20)
    assert ended(shop) == set()
    shop.broker.objects["queue"]["/", "bills"] = queue
    shop.run(20)
    assert (shop.value("queue", "bills", "state"), shop.value("queue", "bills", "messages")) == ("running", 7)
    assert ended(shop) == set()


def test_what_is_not_there_long_after_its_node_started_has_ended() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    del shop.broker.objects["queue"]["/", "bills"]
    shop.run(60)
    shop.broker.objects["node"][OTHER,] = {**shop.broker.objects["node"][NODE,], "name": OTHER, "uptime": 500}
    for _ in range(RECOVERY // SECOND + 60):
        shop.run(1)
        uptime = shop.broker.objects["node"][OTHER,]["uptime"]
        assert isinstance(uptime, int)
        shop.broker.objects["node"][OTHER,]["uptime"] = uptime + SECOND // MILLISECOND
    assert ended(shop) == {"queue", "binding"}


def node_starts(shop: World, uptime: int = 3_700_000) -> None:
    """Start the node again, in the same process: only a new one begins with an uptime of zero."""
    shop.broker.objects["node"][OTHER,] = {
        **shop.broker.objects["node"][NODE,],
        "name": OTHER,
        "os_pid": "101",
        "uptime": uptime,
    }


def time_passes(shop: World, seconds: int) -> None:
    """Let time pass, and the uptimes of all nodes that run."""
    for _ in range(seconds):
        shop.run(1)
        for node in shop.broker.objects["node"].values():
            if isinstance(uptime := node.get("uptime"), int):
                node["uptime"] = uptime + SECOND // MILLISECOND


def listings_fail(shop: World, class_name: str) -> None:
    """Answer 500 to listings of a class, so that its objects are read one by one."""
    shop.broker.failure = lambda request: (
        Broken("status 500")
        if isinstance(request, ListingRequest) and request.class_name == class_name
        else None
    )


def test_what_is_not_listed_while_its_node_starts_in_the_same_process_is_kept() -> None:
    """As after ``rabbitmqctl stop_app``, or the pause of a node in the minority: its uptime goes on."""
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    queue = shop.broker.objects["queue"].pop(("/", "bills"))
    time_passes(shop, 20)
    node_starts(shop)
    time_passes(shop, 30)
    assert ended(shop) == set()
    shop.broker.objects["queue"]["/", "bills"] = queue
    time_passes(shop, 20)
    assert shop.value("queue", "bills", "state") == "running"
    del shop.broker.objects["queue"]["/", "bills"]
    time_passes(shop, RECOVERY // SECOND + 30)
    assert ended(shop) == {"queue", "binding"}


@pytest.mark.parametrize("class_name", ["queue", "binding"])
def test_what_is_read_one_by_one_lives_on_while_its_node_does_not_run(class_name: str) -> None:
    """A node that stops answers 404 or 500 to a listing, and the next node 404 for a queue that is down."""
    shop = shop_with_a_bound_queue()
    queues, bindings = (shop.broker.objects[name] for name in ("queue", "binding"))
    shop.broker.add_queue("news", "/", state="running")
    news: dict[str, Json] = {"destination": "news", "routing_key": "news", "properties_key": "news"}
    bindings["/", "till", "queue", "news", "news"] = bindings["/", "till", "queue", "bills", "bills"] | news
    shop.run(40)
    listings_fail(shop, class_name)
    shop.broker.objects["node"][OTHER,] = {"name": OTHER, "type": "disc", "running": False}
    del bindings["/", "till", "queue", "bills", "bills"]
    if class_name == "queue":
        del queues["/", "bills"]
    else:
        queues["/", "bills"] |= {"state": "down"}
    time_passes(shop, 70)
    node_starts(shop)
    time_passes(shop, 40)
    assert ended(shop) == set()
    if class_name == "binding":
        queues["/", "bills"] |= {"state": "running"}
    time_passes(shop, 60)
    assert class_name in ended(shop), "its node runs, and the broker does not have it"


def test_a_404_of_a_queue_is_no_proof_before_its_node_was_listed_again() -> None:
    """The node may just have stopped, which its listing shows only some seconds later."""
    shop = shop_with_a_bound_queue()
    shop.source_does(shop.source.handle(LinkDown("the node of the events ended"), shop.now))
    shop.broker.failure = lambda request: (
        Unavailable("no answer within 8 s", late=True) if request.target.startswith("nodes") else None
    )
    queue = shop.broker.objects["queue"].pop(("/", "bills"))
    shop.run(40)
    assert any(isinstance(one, ObjectRequest) for one in shop.broker.requests), "it was asked for"
    assert ended(shop) == set()
    shop.broker.objects["queue"]["/", "bills"] = queue | {"state": "down"}
    shop.broker.failure = lambda _: None
    node_goes_down(shop)
    shop.run(60)
    assert ended(shop) == set()


@pytest.mark.parametrize(
    ("queue", "headers"),
    [
        ({}, {"user_who_performed_action": "app"}),
        ({}, BY_ITSELF),
        ({"durable": False}, WITHOUT_REQUEST),
        ({"exclusive": True}, WITHOUT_REQUEST),
    ],
    ids=["deleted by a user", "expired", "not durable", "exclusive"],
)
def test_any_other_end_that_is_reported_is_one(queue: dict[str, Json], headers: dict[str, str]) -> None:
    shop = shop_with_a_bound_queue(queue)
    shop.broker.objects["queue"].clear()
    shop.broker.objects["binding"].clear()
    shop.event("queue.deleted", vhost="/", name="bills", **headers)
    shop.run(1)
    assert ended(shop) == {"queue", "binding"}


def nodes(running: str) -> Nodes:
    """Return a listing of a cluster with a node for each letter: ``r`` for one that runs."""
    known = Nodes()
    for number, letter in enumerate(running):
        known.completed({"name": f"rabbit-{number}@localhost", "running": letter == "r"}, 0)
    return known


@pytest.mark.parametrize("running", ["", "r", "rr", "rrr", "rrs", "rrrss"])
def test_changes_do_not_wait_where_a_majority_runs(running: str) -> None:
    assert nodes(running).without_majority == ""


@pytest.mark.parametrize(
    ("running", "text"), [("rss", "2 of 3"), ("rs", "1 of 2"), ("rrss", "2 of 4"), ("rrsss", "3 of 5")]
)
def test_changes_may_wait_where_none_runs(running: str, text: str) -> None:
    assert nodes(running).without_majority == (
        f"{text} nodes do not run: changes may wait until a majority runs, and are carried out then"
    )


def test_nodes_that_left_the_cluster_do_not_count() -> None:
    known = nodes("rss")
    known.retain({"rabbit-0@localhost"})
    assert known.without_majority == ""


def test_an_alarms_event_that_waited_does_not_outweigh_what_nodes_report_since() -> None:
    node: dict[str, Json] = {"name": "rabbit@one", "mem_alarm": False}
    alarms, now = ResourceAlarms(), 1_000 * SECOND
    for happened, shown in ((now - 120 * SECOND, False), (now - SECOND, True)):
        alarms.event("alarm.set", {"node": "rabbit@one", "source": "memory"}, happened)
        assert alarms.completed(node, now)["mem_alarm"] is shown
        alarms.listed(node, now)
        assert alarms.blocked is shown


@pytest.mark.parametrize(("running", "shown"), [(True, True), (False, None)])
def test_a_document_of_a_running_node_without_its_alarms_ends_none(
    *, running: bool, shown: bool | None
) -> None:
    alarms, now = ResourceAlarms(), 1_000 * SECOND
    alarms.listed({"name": "rabbit@one", "running": True, "mem_alarm": True}, now)
    poor: dict[str, Json] = {"name": "rabbit@one", "running": running}
    alarms.listed(poor, now + MINUTE)
    assert alarms.completed(poor, now + MINUTE).get("mem_alarm") is shown


def test_a_document_of_a_running_node_without_its_partitions_ends_none() -> None:
    known, others = Nodes(), ["rabbit@two"]
    node: dict[str, Json] = {"name": "rabbit@one", "running": True}
    measured: dict[str, Json] = {**node, "os_pid": "1", "uptime": 60_000}

    def shown(document: dict[str, Json], seconds: int) -> Json:
        return known.completed(document, 1_000 * SECOND + seconds * SECOND)[0].get("partitions")

    assert shown(node, 0) is None, "of nothing before"
    assert shown({**measured, "partitions": [*others]}, 5) == others
    assert shown(node, 10) == others
    assert shown({**measured, "uptime": 70_000}, 15) == others
    assert shown({**measured, "partitions": []}, 20) == []
    assert shown({**measured, "partitions": [*others]}, 25) == others
    assert shown({**measured, "os_pid": "2", "uptime": 500}, 30) is None, "it was started again"
    assert shown({**measured, "os_pid": "2", "partitions": [*others]}, 35) == others
    assert shown({**node, "running": False}, 40) is shown(node, 45) is None


@pytest.mark.parametrize(
    ("began", "present", "same"),
    [(-3600, -3600, True), (-420, -420, True), (-3600, -100, False), (-3600, 60, False)],
)
def test_a_process_of_long_before_goes_on_however_seldom_its_uptime_is_renewed(
    began: int, present: int, *, same: bool
) -> None:
    """In a container each process has the same id. Here the uptime is renewed every 120 s.

    ``began``, ``present``: when the run of before and the present one began, against the last reading (s).
    """
    known, last = Nodes(), 10_000 * SECOND
    known.former_until = last
    former = known.former[NODE] = NodeStart("1", last + began * SECOND)
    read_at = last + 200 * SECOND
    uptime = (read_at - 119 * SECOND - last - present * SECOND) // MILLISECOND
    known.completed({"name": NODE, "running": True, "os_pid": "1", "uptime": uptime}, read_at)
    assert known.is_start(NODE, former) is same


def test_where_nodes_were_not_read_since_the_start_they_may_still_start() -> None:
    now = 10_000 * SECOND
    known = Nodes()
    assert known.is_unsettled(NODE, now, RECOVERY, now - SECOND)
    known.former = {NODE: NodeStart("1", SECOND)}
    assert not known.is_unsettled(NODE, now, RECOVERY, now - SECOND), "a single one answers nothing then"
    known.former["rabbit@other"] = NodeStart("2", SECOND)
    assert known.is_unsettled(NODE, now, RECOVERY, now - SECOND)
    for name in (NODE, "rabbit@other"):
        known.completed({"name": name, "running": True}, now - SECOND)
    assert not known.is_unsettled(NODE, now, RECOVERY, now - SECOND)
    assert not known.is_unsettled("rabbit@left", now, RECOVERY, now - SECOND)


@pytest.mark.parametrize(
    ("members", "online", "critical"),
    [("abc", "abc", False), ("abc", "ab", True), ("abc", "a", True), ("ab", "ab", True), ("a", "a", None)],
)
def test_a_queue_that_the_next_node_would_stop_is_quorum_critical(
    members: str,
    online: str,
    critical: bool | None,  # noqa: FBT001  a parameter of the test
) -> None:
    shop = world()
    shop.broker.add_queue("orders", type="quorum", members=[*members], online=[*online])
    shop.run(12)
    assert shop.value("queue", "orders", "quorumCritical") is critical


def test_a_node_shows_its_listeners() -> None:
    nodes = Nodes()
    listener: dict[str, Json] = {"node": NODE, "protocol": "amqp", "ip_address": "::", "port": 5672}
    nodes.learn_overview({"listeners": [listener, {**listener, "node": "rabbit@b"}, "strange"]})
    node, _ = nodes.completed({"name": NODE, "running": True}, 60 * SECOND)
    shown = node["gateway"]
    assert isinstance(shown, Mapping)
    assert shown["listeners"] == ["amqp [::]:5672"]
