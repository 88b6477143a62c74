"""Mistakes in a secret, a URL, a duration, an address: the complaints, word for word, and their places."""

from __future__ import annotations

import pytest

from gateway.config.model import Configuration
from gateway.config.sources import RabbitMqSource
from gateway.yaml_documents import parse_document
from tests.config.sample import FILE, RABBITMQ, TAG, UNIT, complaints

WRITE_A_URL = "write a URL such as {}://HOST:PORT"
NO_USER_INFO = "leave user and password out of the URL: they have keys of their own"
IN_CLEAR = (
    "a secret does not stand in the configuration itself: write {file: PATH}, {env: NAME} or"
    " {credential: NAME}"
)
LISTEN = "write ADDRESS:PORT with a numeric address, such as 127.0.0.1:1161 or [::1]:1161"


@pytest.mark.parametrize(
    "written", ["hunter2", "[hunter2]", "{hunter2}", "{value: hunter2}", "{env: A, is: hunter2}"]
)
def test_a_secret_in_clear_is_refused_and_not_repeated(written: str) -> None:
    text = RABBITMQ.replace("{env: PASSWORD}", written)
    assert complaints(text) == [f"7: sources.orders.password: {IN_CLEAR}"]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("*hunter2", "an alias (*) of nothing; a text that begins with * takes quotes"),
        ("!hunter2", TAG),
        ("!hun!ter2", TAG),
    ],
)
def test_a_secret_that_yaml_takes_for_something_else_is_not_repeated(written: str, complaint: str) -> None:
    text = RABBITMQ.replace("{env: PASSWORD}", written)
    assert complaints(text) == [f"7: {complaint}"]


@pytest.mark.parametrize("written", ["{}", "{env: A, file: b}"])
def test_a_secret_is_in_one_place(written: str) -> None:
    text = RABBITMQ.replace("{env: PASSWORD}", written)
    assert complaints(text) == ["7: sources.orders.password: give one of 'file', 'env' and 'credential'"]


@pytest.mark.parametrize("written", ["''", '"a\\0b"', "[a]", "~nobody-of-this-name/secret"])
def test_the_file_of_a_secret_is_a_path(written: str) -> None:
    (complaint,) = complaints(RABBITMQ.replace("{env: PASSWORD}", f"{{file: {written}}}"))
    assert complaint in {
        "7: sources.orders.password.file: write the path of a file or folder",
        "7: sources.orders.password.file: begins with ~ and a user that this machine does not know",
    }


@pytest.mark.parametrize(
    "url",
    [
        "http://gateway:hunter2@127.0.0.1:15672",
        "http://gateway@127.0.0.1:15672",
        "http://gateway:hun/ter2@127.0.0.1:15672",  # a slash ends what urllib takes for the host
        "http://gateway:hun[ter2@127.0.0.1:15672",
        "gateway:hunter2@127.0.0.1",
    ],
)
def test_a_url_with_user_info_is_refused_and_no_password_repeated(url: str) -> None:
    text = RABBITMQ.replace("http://127.0.0.1:15672", f'"{url}"')
    assert complaints(text) == [f"5: sources.orders.management: {NO_USER_INFO}"]


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:15672",
        "amqp://127.0.0.1",
        "http://",
        "http://:15672",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:http",
        "http://[::1",
        "http://two words",
        "http://line\\nbreak",
    ],
)
def test_a_management_url_that_is_none(url: str) -> None:
    text = RABBITMQ.replace("http://127.0.0.1:15672", f'"{url}"')
    assert complaints(text) == [f"5: sources.orders.management: {WRITE_A_URL.format('http')}"]


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://127.0.0.1:5672", WRITE_A_URL.format("amqp")),
        ("amqp://gateway:hunter2@127.0.0.1/", NO_USER_INFO),
        ("amqp://127.0.0.1/orders", "leave the virtual host out of the URL: it has the key 'vhost'"),
        ("amqp://127.0.0.1?heartbeat=1", "a URL here has no query and no fragment"),
    ],
)
def test_an_amqp_url(url: str, complaint: str) -> None:
    text = RABBITMQ + f'    events:\n      url: "{url}"\n'
    assert complaints(text) == [f"9: sources.orders.events.url: {complaint}"]


