"""ObjectNames: the names of objects in JMX.

``amqp.gateway:source=S,package=P,type=CLASS[,group=G][,parent=STABLE NAME],name=NAME[,id=ROW]``, the keys in
this order, because JConsole builds its tree by it. The parts of a name never change while the object lives,
and never depend on the number of other objects:

- a durable object whose index properties are its parent and one other has just these as ``parent`` and
  ``name``; any other durable object has its whole stable name as ``name``. So the value of ``parent`` of the
  one is the value of ``name`` of the other, and no two durable objects share a name;
- a transient object, and a later duplicate of a durable one, has its leaf name as ``name``, and its row
  number as ``id``, which no other object of its class ever has. It has a ``parent`` if that is part of its
  stable name. A durable object never has an ``id``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord
from gateway.model.schema import ClassKey
from gateway.model.stable_names import escaped, joined, parts

DOMAIN = "amqp.gateway"

# More than Java asks for: a slash, a space or a percent sign means something to tools that put names into
# URLs and command lines (Jolokia, jmxterm), so a value with one is quoted, as one with a colon has to be.
_BARE = re.compile(r"[A-Za-z0-9_.@$-]+")
_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?", "\n": "\\n"})


def object_name(keys: Iterable[tuple[str, str]]) -> str:
    """Return the name of an MBean of ours with these keys, in this order, and their values."""
    return f"{DOMAIN}:{','.join(f'{key}={quoted(value)}' for key, value in keys)}"


def quoted(value: str) -> str:
    """Return the value of a key: ``value`` itself, or as ``javax.management.ObjectName.quote`` returns it."""
    return value if _BARE.fullmatch(value) else f'"{value.translate(_QUOTED)}"'


def table_name(source: str, key: ClassKey) -> str:
    """Return the name of the MBean of which all objects of a class are read.

    The class is not ``type``: patterns that find the objects of a class must not find it.
    """
    return object_name([("type", "Table"), ("source", source), ("class", f"{key.package}.{key.name}")])


def begins_with_parent(record: ClassRecord) -> bool:
    """Return whether the first part of the stable names of a class is the parent's."""
    first = next((element.name for element in record.schema.properties if element.index), "")
    return bool(first) and first == record.parent_element


def name_of(
    record: ObjectRecord, source: str, key: ClassKey, *, has_parent: bool = False, buckets: int = 0
) -> str:
    """Return the name of a managed object.

    Args:
        record: the object.
        source: the name of its source.
        key: the key of its class.
        has_parent: whether stable names of the class begin with the parent's (`begins_with_parent`).
        buckets: the number of groups into which the names of its class are split; 0 for no groups.
    """
    keys = [("source", source), ("package", key.package), ("type", key.name)]
    if buckets:
        keys.append(("group", _bucket(record.stable_name, buckets)))
    parent, *others = parts(record.stable_name) if has_parent else (None,)
    if record.lifetime is Lifetime.TRANSIENT:
        if parent is not None and others:
            keys.append(("parent", parent))
        keys += [("name", record.leaf_name), ("id", str(record.row))]
    elif parent is not None and _is_whole(record.stable_name, parent, *others):
        keys += [("parent", parent), ("name", str(others[0]))]
    else:
        keys.append(("name", record.stable_name))
    return object_name(keys)


def _is_whole(stable_name: str, parent: str, name: str | None = None, *others: str | None) -> bool:
    """Return whether these two parts are the whole stable name."""
    # A duplicate's name has more behind its parts: only one that is put together again the same has not.
    return name is not None and not others and stable_name == joined((escaped(parent), escaped(name)))


def _bucket(stable_name: str, buckets: int) -> str:
    """Return the group of a name: always the same one, in hexadecimal of a fixed width."""
    # Not Python's own hash, which differs from process to process.
    digest = hashlib.blake2b(stable_name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return f"{int.from_bytes(digest, 'big') % buckets:0{len(f'{buckets - 1:x}')}x}"
