"""The objects as Prometheus reads them, encoded by prometheus-client."""

from __future__ import annotations

from collections.abc import Iterator
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


def page(objects: ShownObjects, max_series: int, accept: str) -> tuple[bytes, str]:
    """Body and content type of an answer.

    Args:
        objects: what is shown.
        max_series: series of objects at most; objects beyond are left out whole, and counted by class.
        accept: the request's header, which chooses between Prometheus' text and OpenMetrics.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Objects(objects, max_series)), content_type


class _Objects(Collector):
    def __init__(self, objects: ShownObjects, max_series: int) -> None:
        self._objects = objects
        self._left = max_series
        self._max_series = max_series

    def collect(self) -> Iterator[Metric]:
        up = Metric(UP, "1 where the gateway's core has told everything; 0: no object is shown.", "gauge")
        up.add_sample(UP, {}, float(self._objects.is_whole))
        yield up
        sources = Metric(
            SOURCE_UP, "1 where the source is believed; 0: none of its objects is shown.", "gauge"
        )
        for name, believed in self._objects.sources:
            sources.add_sample(SOURCE_UP, {"source": name}, float(believed))
        yield sources
        left_out = Metric(
            LEFT_OUT, "Objects that are not shown because of metrics.objects.max_series.", "gauge"
        )
        for class_name in self._objects.classes:
            yield from self._of_class(class_name, left_out)
        yield left_out
        series = Metric(SERIES, "Series of objects that are shown.", "gauge")
        series.add_sample(SERIES, {}, float(self._max_series - self._left))
        yield series

    def _of_class(self, class_name: str, left_out: Metric) -> Iterator[Metric]:
        metrics = {
            family.name: Metric(family.name, family.help, family.kind)
            for family in self._objects.families(class_name)
        }
        beyond = 0
        for labels, shown in self._objects.current(class_name):
            samples = [
                (family.name, sample)
                for position, family in shown.in_class.families.items()
                if (sample := _sample(family, labels, shown.values.get(position))) is not None
            ]
            if len(samples) > self._left:
                beyond += 1
                continue
            self._left -= len(samples)
            for name, (suffix, sample_labels, value) in samples:
                metrics[name].add_sample(name + suffix, sample_labels, value)
        left_out.add_sample(LEFT_OUT, {"class": class_name}, float(beyond))
        yield from (metric for metric in metrics.values() if metric.samples)


def _sample(
    family: Family, labels: dict[str, str], value: FeedValue | None
) -> tuple[str, dict[str, str], float] | None:
    """Suffix of the family's name, labels and number; ``None`` where there is nothing to tell."""
    if family.states:
        # The states that it is not in would be ten series of zeros for each queue.
        state = next((state for travels, state in family.states if value == travels), None)
        return None if state is None else ("", {**labels, "state": state}, 1.0)
    number = number_of(value)
    if number is None:
        return None
    return "_total" if family.kind == "counter" else "", labels, number * family.factor
