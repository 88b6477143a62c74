"""The number of Hypothesis's examples: few and always the same ones, or many new ones.

``quick`` is for every run: the same examples each time, so that a failure is the change's own.
``prove`` (environment variable ``PROVE=1``) searches: many examples, another seed each time, and a failure
prints the line that repeats it. A property that is slow by nature halves or doubles what its profile says
(``settings(max_examples=examples() // 2)``) instead of naming a number of its own.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROVING = os.environ.get("PROVE") == "1"
"""Whether this run makes large counts; tests that measure or repeat use it too."""

_QUICK_EXAMPLES = 15
_PROVE_EXAMPLES = 1_000


def examples() -> int:
    """Return the number of examples of a property in this run, unless it sets another one."""
    return _PROVE_EXAMPLES if PROVING else _QUICK_EXAMPLES


def load() -> None:
    """Register both profiles and choose; called once, by the top ``conftest.py``.

    There is no deadline for one example, nor for making it: what shares the machine decides how long one
    takes.
    """
    settings.register_profile(
        "quick",
        max_examples=_QUICK_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile(
        "prove",
        max_examples=_PROVE_EXAMPLES,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("prove" if PROVING else "quick")
