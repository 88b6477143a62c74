"""The source turns every delivery of the event exchange into an event, or counts it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sources.rabbitmq.event_headers import readable_headers
from tests.components.shipped_mappings import shipped_mappings
from tests.hypothesis_profiles import examples
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.story import world

MAPPING = shipped_mappings()["rabbitmq"]
TRIGGERS = sorted({rule.trigger for rule in MAPPING.events.values() if rule.trigger})
HEADERS = sorted(
    {
        *("name", "vhost", "node", "source", "component", "error", "client_properties", "peer_host"),
        *("connection_name", "protocol", "tags", "value", "definition", "priority", "user"),
    }
)


@settings(max_examples=examples())
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*TRIGGERS, "user.authentication.success"]),
            st.dictionaries(st.sampled_from(HEADERS), any_json() | st.sampled_from(["/", "orders"])),
        ),
        max_size=5,
    )
)
def test_no_headers_stop_the_agent(events: list[tuple[str, dict[str, object]]]) -> None:
    shop = world()
    for key, headers in events:
        shop.event(key, **headers)
    shop.run(1)
    received = len(shop.observations)
    shop.event("user.deleted", name="bob")
    assert [event.name for event in shop.events(received)] == ["userDeleted"]


def test_every_event_of_the_mapping_has_a_text_of_its_own_arguments() -> None:
    for name, rule in MAPPING.events.items():
        rule.text.format(**dict.fromkeys(rule.arguments, "?"))
        assert rule.text, name
        assert rule.description, name


def test_alarms_have_texts_of_their_own_elements() -> None:
    for class_rule in MAPPING.classes.values():
        elements = {**class_rule.properties, **class_rule.statistics, "name": None}
        for rule in class_rule.alarms.values():
            rule.text.format(**dict.fromkeys(elements, "?"))


def test_headers_become_what_the_management_api_would_report() -> None:
    assert readable_headers(
        {
            "client_properties": ['{<<"product">>,longstr,<<"Till">>}'],
            "peer_host": "{10,0,0,9}",
            "protocol": "{'Direct',{0,9,1}}",
            "error": [110, 111, "x", 2**40],
            "name": "kept",
        }
    ) == {
        "client_properties": {"product": "Till"},
        "peer_host": "10.0.0.9",
        "protocol": "Direct 0-9-1",
        "error": "no",
        "name": "kept",
    }


def test_the_documentation_reports_every_event_and_alarm() -> None:
    page = (Path(__file__).parents[3] / "docs" / "rabbitmq.md").read_text(encoding="utf-8")
    alarms = [name for rule in MAPPING.classes.values() for name in rule.alarms]
    assert [name for name in (*MAPPING.events, *alarms) if f"`{name}`" not in page] == []
