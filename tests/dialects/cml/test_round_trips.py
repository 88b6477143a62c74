"""Any message is read back as written, in either spelling; changes are seen, as messages keep no octets."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.documents import Latin1Text, decode_text, octets_of
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Message,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Notify,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
)
from tests.dialects.cml.recordings import exchange

_NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True)
_XML_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"]), max_size=20)
_OCTETS = st.binary(max_size=20).map(
    lambda octets: decode_text(octets.replace(b"\0", b".").replace(b"&", b"&amp;"))
)
_IDS = st.integers(1, 2**32 - 1)
_STATUSES = st.one_of(st.sampled_from(Status).map(str), _NAMES)


def _requests(text: st.SearchStrategy[str]) -> st.SearchStrategy[Message]:
    value = text.map(lambda said: said.replace("\t", " ") + ".")
    fields = st.lists(st.builds(Field, _NAMES, value), max_size=4).map(tuple)
    return st.one_of(
        st.builds(InspectRequest, _IDS, _NAMES),
        st.builds(ModifyRequest, st.integers(2, 2**32 - 1), fields, _NAMES),
        st.builds(MethodRequest, _IDS, _NAMES, fields),
    )


def _replies(text: st.SearchStrategy[str], fields: st.SearchStrategy[Field]) -> st.SearchStrategy[Message]:
    some_fields = st.lists(fields, max_size=6).map(tuple)
    return st.one_of(
        st.builds(InspectReply, _STATUSES, st.none() | _IDS, text, some_fields, text),
        st.builds(ModifyReply, _STATUSES, _IDS, text, text),
        st.builds(MethodReply, _STATUSES, _IDS, text, text, text),
        text.map(lambda said: Notify(said.strip())),
    )


@given(_requests(_XML_TEXT.map(lambda said: said[:60])), st.sampled_from(Spelling))
def test_requests(message: Message, spelling: Spelling) -> None:
    assert read_message(write_message(message, spelling, _UNSAFE)) == message


_UNSAFE = frozenset()  # type: ignore[var-annotated]


@given(_replies(_OCTETS, st.builds(Field, _OCTETS, _OCTETS)))
def test_replies_as_openamq_writes_them(message: Message) -> None:
    assert read_message(write_message(message, Spelling.OPENAMQ)) == message


@given(
    _replies(
        _XML_TEXT,
        st.one_of(st.builds(Field, _XML_TEXT, _XML_TEXT), st.builds(Field, _XML_TEXT, st.just(""), _IDS)),
    )
)
def test_replies_as_the_specification_has_them(message: Message) -> None:
    assert read_message(write_message(message, Spelling.SPECIFICATION)) == message


@given(st.binary(max_size=40))
def test_any_octets_of_a_value_come_back(octets: bytes) -> None:
    octets = octets.replace(b"\0", b"")
    text = decode_text(octets.replace(b"&", b"&amp;"))
    reply = InspectReply(Status.OK, 1, "c", (Field("f", text),))
    found = read_message(write_message(reply, Spelling.OPENAMQ))
    assert isinstance(found, InspectReply)
    assert octets_of(found.fields[0].text) == octets


_STRIPPED = _XML_TEXT.map(str.strip)
_FIELDS = st.builds(
    SchemaField, _NAMES, st.sampled_from(["", "int", "objref"]), st.booleans(), st.booleans(), label=_XML_TEXT
)
_MEMBERS = st.recursive(
    _FIELDS | st.builds(SchemaField, _NAMES, description=_STRIPPED),
    lambda inner: st.builds(
        SchemaGroup, _NAMES, st.lists(inner, max_size=3).map(tuple), description=_STRIPPED
    ),
    max_leaves=6,
)
_METHODS = st.builds(SchemaMethod, _NAMES, _XML_TEXT, _STRIPPED, st.lists(_MEMBERS, max_size=2).map(tuple))
_CLASSES = st.builds(
    SchemaClass,
    _NAMES,
    _XML_TEXT,
    _STRIPPED,
    st.lists(_MEMBERS, max_size=4).map(tuple),
    st.lists(_METHODS, max_size=2).map(tuple),
)


@given(st.lists(_CLASSES, max_size=3), _XML_TEXT, st.sampled_from(Spelling))
def test_schemas(classes: list[SchemaClass], name: str, spelling: Spelling) -> None:
    reply = SchemaReply(Status.OK, name, "1", tuple(classes))
    assert read_message(write_message(reply, spelling)) == reply


def test_a_changed_field_is_seen() -> None:
    body = exchange("name-utf8-2-binding").replies[0]
    reply = read_message(body)
    assert isinstance(reply, InspectReply)
    changed = replace(reply, object_id=7, fields=(replace(reply.fields[0], text="日本"), *reply.fields[1:]))
    written = write_message(changed, Spelling.OPENAMQ)
    assert written != body
    assert read_message(written) == changed


def test_latin_1_stays_what_it_was() -> None:
    reply = InspectReply(Status.OK, 1, "c", (Field("f", Latin1Text("é")),))
    assert read_message(write_message(reply, Spelling.OPENAMQ)) == reply
    assert read_message(write_message(reply, Spelling.OPENAMQ)) != replace(reply, fields=(Field("f", "é"),))
