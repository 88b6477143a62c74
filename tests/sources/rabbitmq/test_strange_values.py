"""JSON of every type in every key of a listing: what cannot be read of an object is absent, the rest is read.

Of each class one object is listed without a key, and others with values of other types in its place. All are
shown alike, the other objects as before, and the source goes on. Objects that are known already live on.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.session import LinkUp, LossSuspected
from gateway.mapping.paths import Json, compile_path
from gateway.model.schema import Element
from gateway.model.values import ValueType
from gateway.sources.rabbitmq.cluster import listing_columns
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    CertificatesRequest,
    Document,
    ListingRequest,
    ManagementRequest,
    NodeMemoryRequest,
    ObjectRequest,
    OverviewRequest,
    OwnerRequest,
    PermissionRequest,
    SessionsRequest,
    UsedFeaturesRequest,
    UsersRequest,
)
from gateway.sources.rabbitmq.node_details import memory_parts
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ByteName, ByteNames, ObjectName
from gateway.sources.rabbitmq.reading import class_readers
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import AnswerReceived, Work, WorkContinues
from tests.hypothesis_profiles import PROVING, examples
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import MAPPING, NODE, World
from tests.sources.rabbitmq.story import CONNECTED_AT

READERS = class_readers(MAPPING)
LISTED = [name for name, reader in READERS.items() if reader.rule.listing]
CLIENT = "peer -> us"
STRANGE: tuple[Json, ...] = tuple(
    json.loads(
        """[null, true, false, 0, -1, 1180591620717411303424, 1.5, 1e300, "x", "", "\\ud800", [], {}, [[]],
        [{}], [null, "x"], {"x": {}}, {"x": []}, [{"name": {}, "version": []}]]"""
    )
)
SAMPLES: Mapping[ValueType, Json] = {
    ValueType.BOOL: True,
    ValueType.STRING: "text",
    ValueType.REFERENCE: "text",
    ValueType.MAP: {"x": 1},
    ValueType.LIST: ["x"],
}
NEEDED: Mapping[str, Json] = {
    "applications": [{"name": "rabbit", "version": "4.0.5"}],
    "rates_mode": "basic",
    "cluster_state": {NODE: "running"},
    "effective_policy_definition": {"single-active-consumer": True},
    "single_active_consumer_tag": "tag",
    "single_active_consumer_ctag": "tag",
    "members": [NODE, "rabbit@b", "rabbit@c"],
    "online": [NODE, "rabbit@b"],
    "client_properties": {"product": "shop", "connection_name": "till", "client_id": "till"},
    "error": "text",
    "reason": "text",
}
NAMES: Mapping[str, Mapping[str, Json]] = {
    "queue": {"vhost": "/", "type": "quorum", "state": "running", "node": NODE},
    "exchange": {"vhost": "/"},
    "connection": {"vhost": "/", "node": NODE},
    "channel": {"connection_details.name": CLIENT, "node": NODE},
    "consumer": {
        "queue.vhost": "/",
        "queue.name": "orders",
        "channel_details": {"name": "", "connection_name": CLIENT},
    },
    "streamConsumer": {"queue.vhost": "/", "queue.name": "orders", "connection_details.name": CLIENT},
    "streamPublisher": {"queue.vhost": "/", "queue.name": "orders", "connection_details.name": CLIENT},
    "binding": {"vhost": "/", "source": "till", "destination_type": "queue", "destination": "orders"},
    "policy": {"vhost": "/"},
    "operatorPolicy": {"vhost": "/"},
    "parameter": {"vhost": "/", "component": "shovel"},
    "permission": {"vhost": "/"},
    "topicPermission": {"vhost": "/", "user": "app"},
    "shovel": {"vhost": "/", "state": "running"},
    "federationLink": {"vhost": "/", "exchange": "text", "queue": "", "upstream": "up"},
}
"""Of each class what its objects refer to, and what several of them have in common of their names."""
OWN_KEY: Mapping[str, str] = {
    "consumer": "consumer_tag",
    "streamConsumer": "subscription_id",
    "streamPublisher": "publisher_id",
    "binding": "properties_key",
    "permission": "user",
    "topicPermission": "exchange",
    "federationLink": "id",
}
"""The key that distinguishes the objects of a class, where it is not ``name``."""


def put(document: dict[str, Json], path: str, value: Json) -> None:
    """Set the value at a dotted path."""
    *above, last = path.split(".")
    for key in above:
        document = cast("dict[str, Json]", document.setdefault(key, {}))
    document[last] = value


def whole(class_name: str) -> dict[str, Json]:
    """Return a document that has every key that is read of the objects of a class."""
    reader = READERS[class_name]
    rules = {**reader.rule.properties, **reader.rule.statistics}
    document: dict[str, Json] = {}
    for element in reader.schema.elements:
        sample = SAMPLES.get(element.type, 5)
        for column in compile_path(rules[element.name].read or element.name).columns:
            if not column.startswith("gateway."):
                put(document, column, element.values[0].label if element.values else sample)
    for column in listing_columns(reader):
        key = column.partition(".")[0]
        document[key] = NEEDED.get(key, document.get(key, "text"))
    for path, value in NAMES.get(class_name, {}).items():
        put(document, path, value)
    return document


def paths_of(document: Json, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of every value in a document."""
    for key, value in document.items() if isinstance(document, Mapping) else ():
        yield (*above, key)
        yield from paths_of(value, (*above, key))


