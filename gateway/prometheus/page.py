"""Pages that Prometheus reads, encoded by prometheus-client; and the page of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.feed.values import FeedValue
from gateway.prometheus.families import Family, number_of
from gateway.prometheus.objects import ShownObjects

UP: Final = "amqp_gateway_objects_up"
SOURCE_UP: Final = "amqp_gateway_objects_source_up"
LEFT_OUT: Final = "amqp_gateway_objects_left_out"
SERIES: Final = "amqp_gateway_objects_series"


def encode(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return body and content type of a page.

    Args:
        metrics: what is on it.
        accept: the request's header, which chooses between Prometheus' text format and OpenMetrics.
    """
    encoder, content_type = choose_encoder(accept)
    return encoder(_Page(metrics)), content_type


class _Page(Collector):
    """Metrics as an encoder of prometheus-client takes them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics_of(objects: ShownObjects, max_series: int) -> Iterator[Metric]:
    """Make the metrics of objects.

    Args:
        objects: what is shown.
        max_series: at most so many series. An object beyond is left out whole, and counted by its class.
    """
    up = Metric(UP, "1 where the gateway's core has sent everything; 0: no object is shown.", "gauge")
    up.add_sample(UP, {}, float(objects.is_whole))
    yield up
    sources = Metric(SOURCE_UP, "1 where the source is trusted; 0: none of its objects is shown.", "gauge")
    for name, is_trusted in objects.sources:
        sources.add_sample(SOURCE_UP, {"source": name}, float(is_trusted))
    yield sources
    left_out = Metric(LEFT_OUT, "Objects not shown because of metrics.objects.max_series.", "gauge")
    room = max_series
    for class_name in objects.classes:
        metrics, used, beyond = _metrics_of_class(objects, class_name, room)
        room -= used
        left_out.add_sample(LEFT_OUT, {"class": class_name}, float(beyond))
        yield from metrics
    yield left_out
    series = Metric(SERIES, "Series of objects that are shown.", "gauge")
    series.add_sample(SERIES, {}, float(max_series - room))
    yield series


def _metrics_of_class(objects: ShownObjects, class_name: str, room: int) -> tuple[list[Metric], int, int]:
    """Return the metrics of a class, how many series they have, and how many objects found no room."""
    metrics = {
        family.name: Metric(family.name, family.help, family.kind) for family in objects.families(class_name)
    }
    used = beyond = 0
    for labels, shown in objects.current(class_name):
        samples = [
            (family.name, sample)
            for position, family in shown.in_class.families.items()
            if (sample := _sample(family, labels, shown.values.get(position))) is not None
        ]
        if used + len(samples) > room:
            beyond += 1
            continue
        used += len(samples)
        for name, (suffix, sample_labels, value) in samples:
            metrics[name].add_sample(name + suffix, sample_labels, value)
    return [metric for metric in metrics.values() if metric.samples], used, beyond


def _sample(
    family: Family, labels: dict[str, str], value: FeedValue | None
) -> tuple[str, dict[str, str], float] | None:
    """Return suffix of the family's name, labels and number; ``None`` for a value that is no number."""
    if family.states:
        # A series of zero for each other state would be ten series for each queue.
        state = next((state for travels, state in family.states if value == travels), None)
        return None if state is None else ("", {**labels, "state": state}, 1.0)
    number = number_of(value)
    if number is None:
        return None
    return "_total" if family.kind == "counter" else "", labels, number * family.factor
