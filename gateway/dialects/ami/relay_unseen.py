"""What was typed unseen for a command: not shown either where its application says it back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.dialects.ami.instructions import Response
from gateway.dialects.ami.values import AmiValue
from gateway.model.secrets import MASK

_SHORT: Final = 4
"""Characters below which something is masked only where it stands alone: half of all words have an ``e``."""


class Unseen:
    """What was typed unseen for one call.

    Args:
        typed: by the variables of the command's form.
    """

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._variables = frozenset(typed)
        longest_first = sorted(filter(None, typed.values()), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first))) if longest_first else None

    def left_out(self, response: Response) -> Response:
        """A response as it may be shown: without the values of those variables, and masked in texts.

        Numbers under other keys stay: nobody can tell them from what is measured.
        """
        if not self._variables:
            return response
        values = {key: self._value(one) for key, one in response.values.items() if key not in self._variables}
        text, script = self._text(response.text), self._text(response.script)
        return replace(response, text=text, script=script, values=values)

    def _value(self, value: AmiValue) -> AmiValue:
        return type(value)(self._text(value)) if isinstance(value, str) else value

    def _text(self, text: str | None) -> str | None:
        return text if text is None or self._pattern is None else self._pattern.sub(MASK, text)


def _pattern(typed: str) -> str:
    escaped = re.escape(typed)
    return escaped if len(typed) >= _SHORT else rf"(?<!\w){escaped}(?!\w)"