def at(document: Json, path: tuple[str, ...]) -> Json:
    for key in path:
        document = cast("Mapping[str, Json]", document)[key]
    return document


def changed(document: dict[str, Json], path: tuple[str, ...], *value: Json) -> dict[str, Json]:
    """Return a document with this value at a place, or with none."""
    new = copy.deepcopy(document)
    inner = cast("dict[str, Json]", at(new, path[:-1]))
    inner.pop(path[-1])
    if value:
        inner[path[-1]] = value[0]
    return new


def is_strange(value: Json, usual: Json) -> bool:
    """Return whether a value is of another type than the usual one, and cannot stand for such a value."""
    match usual:
        case bool():
            return not isinstance(value, bool)
        case int():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return not is_number and not (isinstance(value, str) and value[:1].isdigit())
        case Mapping():
            return not isinstance(value, Mapping) and value != []  # an empty list of Erlang's
    return not isinstance(value, type(usual))


def is_compared(class_name: str, path: tuple[str, ...]) -> bool:
    """Return whether the object with another value there has its name, and is shown without the value."""
    rules = READERS[class_name].rule.properties
    index = [element.name for element in READERS[class_name].schema.properties if element.index]
    names = {compile_path(rules[name].read or name).columns[-1].split(".")[0] for name in index}
    return path[0] not in names | NAMING and (path[0] in DIVIDED or len(path) == 1)


NAMING = frozenset({"vhost", "exchange", "channel_details", "consumer_tag"})
"""Keys by which the source works out the name of an object."""
REQUIRED = frozenset({("queue", "exclusive")})
"""Keys without which a value is supposed, and with an unreadable one the object is shown as unread."""
DIVIDED = frozenset(
    {"applications", "message_stats", "limits", "queue", "connection_details", "local_channel"}
)
"""Keys of objects of which some values are shown, and not the whole."""


