"""Zones by the English names that Java's formats know them by; only those of fixed meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ZONES: Final[Mapping[str, int]] = {
    "GMT": 0,
    "Greenwich Mean Time": 0,
    "UTC": 0,
    "Coordinated Universal Time": 0,
    "EST": -300,
    "Eastern Standard Time": -300,
    "EDT": -240,
    "Eastern Daylight Time": -240,
    "CST": -360,
    "Central Standard Time": -360,
    "CDT": -300,
    "Central Daylight Time": -300,
    "MST": -420,
    "Mountain Standard Time": -420,
    "MDT": -360,
    "Mountain Daylight Time": -360,
    "PST": -480,
    "Pacific Standard Time": -480,
    "PDT": -420,
    "Pacific Daylight Time": -420,
    "WET": 0,
    "WEST": 60,
    "CET": 60,
    "Central European Standard Time": 60,
    "CEST": 120,
    "Central European Summer Time": 120,
    "EET": 120,
    "EEST": 180,
    "JST": 540,
    "Japan Standard Time": 540,
}
"""Minutes east of Greenwich."""
