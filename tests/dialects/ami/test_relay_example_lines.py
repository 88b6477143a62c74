"""The example lines as input of a relay: each one is accepted or refused, and the connection stays open."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.instructions import Exit, Instruction, Login
from tests.dialects.ami.relay_play import RelayPlay
from tests.dialects.ami.test_example_lines import INVALID, VALID

REFUSED_HERE = {6, 7, 37}
"""The second login, a line before a login, an unrequested answer: valid lines that the session refuses."""


def said(number: int, line: bytes, instruction: Instruction | None) -> list[str]:
    """Return the lines with which a relay answers a line."""
    play = RelayPlay()
    if isinstance(instruction, Login) or number == 7:
        play.connects()
    else:
        play.logs_in()
    if number == 6:
        play.says(line.decode())
        play.left()
    play.says_octets(line + b"\n")
    play.time_passes(1)
    return [step for step in play.lines() if step.startswith("1")]


@pytest.mark.parametrize(("number", "line", "instruction"), VALID)
def test_what_a_relay_says_to_good_lines(number: int, line: bytes, instruction: Instruction) -> None:
    (answer,) = said(number, line, instruction)
    if isinstance(instruction, Exit):
        assert answer == "1 closed"
    else:
        assert ("|S=1|" in answer) is (number in REFUSED_HERE)


@pytest.mark.parametrize(("number", "line"), [(number, line) for number, line, _ in INVALID])
def test_what_a_relay_says_to_bad_lines(number: int, line: bytes) -> None:
    (answer,) = said(number, line, None)
    assert "|S=1|M=" in answer
