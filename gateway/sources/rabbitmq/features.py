"""What the agent works out of feature flags and deprecated features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.mapping.paths import Json

FEATURE_FLAG: Final = "featureFlag"
DEPRECATED_FEATURE: Final = "deprecatedFeature"
KHEPRI: Final = "khepri"
MNESIA: Final = "mnesia"
_KHEPRI_FLAG: Final = "khepri_db"


class Features:
    """Which deprecated features are in use, and where definitions are kept.

    Attributes:
        metadata_store: `KHEPRI` or `MNESIA`; empty while the feature flags were not read.
    """

    def __init__(self) -> None:
        self.metadata_store = ""
        self._khepri = False
        self._used: frozenset[str] | None = None

    def listed_flag(self, flag: Mapping[str, Json]) -> None:
        """A listing that is under way shows a feature flag."""
        if flag.get("name") == _KHEPRI_FLAG:
            self._khepri = flag.get("state") == "enabled"

    def flags_listed(self) -> None:
        """A listing of feature flags is complete; brokers before 3.13 have none of that name."""
        self.metadata_store = KHEPRI if self._khepri else MNESIA
        self._khepri = False

    def completed(self, feature: Mapping[str, Json]) -> Mapping[str, Json]:
        """A deprecated feature with whether it is in use, where that is known."""
        name = feature.get("name")
        if not isinstance(name, str):
            return feature
        return {**feature, "gateway": {"in_use": self.is_used(name)}}

    def is_used(self, name: str) -> bool | None:
        """Whether a deprecated feature is in use; ``None`` where that is not known."""
        return None if self._used is None else name in self._used

    def learn_used(self, answer: Json) -> None:
        """Take ``GET /api/deprecated-features/used``; anything but a list means that it is not known."""
        if not isinstance(answer, list):
            self._used = None
            return
        names = (feature.get("name") for feature in answer if isinstance(feature, Mapping))
        self._used = frozenset(name for name in names if isinstance(name, str))
