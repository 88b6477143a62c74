"""The error of a secret that is not there."""

from __future__ import annotations


class CredentialsError(Exception):
    """There is no secret to log in with; the text is one line for people, with what to do.

    Attributes:
        passing: it may be there later without a change of the configuration.
    """

    passing = False
