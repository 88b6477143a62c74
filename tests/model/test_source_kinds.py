"""The table of the kinds of sources."""

from __future__ import annotations

from typing import get_args

from gateway.config.sources import Source
from gateway.model.source_kinds import SOURCE_KINDS, SourceKind, source_kind


def test_every_kind_of_the_configuration_has_a_line() -> None:
    settings = get_args(get_args(Source)[0])
    kinds = {kind for one in settings for kind in get_args(one.model_fields["kind"].annotation)}
    assert kinds == SOURCE_KINDS.keys()


def test_a_kind_of_another_version_has_no_properties() -> None:
    assert source_kind("telepathy") == source_kind(None) == SourceKind()
