"""Starts ministack so that an update of a function lets its running invocations end, as Lambda does.

ministack 1.5.33 ends their processes. After a `sam deploy` that updates the stack the rest of the scheduler's
minute would be lost, and the doctor would find that nothing is served until the next one.
"""

from __future__ import annotations

import sys
from typing import Any

from ministack import app
from ministack.core import lambda_runtime

end_all = lambda_runtime.kill_workers


def end_idle(workers: list[Any]) -> None:
    """The others have left their function's pool: they end their invocation, and are given no more."""
    end_all([worker for worker in workers if not worker.in_use])


if __name__ == "__main__":
    lambda_runtime.kill_workers = end_idle
    sys.argv = ["ministack"]
    app.main()
