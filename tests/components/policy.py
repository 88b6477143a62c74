"""A policy for tests that are not about roles."""

from __future__ import annotations

from gateway.feed.access import Clearance, PolicyRecord
from gateway.policy.rules import FRONT_ENDS

_EVERYTHING = Clearance(("everything",), True, (), (), (), counts=True)

UNRESTRICTED = PolicyRecord({}, dict.fromkeys(FRONT_ENDS, 0), (_EVERYTHING,))
"""Lets every principal read everything."""
