"""The schema-reply, to and from elements: classes, groups, fields, enumerations, methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gateway.dialects.cml.documents import Element
from gateway.dialects.cml.messages import (
    NamedText,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMember,
    SchemaMethod,
    SchemaReply,
)
from gateway.dialects.errors import ProtocolError

_FLAGS: Final = {"0": False, "1": True}
_SHOWN: Final = 40
_INDENT: Final = "   "


def read_schema_reply(element: Element) -> SchemaReply:
    """Return the schema in a ``schema-reply``. Elements in it that are not known are passed over.

    Raises:
        ProtocolError: something has no name, or a flag is neither 0 nor 1.
    """
    attribute = element.attributes.get
    return SchemaReply(
        attribute("status", ""),
        attribute("name", ""),
        attribute("version", ""),
        tuple(_class(child) for child in element.children if child.name == "class"),
        attribute("notice", ""),
    )


def _class(element: Element) -> SchemaClass:
    methods = tuple(_method(child) for child in element.children if child.name == "method")
    return SchemaClass(*_naming(element), _members(element), methods)


def _method(element: Element) -> SchemaMethod:
    return SchemaMethod(*_naming(element), _members(element))


def _members(element: Element) -> tuple[SchemaMember, ...]:
    return tuple(_member(child) for child in element.children if child.name in ("field", "group"))


def _member(element: Element) -> SchemaMember:
    name, label, description = _naming(element)
    inspect, modify = _flag(element, "inspect", default=True), _flag(element, "modify", default=False)
    if element.name == "group":
        return SchemaGroup(name, _members(element), inspect, modify, label, description)
    return SchemaField(
        name,
        element.attributes.get("type", ""),
        _flag(element, "repeat", default=False),
        inspect,
        modify,
        label,
        description,
        tuple(NamedText(_name(child), child.text) for child in element.children if child.name == "value"),
    )


def _naming(element: Element) -> tuple[str, str, str]:
    return _name(element), element.attributes.get("label", ""), element.text.strip()


def _name(element: Element) -> str:
    name = element.attributes.get("name")
    if name is None:
        raise ProtocolError(f"the name of a {element.name}", "none", element.offset)
    return name


def _flag(element: Element, name: str, *, default: bool) -> bool:
    text = element.attributes.get(name)
    if text is None:
        return default
    if text not in _FLAGS:
        raise ProtocolError(f"{name} 0 or 1", repr(text[:_SHOWN]), element.offset)
    return _FLAGS[text]


def write_schema_reply(reply: SchemaReply, escape: Callable[[str], str]) -> str:
    """Return the element in lines with the spacing of both OpenAMQ and the specification's examples."""
    naming = (
        ("name", reply.name),
        ("version", reply.version),
        ("status", reply.status),
        ("notice", reply.notice),
    )
    writer = _SchemaWriter(escape)
    lines = [f"<schema-reply{writer.attributes(naming)}>"]
    for each in reply.classes:
        lines += writer.class_lines(each)
    return "\n".join((*lines, "</schema-reply>\n"))


class _SchemaWriter:
    """Writes lines; ``escape`` is what the spelling does with text."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self._escape = escape

    def attributes(self, pairs: tuple[tuple[str, str], ...]) -> str:
        return "".join(f' {name} = "{self._escape(value)}"' for name, value in pairs if value)

    def class_lines(self, each: SchemaClass) -> Iterator[str]:
        yield f"{_INDENT}<class{self._named(each)}>"
        yield from self._description(each.description, 2)
        yield from self._members(each.fields, 2)
        for method in each.methods:
            yield f"{_INDENT * 2}<method{self._named(method)}>"
            yield from self._description(method.description, 2)
            yield from self._members(method.fields, 2)  # no deeper: so does OpenAMQ
            yield f"{_INDENT * 2}</method>"
        yield f"{_INDENT}</class>"

    def _named(self, item: SchemaClass | SchemaMethod | SchemaMember, *more: tuple[str, str]) -> str:
        # An empty name is said, for without any the schema could not be read.
        name = f' name = "{self._escape(item.name)}"'
        return name + self.attributes((("label", item.label), *more))

    def _description(self, text: str, depth: int) -> Iterator[str]:
        if text:
            yield f"{_INDENT * depth}{self._escape(text)}"

    def _members(self, members: tuple[SchemaMember, ...], depth: int) -> Iterator[str]:
        for member in members:
            flags = (("inspect", "" if member.inspect else "0"), ("modify", "1" if member.modify else ""))
            if isinstance(member, SchemaGroup):
                yield f"{_INDENT * depth}<group{self._named(member, *flags)}>"
                yield from self._description(member.description, depth + 1)
                yield from self._members(member.fields, depth + 1)
                yield f"{_INDENT * depth}</group>"
            else:
                yield from self._field(member, flags, depth)

    def _field(self, each: SchemaField, flags: tuple[tuple[str, str], ...], depth: int) -> Iterator[str]:
        kind = ("type", each.type), ("repeat", "1" if each.repeat else "")
        tag = f"{_INDENT * depth}<field{self._named(each, *kind, *flags)}"
        if not each.description and not each.values:
            yield f"{tag} />"
            return
        yield f"{tag}>"
        yield from self._description(each.description, depth + 1)
        for value in each.values:
            label, text = self._escape(value.label), self._escape(value.text)
            yield f'{_INDENT * (depth + 1)}<value name = "{label}">{text}</value>'
        yield f"{_INDENT * depth}</field>"
