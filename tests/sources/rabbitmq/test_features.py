"""Feature flags, deprecated features, operator policies and permissions, as objects."""

from __future__ import annotations

from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.features import Features
from gateway.sources.rabbitmq.management_api import (
    Answer,
    ListingRequest,
    ManagementRequest,
    NotFound,
    Refused,
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
    """Whether as the administrator, for each time that a class was asked for."""
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
    shop.source_does(shop.source.events_connected(shop.now))
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
    shop.source_does(shop.source.events_connected(shop.now))
    shop.run(20)
    assert shop.value("deprecatedFeature", TRANSIENT, "inUse") is True
    heard = len(shop.seen)
    shop.run(700)
    assert all(seen.key.name != "deprecatedFeature" or not seen.deleted for seen in shop.seen[heard:])
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
    """RabbitMQ 3.10 demands it, 4.x does not."""

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
    """The broker writes each refusal into its log."""

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