@pytest.mark.parametrize(
    "url", ["amqp://127.0.0.1", "amqp://[::1]:5672", "amqps://rabbit.example:5671/", "amqps://rabbit"]
)
def test_good_amqp_urls(url: str) -> None:
    assert complaints(RABBITMQ + f'    events: {{url: "{url}"}}\n') == []


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("5", UNIT),
        ("-5s", UNIT),
        ("5 seconds", UNIT),
        ("s", UNIT),
        ("1e9s", UNIT),
        ("\N{ARABIC-INDIC DIGIT FIVE}s", UNIT),
        ("[5s]", UNIT),
        ("0s", "a duration here is 1ms to 366d"),
        ("0.5ms", "a duration here is 1ms to 366d"),
        ("367d", "a duration here is 1ms to 366d"),
        ("9" * 500 + "d", "a duration here is 1ms to 366d"),
    ],
)
def test_durations(written: str, complaint: str) -> None:
    assert complaints(RABBITMQ + f"    interval: {written}\n") == [f"8: sources.orders.interval: {complaint}"]


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("1ms", 10**6),
        ("1.5s", 1_500_000_000),
        ("2 min", 120 * 10**9),
        ("2h", 7200 * 10**9),
        ("1d", 86400 * 10**9),
    ],
)
def test_durations_are_nanoseconds(written: str, nanoseconds: int) -> None:
    text = f"version: 1\nsnmp: {{serve_stale_for: {written}}}\n"
    assert parse_document(text, Configuration, FILE).snmp.serve_stale_for == nanoseconds


@pytest.mark.parametrize(
    "written",
    [
        "1161",
        "localhost:1161",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:+161",
        "127.0.0.1:1_161",
        "127.0.0.256:1161",
        "[127.0.0.1]:1161",
        "::1:1161",
        "[::1]",
        "[::g]:1161",
    ],
)
def test_addresses_to_listen_on(written: str) -> None:
    text = f'version: 1\nsnmp:\n  listen:\n  - 127.0.0.1:1161\n  - "{written}"\n'
    assert complaints(text) == [f"5: snmp.listen.1: {LISTEN}"]


def test_good_addresses_to_listen_on() -> None:
    text = 'version: 1\nsnmp: {listen: ["0.0.0.0:161", "[::1]:1161", "[fe80::1%lo]:1161"]}\n'
    listen = parse_document(text, Configuration, FILE).snmp.listen
    assert listen == (("0.0.0.0", 161), ("::1", 1161), ("fe80::1%lo", 1161))  # noqa: S104  a sample


@pytest.mark.parametrize(
    "written", ["iso.org", "1", "3.1", "1.40.1", "1.3.04", "1.3.4294967296", "1.3" + ".1" * 40]
)
def test_roots(written: str) -> None:
    text = f"version: 1\nsnmp:\n  root: '{written}'\n"
    what = "write an object identifier in dotted form, such as 1.3.6.1.4.1.8072.9999.9999"
    assert complaints(text) == [f"3: snmp.root: {what}"]


def test_several_nodes_of_a_cluster() -> None:
    text = RABBITMQ.replace("http://127.0.0.1:15672", '["http://a:15672", "https://b:15671"]')
    text += "    events:\n      url:\n        - amqp://a\n        - amqps://b\n"
    configuration = parse_document(text, Configuration, FILE)
    source = configuration.sources["orders"]
    assert isinstance(source, RabbitMqSource)
    assert source.management == ("http://a:15672", "https://b:15671")
    assert source.events is not None
    assert source.events.url == ("amqp://a", "amqps://b")


@pytest.mark.parametrize(
    ("urls", "complaint"),
    [
        ('["http://a", "amqp://b"]', f": {WRITE_A_URL.format('http')}"),
        ('["http://a", "http://u:hunter2@b"]', f": {NO_USER_INFO}"),
        ('["http://a", "http://a"]', ": names a node twice"),
        ("[]", ""),
    ],
)
def test_nodes_that_are_none(urls: str, complaint: str) -> None:
    (found,) = complaints(RABBITMQ.replace("http://127.0.0.1:15672", urls))
    assert found.startswith("5: sources.orders.management")
    assert found.endswith(complaint)
