"""Whatever a person may get wrong in ``gateway.yaml``: what the complaint says, word for word, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model import Configuration
from gateway.yaml_documents import (
    MAX_COMPLAINTS,
    MAX_DEPTH,
    MAX_DOCUMENT_OCTETS,
    DocumentError,
    parse_document,
    read_document,
)

FILE = Path("gateway.yaml")

RABBITMQ = """\
version: 1
sources:
  orders:
    kind: rabbitmq
    management: http://127.0.0.1:15672
    user: gateway
    password: {env: PASSWORD}
"""
WRITE_A_URL = "write a URL such as {}://HOST:PORT"
NO_USER_INFO = "leave user and password out of the URL: they have keys of their own"
IN_CLEAR = "a secret does not stand in the configuration itself: write {file: PATH} or {env: NAME}"
UNIT = "write a duration with its unit: 500ms, 10s, 5min, 2h or 1d"
LISTEN = "write ADDRESS:PORT with a numeric address, such as 127.0.0.1:1161 or [::1]:1161"
TAG = "a tag (!) means nothing here; a text that begins with ! takes quotes"


def complaints(text: str) -> list[str]:
    """What is said about ``text``, without the name of the file; nothing where it is a configuration."""
    try:
        parse_document(text, Configuration, FILE)
    except DocumentError as error:
        return [line.removeprefix("gateway.yaml:") for line in str(error).splitlines()]
    return []


def test_the_sample_that_the_others_vary_is_right() -> None:
    assert complaints(RABBITMQ) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1: version: is required"),
        ("site: Berlin\n", "1: version: is required"),
        ("version: 2\n", "1: version: Input should be 1"),
        ("version: 1\nsnpm: {}\n", "2: snpm: unknown key"),
        (RABBITMQ + "    interfal: 5s\n", "8: sources.orders.interfal: unknown key"),
        ("version: 1\nsite: A\nsite: B\n", "3: the key 'site' stands here for the second time"),
        ("version: 1\n1: 2\n", "2: 1: Keys should be strings"),
        ("version: 1\n? [site]\n: A\n", "2: a key is a word, no list and no mapping"),
        ("null", "1: takes keys with values"),
        ("[version, 1]", "1: takes keys with values"),
        ("version: 1\nsources: [orders]\n", "2: sources: takes keys with values"),
        ("version: 1\nsources:\n  orders:\n", "3: sources.orders: takes keys with values"),
        ("version: 1\nsite: 7\n", "2: site: is a text; one that looks like something else takes quotes"),
        ("version: 1\nsnmp:\n  enabled: maybe\n", "3: snmp.enabled: is true or false"),
        ("version: 1\nsnmp:\n  listen: 127.0.0.1:1161\n", "3: snmp.listen: takes a list"),
        (RABBITMQ + "    max_objects: many\n", "8: sources.orders.max_objects: is a whole number"),
        (
            "version: 1\nfeed: {max_waiting_records: 5}\n",
            "2: feed.max_waiting_records: Input should be greater than or equal to 1000",
        ),
        (
            RABBITMQ + "    budget: 0.9\n",
            "8: sources.orders.budget: Input should be less than or equal to 0.5",
        ),
    ],
)
def test_keys_and_types(text: str, complaint: str) -> None:
    assert complaints(text) == [complaint]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 1\nsite: A: B\n", "2: is not YAML: mapping values are not allowed here"),
        (
            "version: 1\n\tsite: A\n",
            "2: is not YAML: found character '\\t' that cannot start any token",
        ),
        ("version: 1\n---\nversion: 1\n", "2: is not YAML: but found another document"),
        ("version: 1\n# \x07\n", "2: the character U+0007 has no place in a text"),
        ("version: 1\nsite: !!bool maybe\n", f"2: {TAG}"),
        ("version: 1\n<<: {site: A}\n", "2: '<<' merges nothing here: write the keys out"),
        ("version: 1\nsite: 2026-02-30\n", "2: looks like a number or date and is none; a text takes quotes"),
        (f"version: {'9' * 5000}\n", "1: looks like a number or date and is none; a text takes quotes"),
        (
            f"version: {'1:' * 200}1.0\n",
            "1: looks like a number or date and is none; a text takes quotes",
        ),
    ],
)
def test_what_is_not_yaml_or_is_more_than_it_takes(text: str, complaint: str) -> None:
    assert complaints(text) == [complaint]


def test_every_mistake_is_told_at_once() -> None:
    text = "version: 1\nsnpm: {}\nsnmp:\n  enabled: maybe\n"
    assert set(complaints(text)) == {"2: snpm: unknown key", "4: snmp.enabled: is true or false"}


def test_very_many_mistakes_are_not_all_told() -> None:
    text = "version: 1\n" + "".join(f"key{number}: 1\n" for number in range(1000))

    told = complaints(text)

    assert told[:2] == ["2: key0: unknown key", "3: key1: unknown key"]
    assert told[MAX_COMPLAINTS:] == [f"1: and {1000 - MAX_COMPLAINTS} more"]


def test_a_key_of_many_lines_makes_one_line() -> None:
    assert complaints('version: 1\n"a\\nb": 1\n') == ["2: 'a\\nb': unknown key"]


def test_a_long_key_is_shortened() -> None:
    assert complaints(f"version: 1\n? {'k' * 5000}\n: 1\n") == [f"2: {'k' * 80}...: unknown key"]


# -- sources


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("{}", "'kind' is required"),
        ("{kind: kafka}", "'kind' is 'kafka'; it can be 'rabbitmq', 'qmf'"),
        (
            "{kind: qmf, amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}}",
            "name under 'believe' the users whose messages are an agent's",
        ),
    ],
)
def test_sources(source: str, complaint: str) -> None:
    assert complaints(f"version: 1\nsources:\n  orders: {source}\n") == [f"3: sources.orders: {complaint}"]


@pytest.mark.parametrize(
    ("durable", "complaint"),
    [
        ("durable: {}", "sources.orders: 'durable' keeps the broker's events: say under 'events' where"),
        (
            "durable: {queue: orders}",
            "sources.orders.durable.queue: must begin with 'amqp-gateway.': the gateway has rights on",
        ),
        ("durable: {expires: 1s}", "sources.orders.durable.expires: is 10s to 30d here"),
        ("durable: {max_length: 10}", "sources.orders.durable.max_length: Input should be greater than"),
    ],
)
def test_durable_subscriptions(durable: str, complaint: str) -> None:
    (found,) = complaints(f"{RABBITMQ}    {durable}\n")
    assert found.partition(": ")[2].startswith(complaint)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("commit_interval: 11s", "3: log.commit_interval: is 1ms to 10s here"),
        ("segment_duration: 2h", "3: log.segment_duration: is 1s to 1h here"),
        ("statistics_interval: often", f"3: log.statistics_interval: {UNIT}"),
        ("max_age: 59min", "3: log.max_age: is 1h to 366d here"),
        ("max_size: 15", "3: log.max_size: Input should be greater than or equal to 16"),
        (
            "statistics_intervals: {'rabbitmq:*': 2d}",
            "3: log.statistics_intervals.rabbitmq:*: is 1ms to 1d here",
        ),
        (
            "statistics_intervals: {queue: 5s}",
            "3: log.statistics_intervals.queue: write PACKAGE:CLASS, such as rabbitmq:queue or *:broker",
        ),
    ],
)
def test_the_event_log(written: str, complaint: str) -> None:
    assert complaints(f"version: 1\nlog:\n  {written}\n") == [complaint]


def test_intervals_of_classes_that_nobody_knows_yet() -> None:
    assert complaints("version: 1\nlog: {statistics_intervals: {'acme:*': 5s, 'rabbitmq:queue': 1s}}\n") == []


def test_a_durable_subscription_needs_the_log() -> None:
    text = f"{RABBITMQ}    events: {{url: 'amqp://broker'}}\n    durable: {{}}\n"
    assert complaints(text) == []
    (found,) = complaints(f"{text}log: {{enabled: false}}\n")
    assert found.endswith(
        "sources.orders.durable acknowledges what the event log has on the disk: switch the log on, or leave"
        " 'durable' out"
    )


@pytest.mark.parametrize("key", ["exchange", "direct_exchange"])
def test_names_that_amqp_has_no_room_for(key: str) -> None:
    name = "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 128  # of 256 octets
    source = (
        "kind: qmf, amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}, "
        f"believe: [agent], {key}: {name}"
    )
    assert complaints(f"version: 1\nsources:\n  orders: {{{source}}}\n") == [
        f"3: sources.orders.{key}: has more than 255 octets, which AMQP 0-9-1 has no room for"
    ]


def test_the_name_of_a_source() -> None:
    text = RABBITMQ.replace("orders", "'our orders'")
    assert complaints(text) == [
        "3: sources.our orders: String should match pattern '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'"
    ]


def test_an_agent_that_obeys_nobody() -> None:
    text = """\
