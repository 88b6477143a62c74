"""Helpers for tests of commands: an application that has defined commands, and the resulting methods."""

from __future__ import annotations

import json

from gateway.dialects.ami.relay import RelayConfig
from gateway.model.observations import ClassLearned
from gateway.model.schema import Argument, Direction, Method
from gateway.model.values import ValueType
from tests.dialects.ami.relay_play import RelayPlay

REPLY = Argument("reply", ValueType.MAP, Direction.OUT, optional=True, description="Values of the answer.")
ALONE = 'C|I="stop"|N="Stop"|M="0"'


def command(form: object, rest: str = "") -> str:
    """Return a definition of the command ``halt``."""
    text = json.dumps(form).replace("\\", "\\\\").replace('"', '\\"')
    return f'C|I="halt"|N="Trading.Halt"|A="{text}"{rest}'


def why(**more: object) -> dict[str, object]:
    return {"form": {"inputs": [{"label": "Why", "var": "why", **more}]}}


def ready(*lines: str, config: RelayConfig | None = None) -> RelayPlay:
    """Return a play whose application has logged in and sent these lines, and whose class has settled."""
    play = RelayPlay(config)
    play.logs_in()
    play.says(*lines)
    assert not [line for line in play.lines() if "|S=1|" in line]
    play.time_passes(2)
    return play


def methods(play: RelayPlay) -> dict[str, Method]:
    """Return the methods in the version of the application's class that was reported last."""
    learned = [step.schema for step in play.left() if isinstance(step, ClassLearned)]
    return {method.name: method for method in learned[-1].methods}
