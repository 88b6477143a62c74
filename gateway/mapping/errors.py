"""Errors of mappings, for those who handle them and read no mapping: the models of its rules take 20 ms."""

from __future__ import annotations


class MappingError(Exception):
    """A mapping cannot be used as requested; the text says which element and why."""
