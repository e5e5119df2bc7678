"""What a long measurement says while it runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# On a terminal the line is replaced; a log gets a line now and then.
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 30.0


def said(part: str, seconds: float, about: int) -> str:
    return f"{part}: {seconds:.0f} s of about {about} s"


@contextmanager
def progress(part: str, about: int) -> Iterator[None]:
    """Says on standard error how long the part has been running."""
    over, began = threading.Event(), time.monotonic()
    terminal = sys.stderr.isatty()

    def say() -> None:
        while not over.wait(TERMINAL_SECONDS if terminal else LOG_SECONDS):
            text = said(part, time.monotonic() - began, about)
            print(f"\r\033[K{text}" if terminal else text, end="" if terminal else "\n",
                  file=sys.stderr, flush=True)

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()
        if terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
