"""What every source of a core shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.clock import Clock
from gateway.inventory.inventory import Inventory
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.secrets import SecretRules
from gateway.service.metrics.readings import Metrics


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every source of a core shares.

    Attributes:
        folder: what relative paths of the configuration are relative to.
        boot: number of the core's start.
        metrics: what the core tells of itself.
    """

    inventory: Inventory
    mappings: Mapping[str, MappingFile]
    secrets: SecretRules
    clock: Clock
    folder: Path
    boot: int
    metrics: Metrics = field(default_factory=Metrics)