version: 1
agents:
  orders:
    kind: rabbitmq
    management: http://127.0.0.1:15672
    user: agent
    password: {env: PASSWORD}
    publish:
      amqp: {url: "amqp://127.0.0.1", user: agent, password: {env: PASSWORD}}
      obey: []
"""
    assert complaints(text) == [
        "10: agents.orders.publish.obey: Tuple should have at least 1 item after validation, not 0"
    ]


# -- secrets


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
    assert complaints(text) == ["7: sources.orders.password: give either 'file' or 'env'"]


@pytest.mark.parametrize("written", ["''", '"a\\0b"', "[a]", "~nobody-of-this-name/secret"])
def test_the_file_of_a_secret_is_a_path(written: str) -> None:
    (complaint,) = complaints(RABBITMQ.replace("{env: PASSWORD}", f"{{file: {written}}}"))
    assert complaint in {
        "7: sources.orders.password.file: write the path of a file or folder",
        "7: sources.orders.password.file: begins with ~ and a user that this machine does not know",
    }


# -- URLs


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


# -- durations, addresses, object identifiers


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


# -- bounds


def test_aliases_stand_for_what_was_written_once() -> None:
    text = RABBITMQ.replace("{env: PASSWORD}", "&secret {env: PASSWORD}") + (
        "  more: {kind: rabbitmq, management: 'http://127.0.0.1', user: gateway, password: *secret}\n"
    )
    assert complaints(text) == []


def test_aliases_do_not_multiply() -> None:
    laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
    for number in range(1, 12):
        laughs += f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n"
    assert complaints(laughs) == ["6: holds more than 500000 values"]


def test_an_alias_of_what_it_stands_in() -> None:
    assert complaints("version: 1\nsources: &all {orders: *all}\n") == [
        "2: an alias (*) of what it stands in"
    ]


def test_nesting_is_bounded() -> None:
    assert complaints("[" * 1000) == [f"1: is nested deeper than {MAX_DEPTH} levels"]


def test_a_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(b"#" * (MAX_DOCUMENT_OCTETS + 1))
    with pytest.raises(DocumentError) as raised:
        read_document(path, Configuration)
    assert str(raised.value) == f"{path}:1: is larger than {MAX_DOCUMENT_OCTETS} octets"


def test_a_file_without_end_is_bounded() -> None:
    with pytest.raises(DocumentError, match=f"^/dev/zero:1: is larger than {MAX_DOCUMENT_OCTETS} octets$"):
        read_document(Path("/dev/zero"), Configuration)


# -- files


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes("version: 1\nsite: München\n".encode("latin-1"))
    with pytest.raises(DocumentError) as raised:
        read_document(path, Configuration)
    assert str(raised.value) == f"{path}:2: is not UTF-8 text"


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as raised:
        read_document(tmp_path / "gateway.yaml", Configuration)
    assert str(raised.value) == f"{tmp_path}/gateway.yaml:1: cannot be read: No such file or directory"


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r":1: cannot be read: Is a directory$"):
        read_document(tmp_path, Configuration)


# -- anything else

KEYS = ["version: 1", "sources:", "  a:", "kind: qmf", "password:", "\n", "\n  ", "# "]
SIGNS = ["&a", "*a", "!t", "<<:", "- ", "{", "}", "[", "]", "'", '"', "|", "? ", ": ", ", ", "="]
ODD_NUMBERS = ["0x", "0b_", "1:0", ".inf", "~", "2001-01-99"]
WORDS = st.sampled_from([*KEYS, *SIGNS, *ODD_NUMBERS])


@given(st.text() | st.lists(WORDS | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join))
def test_any_text_is_a_configuration_or_complaints(text: str) -> None:
    for complaint in complaints(text):
        line, _, said = complaint.partition(": ")
        assert int(line) >= 1
        assert said


@given(st.binary(max_size=200))
def test_any_octets_are_a_configuration_or_complaints(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(octets)
    try:
        read_document(path, Configuration)
    except DocumentError as error:
        assert str(error).startswith(f"{path}:")  # noqa: PT017  either outcome is right
