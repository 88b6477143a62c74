"""A policy for tests that are not about roles."""

from __future__ import annotations

from gateway.feed.access import Clearance, PolicyRecord
from gateway.policy.rules import FRONT_ENDS

UNRESTRICTED = PolicyRecord({}, dict.fromkeys(FRONT_ENDS, 0), (Clearance(("everything",), True, (), (), ()),))
"""Lets every principal read everything."""
