"""Colours of the page: those of Okabe and Ito, which people with any colour vision can tell apart."""

from __future__ import annotations

from typing import Final

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
SKY: Final = "#56B4E9"
PINK: Final = "#CC79A7"
GREY: Final = "#8A8F98"
INK: Final = "#20242B"
PAPER: Final = "#FFFFFF"
FAINT: Final = "#E6E8EC"
