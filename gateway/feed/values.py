"""Values as a feed carries them: those of the model, with references resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gateway.model.values import Scalar, Value


class FeedStruct(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What travels in a feed: its fields in their order, behind its tag where it has one.

    No field leads back to the value that it is of, so the garbage collector need not look at any.
    """


class ObjectLink(FeedStruct, frozen=True):
    """Where a reference leads: the target's class (``package:name``), row number and stable name."""

    class_name: str
    row: int
    stable_name: str


FeedValue: TypeAlias = "Value | ObjectLink"

if TYPE_CHECKING:
    PositionedValues: TypeAlias = Mapping[int, FeedValue]
    NamedValues: TypeAlias = Mapping[str, FeedValue | None]
    FoundValues: TypeAlias = Mapping[str, FeedValue]
else:
    # What `gateway.feed.messages` decodes: a union of msgspec's has one type for texts and one for arrays.
    TravellingValue = Scalar | ObjectLink | dict[str, Any] | msgspec.msgpack.Ext
    PositionedValues = dict[int, TravellingValue]
    NamedValues = dict[str, TravellingValue | None]
    FoundValues = dict[str, TravellingValue]