class Shelf:
    """Objects of one class in one listing, which differ in one key.

    Attributes:
        alike: for each key the number of the object without it, and of those with strange values.
    """

    def __init__(self, class_name: str, strange: Iterable[Json]) -> None:
        self.class_name = class_name
        self.documents: list[dict[str, Json]] = []
        self.alike: dict[tuple[str, ...], list[int]] = {}
        document = whole(class_name)
        self.key = OWN_KEY.get(class_name, "name")
        values = list(strange)
        for path in paths_of(document):
            usual = at(document, path)
            wrong = [value for value in values if is_strange(value, usual)]
            numbers = [self._add(changed(document, path))]
            numbers += [self._add(changed(document, path, value)) for value in wrong]
            if is_compared(class_name, path):
                self.alike[path] = numbers
        for value in values:  # without a name
            self.documents.append({**document, self.key: value})
        self.documents += cast("list[dict[str, Json]]", values)
        self.good = self._add(document)

    def _add(self, document: dict[str, Json]) -> int:
        number = len(self.documents)
        if self.key not in document:
            self.documents.append(document)
        else:
            self.documents.append({**document, self.key: number if self._is_number else f"one{number}"})
        return number

    @property
    def _is_number(self) -> bool:
        return self.key.endswith("_id")

    def listed_in(self, shop: World) -> None:
        """Have the objects listed beside those that the broker has."""
        if self.class_name == "permission":
            for number in range(len(self.documents)):
                shop.broker.objects["user"][f"one{number}",] = {"name": f"one{number}", "tags": []}
        usual = [*shop.broker.objects[self.class_name].values()]
        shop.broker.failure = lambda request: (
            Document([*usual, *self.documents])
            if isinstance(request, ListingRequest) and request.class_name == self.class_name
            else None
        )

    def found(self, shop: World) -> dict[int, tuple[object, ...]]:
        """Return the values of the objects that are known, by number, without what names them."""
        index = {n for n, one in enumerate(READERS[self.class_name].schema.properties) if one.index}
        return {
            number: (
                *(
                    None if value == f"one{number}" else value
                    for n, value in enumerate(known.properties)
                    if n not in index
                ),
                *known.statistics,
                bool(known.unread_since),
            )
            for known in shop.source.known(self.class_name)
            if (number := self._number(known)) is not None
        }

    def _number(self, known: KnownObject) -> int | None:
        for part in reversed(known.name.parts):
            text = part.removeprefix("one")
            if text.isdigit() and (self._is_number or part != text):
                return int(text)
        return None


def shop_with(shelf: Shelf) -> World:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.add_queue("orders", messages=3)
    shop.broker.add_connection(CLIENT, CONNECTED_AT)
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["user"]["app",] = {"name": "app", "tags": []}
    shop.broker.objects["node"][NODE,]["rates_mode"] = "basic"
    shelf.listed_in(shop)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(3)
    return shop


def judge(class_name: str, strange: Iterable[Json]) -> None:
    shelf = Shelf(class_name, strange)
    shop = shop_with(shelf)
    found = shelf.found(shop)
    assert shelf.good in found, "an object with usual values"
    for path, (lacking, *others) in shelf.alike.items():
        usual = found.get(lacking, ())
        for number in others:
            values = found.get(number, ())
            wrong = path, at(shelf.documents[number], path)
            assert len(values) == len(usual) or (not values and (class_name, *path) in REQUIRED), wrong
            # Of what a document lacks another value may be known, as where a limit is not set.
            assert all(one in (None, other) for one, other in zip(values, usual, strict=False)), wrong
    assert shop.names("queue").count("//orders") == 1
    assert shop.value("queue", "orders", "messages") == 3
    assert shop.names("connection").count(CLIENT) == 1


@pytest.mark.parametrize("class_name", LISTED)
def test_a_value_of_another_type_is_absent_and_nothing_else(class_name: str) -> None:
    judge(class_name, STRANGE[11:14] if class_name == "vhost" else STRANGE)  # each makes a request of its own


