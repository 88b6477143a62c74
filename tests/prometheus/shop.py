"""The shop's classes as Prometheus sees them, and a core that publishes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from gateway.feed.cleared import ClearedFeed
from gateway.feed.records import ClassRecord, FeedMessage
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind, NamedValue
from gateway.model.values import ValueType
from gateway.prometheus.objects import KeptCounters, ShownObjects, encode, metrics_of
from tests.components.shop import HALL_CLASS, START, TILL_CLASS, Feeding

HALL = ClassRecord(
    HALL_CLASS,
    ClassSchema(
        ClassKey("shop", "hall"),
        (Element("name", ValueType.STRING, index=True), Element("open", ValueType.BOOL)),
    ),
    "name",
    "",
)
STATES = (NamedValue("idle", 0), NamedValue("busy", 1))
TILL = ClassRecord(
    TILL_CLASS,
    ClassSchema(
        ClassKey("shop", "till"),
        (
            Element("hallRef", ValueType.REFERENCE, index=True),
            Element("name", ValueType.STRING, index=True),
            Element("mode", ValueType.U8, values=STATES),
        ),
        (
            Element("coins", ValueType.U32, unit="coins"),
            Element("sales", ValueType.U64, unit="sales", kind=Kind.COUNTER, description="Sales so far."),
            Element("tapeOctets", ValueType.U64, unit="octets"),
            Element("lastSale", ValueType.TIME),
        ),
    ),
    "name",
    "hallRef",
)
MODE, COINS, SALES, TAPE, LAST_SALE = 2, 3, 4, 5, 6
EVERYTHING: Mapping[str, Sequence[str]] = {"*:*": ["*"]}

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Gateway(Feeding):
    """The front end, and its metrics."""

    classes: Mapping[str, Sequence[str]] = field(default_factory=lambda: EVERYTHING)
    cleared: ClearedFeed | None = None
    kept: Sequence[KeptCounters] = ()

    def __post_init__(self) -> None:
        self.objects = ShownObjects(self.classes, lambda: START, self.cleared, self.kept)

    def received(self, message: FeedMessage) -> None:
        self.objects.received(message)

    def disconnect(self) -> None:
        self.objects.disconnected("the core ended")

    def settle(self) -> None:
        """Do nothing: no work is deferred."""

    def text(self, max_series: int = 1000, accept: str = "") -> str:
        return encode(metrics_of(self.objects, max_series), accept)[0].decode()

    def series(self, prefix: str = "amqp_shop_", max_series: int = 1000) -> Series:
        """Return the values of samples by name and sorted labels."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.text(max_series))
            for sample in family.samples
            if sample.name.startswith(prefix)
        }

    def value(self, name: str, /, **labels: str) -> float | None:
        """Return the value of the sample of this name with at least these labels; ``None`` without one."""
        found = [
            value
            for (found_name, found_labels), value in self.series("").items()
            if found_name == name and labels.items() <= dict(found_labels).items()
        ]
        assert len(found) < 2, found
        return found[0] if found else None
