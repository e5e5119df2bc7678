"""How a deployment ends that does not succeed."""

from __future__ import annotations


class Failure(Exception):
    """An end that is told in one line, with the exit code that names its kind."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