@pytest.mark.parametrize("class_name", LISTED)
@settings(max_examples=max(1, examples() // 15))
@given(strange=st.lists(any_json(), min_size=3, max_size=6))
def test_so_is_any_other_value(class_name: str, strange: list[Json]) -> None:
    judge(class_name, strange)


Values = tuple[object, ...]
KEPT: Final = frozenset({"osProcess", "partitions", "memoryAlarm", "diskFreeAlarm"})
"""Elements of a node that are as before while its documents do not say otherwise."""


class KnownShelf(Shelf):
    """Objects that were listed well, of which later listings show other values in some keys.

    Of each key there is an object that never had it.

    Attributes:
        strange: of each object the values that are shown later, by their places.
        usual: their documents before and after.
        before: their values then, by number.
        lives: their numbers in the source, by number.
    """

    def __init__(self, class_name: str, strange: Iterable[Mapping[tuple[str, ...], Json]]) -> None:
        super().__init__(class_name, ())
        self.lacking = {path: numbers[0] for path, numbers in self.alike.items()}
        self.strange = {self._add(whole(class_name)): dict(values) for values in strange}
        self.usual = self.documents
        self.shop = shop_with(self)
        self.shop.run(80)  # consumers are taken for such without a channel after 60 s
        self.before, self.lives = self.found(self.shop), self.lives_now()
        assert self.strange.keys() <= self.lives.keys(), "they are known"

    def found(self, shop: World) -> dict[int, Values]:
        """Return the same, without when a node was started: uptimes do not grow here."""
        names = [*(element.name for element in self.elements), "unread"]
        return {
            number: tuple(one for one, name in zip(values, names, strict=True) if name != "startTime")
            for number, values in super().found(shop).items()
        }

    def lives_now(self) -> dict[int, int]:
        every = self.shop.source.known(self.class_name)
        return {found: known.number for known in every if (found := self._number(known)) is not None}

    def shows(self, documents: list[dict[str, Json]]) -> dict[int, Values]:
        """Return the values of the objects, by number, once these were listed twice."""
        self.documents = documents
        for _ in range(2):
            asked = len(self.shop.broker.requests)
            self.read_all()
            self.shop.run(20)
            assert any(self.asks(request) for request in self.shop.broker.requests[asked:])
        return self.found(self.shop)

    def read_all(self) -> None:
        lost = LossSuspected("all is read again", self.shop.now)
        self.shop.source_does(self.shop.source.handle(lost, self.shop.now))

    def asks(self, request: ManagementRequest) -> bool:
        return isinstance(request, ListingRequest) and request.class_name == self.class_name

    def later(self) -> list[dict[str, Json]]:
        """Return the documents with the other values."""
        documents = list(self.usual)
        for number, values in self.strange.items():
            for path, value in sorted(values.items(), key=lambda item: -len(item[0])):  # inner ones first
                documents[number] = changed(documents[number], path, value)
        return documents

    def expected(self, number: int) -> list[set[str]]:
        """Return which values an object may have while its listings have the strange ones.

        What is read elsewhere is as before. The rest is absent, or as where the key is lacking; what is fixed
        at creation may stay, as may some of a node. An object that lacks what each one has is unread, with
        its former values.
        """
        before, strange = self.before[number], self.strange[number]
        without = [self.before.get(self.lacking[path]) for path in strange]
        is_unread = any(
            (self.class_name, *path) in REQUIRED and one is not None for path, one in strange.items()
        )
        if is_unread or None in without:
            return [*({repr(value)} for value in before[:-1]), {repr(True)}]
        may: list[set[str]] = []
        for position, (value, element) in enumerate(zip(before, self.compared, strict=True)):
            may.append({repr(one[position]) for one in without if one is not None} - {repr(value)})
            is_read_there = element is not None and any(self._reads(element, path) for path in strange)
            if not may[-1] or (element and element.name in self.stays):
                may[-1].add(repr(value))
            if may[-1] != {repr(value)} or is_read_there:
                may[-1].add(repr(None))
        return may

    @property
    def elements(self) -> list[Element]:
        """The elements that do not name an object, in order."""
        schema = READERS[self.class_name].schema
        return [one for one in schema.elements if not one.index]

    @property
    def compared(self) -> list[Element | None]:
        """The element of each value of `found`; ``None`` for whether the object is unread."""
        return [*(one for one in self.elements if one.name != "startTime"), None]

    @functools.cached_property
    def stays(self) -> frozenset[str]:
        """The elements that may keep a value that listings do not have."""
        schema, keeps = READERS[self.class_name].schema, READERS[self.class_name].keeps
        return KEPT | {one.name for one, keep in zip(schema.properties, keeps, strict=True) if keep}

    def _reads(self, element: Element, path: tuple[str, ...]) -> bool:
        """Return whether an element is read at a place, or below it."""
        rule = READERS[self.class_name].rule
        read = {**rule.properties, **rule.statistics}[element.name].read or element.name
        place = ".".join(path)
        columns = (column.removeprefix("gateway.") for column in compile_path(read).columns)
        return any(f"{column}.".startswith(f"{place}.") for column in columns)

    def judge(self) -> None:
        """Check the objects while strange values are listed, and after."""
        found = self.shows(self.later())
        lives = self.lives_now()
        for number, strange in self.strange.items():
            if all(is_strange(value, at(whole(self.class_name), path)) for path, value in strange.items()):
                assert lives.get(number) == self.lives[number], strange
                for value, expected in zip(found[number], self.expected(number), strict=True):
                    assert repr(value) in expected, strange
        assert found[self.good] == self.before[self.good], "another object"
        assert self.shows(self.usual) == self.before
        assert self.lives_now().items() >= {self.good: self.lives[self.good]}.items()


def few(values: Sequence[Json], class_name: str, every: int) -> Sequence[Json]:
    """Return one of so many values, others for each class; all of them where much is to be proved."""
    return values if PROVING else values[LISTED.index(class_name) % every :: every]


def places_compared(class_name: str) -> list[tuple[str, ...]]:
    """Return the places of values of which it is known how the object is shown without them."""
    return [path for path in paths_of(whole(class_name)) if is_compared(class_name, path)]


@pytest.mark.parametrize("class_name", LISTED)
def test_a_known_object_lives_on_while_a_value_is_of_another_type(class_name: str) -> None:
    document, places = whole(class_name), places_compared(class_name)
    values = STRANGE[11:14] if class_name == "vhost" else few(STRANGE, class_name, 6)
    strange = [{path: one} for path in places for one in values if is_strange(one, at(document, path))]
    KnownShelf(class_name, strange).judge()


@pytest.mark.parametrize("class_name", LISTED)
@settings(max_examples=max(1, examples() // 15))
@given(data=st.data())
def test_so_it_does_while_several_are_of_any(class_name: str, data: st.DataObject) -> None:
    places = st.sampled_from(places_compared(class_name))
    several = st.dictionaries(places, any_json(), min_size=1, max_size=5)
    KnownShelf(class_name, data.draw(st.lists(several, min_size=1, max_size=8))).judge()


def no_listings(good: list[Json]) -> list[Json]:
    """Return answers that are no listings of these objects."""
    page: dict[str, Json] = {"items": good, "page": 1, "page_count": 1}
    return [
        {**page, "page_count": 10**20},
        {**page, "page_count": 2},  # whatever page is asked for
        {**page, "page": 2},
        {"error": "x"},
        {**page, "items": {"name": "one0"}},
        {**page, "page": 1.0},
        {**page, "page_count": "1"},
        {**page, "page": True},
        {**page, "page_count": None},
        {**page, "page": -1, "page_count": -1, "items": good[:1]},
        "text",
        5,
        None,
        good[0] if good else {},
    ]


@pytest.mark.parametrize("shown", [{}, {"exclusive": None}])
def test_a_queue_whose_document_does_not_say_that_it_is_exclusive_is_the_same_one(
    shown: Mapping[str, Json],
) -> None:
    """It ended, and another one began: of a stream, which is not exclusive, RabbitMQ does not say so."""
    shop = World()
    shop.broker.add_queue("orders", exclusive=True)
    shop.run(20)
    (queue,) = shop.source.known("queue")
    del shop.broker.objects["queue"]["/", "orders"]["exclusive"]
    shop.broker.objects["queue"]["/", "orders"] |= shown
    shop.run(30)
    assert [one.number for one in shop.source.known("queue")] == [queue.number]
    assert shop.value("queue", "orders", "exclusive") is True


@pytest.mark.parametrize("pages", [2, 10**20])
def test_a_listing_ends_although_every_page_is_the_first_one(pages: int) -> None:
    shop = World()
    shop.broker.add_queue("orders", messages=3)
    shop.broker.add_connection(CLIENT, CONNECTED_AT)
    page: Json = {
        "items": [dict(shop.broker.objects["queue"]["/", "orders"])],
        "page": 1,
        "page_count": pages,
    }
    shop.broker.failure = lambda request: (
        Document(page) if isinstance(request, ListingRequest) and request.class_name == "queue" else None
    )
    shop.run(20)
    listings = [one for one in shop.broker.requests if isinstance(one, ListingRequest)]
    assert sum(one.class_name == "queue" for one in listings) < 10
    assert shop.names("connection") == [CLIENT]
    assert "queues" in shop.source.status.detail


@pytest.mark.parametrize("class_name", LISTED)
def test_known_objects_live_on_while_answers_are_no_listing_or_items_have_no_name(class_name: str) -> None:
    shelf = KnownShelf(class_name, [{}, {}])
    shop, good = shelf.shop, cast("list[Json]", shelf.usual)
    listing = shop.broker.failure

    def fails(request: ManagementRequest) -> Answer | None:
        """Fail where a single object is asked for, which this broker does not know."""
        is_single = isinstance(request, ObjectRequest | OwnerRequest) or (
            isinstance(request, PermissionRequest) and request.virtual_host != "/"
        )
        return Broken("status 500") if is_single else listing(request)

    def instead(odd: Answer, request: ManagementRequest) -> Answer | None:
        return odd if shelf.asks(request) else fails(request)

    shop.broker.failure = fails
    for answer in few(no_listings(good), class_name, 14):
        shop.broker.failure = functools.partial(instead, Document(answer))
        shelf.read_all()
        shop.run(20)
        assert shelf.lives_now() == shelf.lives, answer
        assert [one[:-1] for one in shelf.found(shop).values()] == [one[:-1] for one in shelf.before.values()]
        asked = len(shop.broker.requests)
        shop.run(20)
        listings = [one for one in shop.broker.requests[asked:] if isinstance(one, ListingRequest)]
        assert {one.class_name for one in listings} - {class_name}, "others are read"
        assert sum(map(shelf.asks, listings)) < 10, answer
        shop.broker.failure = fails
        shop.run(120)
        assert shelf.found(shop) == shelf.before, answer
    number, other = shelf.strange
    for value in few(STRANGE, class_name, 9):
        for nameless in (value, {**shelf.usual[number], shelf.key: value}):
            if isinstance(value, str | int):
                continue  # that may be a name
            documents = cast("list[Json]", list(shelf.usual))
            documents[number] = nameless
            found = shelf.shows(cast("list[dict[str, Json]]", documents))
            assert shelf.lives_now() == shelf.lives, nameless
            assert (found[number][:-1], found[other]) == (shelf.before[number][:-1], shelf.before[other])
    assert shelf.shows(shelf.usual) == shelf.before


QUEUE = ObjectName("queue", ("/", "orders"))
ANSWERS: list[tuple[ManagementRequest, Json]] = [
    (
        OverviewRequest(),
        {
            "cluster_name": "shop",
            "node": NODE,
            "erlang_version": "25",
            "rabbitmq_version": "4.0.5",
            "disable_stats": False,
            "object_totals": {"queues": 1},
            "listeners": [{"node": NODE, "protocol": "amqp", "ip_address": "::", "port": 5672}],
        },
    ),
    (PermissionRequest("/"), {"items": [{"vhost": "/", "name": ""}], "page": 1, "page_count": 1}),
    (OwnerRequest(QUEUE), {"vhost": "/", "name": "orders", "owner_pid_details": {"name": CLIENT}}),
    (
        SessionsRequest(CLIENT),
        [
            {
                "channel_number": 0,
                "handle_max": 5,
                "incoming_window": 1,
                "incoming_links": [{"handle": 0, "link_name": "in", "target_address": "/queues/orders"}],
                "outgoing_links": [{"handle": 1, "source_address": "/queues/orders", "send_settled": True}],
            }
        ],
    ),
    (UsedFeaturesRequest(), [{"name": "transient_nonexcl_queues"}]),
    (NodeMemoryRequest(NODE), {"memory": {"plugins": 5, "connection_readers": 5}}),
    (CertificatesRequest(), {"expired": [{"node": NODE, "certfile_expires_on": ["2026-12-19 3:03:03"]}]}),
    (UsersRequest(), [{"name": "app", "tags": ["monitoring"]}]),
    (ObjectRequest(QUEUE, "queues"), {"vhost": "/", "name": "orders"}),
    (ObjectRequest(QUEUE, "queues", ("name",)), {**whole("queue"), "name": "orders"}),
    (ObjectRequest(ObjectName("policy", ("/", "all")), "policies", ("name",)), [whole("policy")]),
]


HEADERS: Mapping[str, Json] = {
    "name": "orders",
    "vhost": "/",
    "user": "app",
    "user_who_performed_action": "app",
    "node": NODE,
    "pid": "<1.2.3>",
    "connection": "<1.2.3>",
    "channel": "<1.2.4>",
    "number": 1,
    "owner_pid": "<1.2.3>",
    "source_name": "till",
    "source_kind": "exchange",
    "destination_name": "orders",
    "routing_key": "key",
    "destination_kind": "queue",
    "arguments": [],
    "durable": True,
    "auto_delete": False,
    "exclusive": False,
    "internal": False,
    "type": "direct",
    "protocol": "{0,9,1}",
    "source": "memory",
    "queue": "orders",
    "consumer_tag": "tag",
    "client_properties": [],
    "connected_at": 5,
    "host": "h",
    "component": "shovel",
    "value": {"pattern": "p"},
    "pattern": "p",
    "definition": {},
    "priority": 1,
    "tags": ["x"],
    "limits": {},
    "status": "running",
    "upstream": "up",
    "exchange": "till",
    "id": "i",
    "error": [65],
    "reason": [65],
    "connection_name": CLIENT,
    "timestamp_in_ms": 1_795_000_000_000,
}
"""Headers of all events together."""


def variants(document: Json, values: Iterable[Json]) -> Iterator[Json]:
    """Yield documents with each value in the place of the whole, and of each value in it."""
    inner = document.items() if isinstance(document, Mapping) else enumerate(cast("list[Json]", document))
    yield from values
    for key, value in list(inner):
        is_nested = isinstance(value, Mapping | list)
        for other in variants(value, values) if is_nested else values:
            new: Any = copy.copy(document)
            new[key] = other
            yield new


@pytest.mark.parametrize(("request_", "usual"), ANSWERS)
def test_any_other_answer_is_no_internal_error(request_: ManagementRequest, usual: Json) -> None:
    shop = shop_with(Shelf("user", ()))
    for answer in variants(usual, STRANGE):
        shop.source_does(shop.source.handle(AnswerReceived(request_, Document(answer), shop.now), shop.now))
        while shop.source.busy:
            shop.source_does(shop.source.handle(WorkContinues(Work.LISTING), shop.now))
    shop.run(30)
    assert shop.value("queue", "orders", "messages") == 3


@pytest.mark.parametrize("strange", STRANGE)
def test_a_part_of_the_memory_that_is_no_number_is_absent(strange: Json) -> None:
    shown = {"memory": {"plugins": strange, "connection_readers": 5}}
    parts = memory_parts(shown)
    assert parts.pop("connections") == 5
    assert not parts or not is_strange(strange, 5)


@settings(max_examples=examples() // 3)
@given(value=st.sampled_from(STRANGE) | any_json(), header=st.sampled_from(sorted(HEADERS)))
def test_a_header_of_any_type_is_no_internal_error(header: str, value: Json) -> None:
    shop = shop_with(Shelf("user", ()))
    for key in shop.source.event_keys:
        shop.event(key, **{**HEADERS, header: value})
    assert shop.names("connection")


def test_arguments_may_be_nested_as_deep_as_a_client_likes() -> None:
    names = ByteNames()
    names.learn([ByteName.of(b"till\xff")])
    arguments = functools.reduce(lambda inner, _: [inner], range(900), cast("Json", "x"))
    queue: Json = {"name": "till\ufffd", "arguments": arguments}
    assert cast("Mapping[str, Json]", names.named(queue))["name"] == "till\\xff"
