"""A Dockerfile as a list of instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "docker"
DOCKERFILE = FOLDER / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its continued lines as one."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the exec form, or those between white space."""
        words: list[str] = json.loads(self.text) if self.text.startswith("[") else self.text.split()
        return words

    @property
    def commands(self) -> list[str]:
        """The commands of a RUN, in their order."""
        return [" ".join(command.split()) for command in self.text.split("&&")]


def instructions(path: Path = DOCKERFILE) -> list[Instruction]:
    """All instructions, without comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in whole.splitlines() if line.strip()]


def stages(path: Path = DOCKERFILE) -> list[list[Instruction]]:
    """The instructions of each stage; a stage begins with its FROM."""
    found: list[list[Instruction]] = []
    for instruction in instructions(path):
        if instruction.name == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found
