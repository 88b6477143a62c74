"""Samples of Prometheus' text format, as rabbitmq_prometheus writes it and as hostile peers might."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.dialects.errors import ProtocolError
from gateway.sources.rabbitmq.prometheus_samples import (
    MAX_LINE_BYTES,
    ExpositionReader,
    labels_of,
    value_of,
)

READY = "rabbitmq_detailed_queue_messages_ready"
TERM = "rabbitmq_detailed_raft_term_total"
BODY = b"""\
# TYPE rabbitmq_detailed_queue_messages_ready gauge
# HELP rabbitmq_detailed_queue_messages_ready Messages ready to be delivered to consumers
rabbitmq_detailed_queue_messages_ready{vhost="/",queue="orders"} 7
rabbitmq_detailed_queue_messages_ready{vhost="/",queue="} 9"} 1.2e1
# TYPE rabbitmq_detailed_queue_process_reductions_total counter
# HELP rabbitmq_detailed_queue_process_reductions_total Total number of queue process reductions
rabbitmq_detailed_queue_process_reductions_total{vhost="/",queue="orders"} 16609
# TYPE rabbitmq_detailed_raft_term_total counter
# HELP rabbitmq_detailed_raft_term_total Current Raft term number
rabbitmq_detailed_raft_term_total 0
rabbitmq_detailed_raft_term_total{vhost="/",queue="orders"} 3

"""
"""From RabbitMQ 3.10.8, except the second sample: raft_term_total has samples without labels there."""
SAMPLES = [
    (READY, b'vhost="/",queue="orders"', b"7"),
    (READY, b'vhost="/",queue="} 9"', b"1.2e1"),
    (TERM, b"", b"0"),
    (TERM, b'vhost="/",queue="orders"', b"3"),
]


def read(body: bytes, size: int, *wanted: str) -> list[tuple[str, bytes, bytes]]:
    """Return all samples of the ``wanted`` metrics in a body that is fed in parts of ``size`` bytes."""
    reader = ExpositionReader(wanted)
    parts = [reader.feed(body[start : start + size]) for start in range(0, len(body), size)]
    reader.finish()
    return [
        (samples.metric, labels, value)
        for part in parts
        for samples in part
        for labels, value in samples.samples
    ]


@pytest.mark.parametrize("size", [1, 7, 64, len(BODY)])
def test_samples_are_the_same_however_the_body_is_cut(size: int) -> None:
    assert read(BODY, size, READY, TERM) == SAMPLES


def test_a_metric_that_is_not_wanted_has_no_samples() -> None:
    assert read(BODY, 64, TERM) == SAMPLES[2:]
    assert read(BODY, 64) == []


def test_samples_may_stand_without_a_type() -> None:
    assert read(b'up{node="a"} 1 1700000000\nup 2\n', 5, "up") == [
        ("up", b'node="a"', b"1"),
        ("up", b"", b"2"),
    ]


def test_labels_are_unescaped() -> None:
    assert labels_of(rb'vhost="/",queue="a \"b\" \\ \n{c=\"d\"}, ' + 'ü"'.encode()) == {
        "vhost": "/",
        "queue": 'a "b" \\ \n{c="d"}, ü',
    }
    assert labels_of(b"") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"18446744073709551615", 2**64 - 1),
        (b"96.0", 96),
        (b"3.3e-4", 0.00033),
        (b"NaN", None),
        (b"+Inf", None),
        (b"-1", -1),
    ],
)
def test_values_are_numbers_or_say_nothing(text: bytes, value: float | None) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [b"", b"seven", b"1_0", b"1.0_0", b"0x7"])
def test_anything_else_is_no_value(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="expected a number"):
        value_of(text)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"<html><body>404</body></html>\n", "a line of the exposition format"),
        (BODY[:-20], "the end of a line"),
        (b"#" * (MAX_LINE_BYTES + 2), "a line of at most"),
        (BODY.replace(b"} 7\n", b"} 7 7 7\n"), "a line of the exposition format"),
    ],
)
def test_what_is_no_exposition_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        read(body, 4096, READY)


MANY_LABELS = b",".join(b'a%d=""' % number for number in range(17))


@pytest.mark.parametrize("text", [b"vhost", b'vhost="/"queue="a"', b'vhost="a', b'a="\xff"', MANY_LABELS])
def test_what_are_no_labels_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="labels"):
        labels_of(text)


_NAMES = st.text(max_size=12)


@given(
    st.dictionaries(st.tuples(_NAMES, _NAMES), st.floats() | st.integers(0, 2**53), max_size=20), st.data()
)
def test_what_the_reference_library_writes_is_read_as_by_its_parser(
    queues: dict[tuple[str, str], float], data: st.DataObject
) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("queue_messages", "Depth of queues.", ["vhost", "queue"], registry=registry)
    for (vhost, queue), depth in queues.items():
        gauge.labels(vhost, queue).set(depth)
    body = generate_latest(registry)
    theirs = {
        (sample.labels["vhost"], sample.labels["queue"]): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    ours = {}
    for _, text, value in read(body, data.draw(st.integers(1, len(body))), "queue_messages"):
        labels = labels_of(text)
        ours[labels["vhost"], labels["queue"]] = value_of(value)
    assert ours == {name: number if math.isfinite(number) else None for name, number in theirs.items()}


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from(BODY.split(b" "))).map(b" ".join), st.integers(1, 50)
)
def test_any_bytes_are_samples_or_one_error(body: bytes, size: int) -> None:
    try:
        for _, labels, value in read(body, size, READY, TERM):
            labels_of(labels)
            value_of(value)
    except ProtocolError:
        pass
