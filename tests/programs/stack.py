"""One local stack for all tests: the local AWS, the poller, an SES that keeps its quota, and a relay before them."""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from letters import TO, UNNAMED

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TIDEGATE_BIN_DIR", ROOT / "target/local"))
LOCAL_PYTHON = os.environ.get("TIDEGATE_PYTHON", str(ROOT / ".tools/local/bin/python"))
# Recipients a second. A mail of these tests has 1.5 on the average, so that some 65 mails a second are sent.
QUOTA = 100
# The configuration set of mail that names none: the template makes it for the stack's feedback.
STACK_SET = "tidegate"
# A busy machine takes a minute to start a local AWS and to deploy.
START_SECONDS = 180.0
# All that a program hands over is sent within this time, beside what else `make test` does.
ARRIVE_SECONDS = 180.0
# A look at the mailbox must come before 200 mails more have: it keeps the content of so many.
LOOK_SECONDS = 0.1
END_SECONDS = 20.0
KEY = re.compile(rf"([a-z0-9-]+-\d{{5}})@{re.escape(TO)}")

Found = TypeVar("Found")
Record = dict[str, Any]


def within(seconds: float, what: str, look: Callable[[], Found | None]) -> Found:
    """The first thing that `look` finds."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.2)


class Process:
    """A program that runs for the tests, with its output in files."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.out, self.log = log.with_suffix(".out"), log
        with self.out.open("wb") as out, log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True,
                env=os.environ | {"NO_COLOR": "1", "TIDEGATE_CONSOLE_TOKEN": ""},
            )  # fmt: skip

    def says(self, pattern: str, seconds: float) -> str:
        """The group of a pattern in what it says, on either output."""

        def look() -> re.Match[str] | None:
            said = self.out.read_text() + self.log.read_text()
            found = re.search(pattern, said)
            if not found and self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args!r} ended with {self.process.returncode}: {said[-2000:]}")
            return found

        return within(seconds, f"{self.log.name} says {pattern}", look)[1]

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Mailbox:
    """All mails that an ses-sandbox accepted, whole, by the key of their first recipient."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self.mails: dict[str, list[Record]] = defaultdict(list)
        self.fault: Exception | None = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def get(self, path: str) -> Any:
        self.connection.request("GET", f"/_sandbox/{path}")
        return json.loads(self.connection.getresponse().read())

    def follow(self) -> None:
        after = 0
        try:
            while not self.stopped.wait(LOOK_SECONDS):
                for mail in self.get(f"mails?after={after}&limit=1000"):
                    after = mail["seq"]
                    key = KEY.search(" ".join([*mail["to"], *mail["cc"], *mail["bcc"]]))
                    if key is None:
                        continue
                    whole = self.get(f"mails/{after}")
                    if whole["request"] is None:
                        raise RuntimeError(f"the content of mail {after} was not read in time")
                    self.mails[key[1]].append(whole)
        except Exception as error:
            # The thread that waits for a mail raises it.
            self.fault = error

    def wait(self, keys: Sequence[str], seconds: float) -> dict[str, list[Record]]:
        """The mails of these keys, once all have come."""

        def look() -> bool:
            if self.fault:
                raise RuntimeError("the mailbox cannot be read") from self.fault
            return all(key in self.mails for key in keys)

        try:
            within(seconds, "all mails arrive", look)
        except TimeoutError as error:
            missing = [key for key in keys if key not in self.mails]
            raise TimeoutError(f"{error}; {len(missing)} of {len(keys)} are missing, such as {missing[0]}") from None
        return {key: self.mails[key] for key in keys}

    def end(self) -> None:
        self.stopped.set()
        self.thread.join(5)
        self.connection.close()


class Relay:
    """`tidegate relay` on free ports of loopback."""

    def __init__(self, run: Path, log: Path, *options: str | Path) -> None:
        command = [BIN / "tidegate", "relay", "--local", "--local-runs", run, "--listen", "127.0.0.1:0",
                   "--smtp", "127.0.0.1:0", "--campaign", UNNAMED, "--json", *options]  # fmt: skip
        self.process = Process(command, log)
        said = json.loads(self.process.says(r'(\{"stack".*\})\n', START_SECONDS))
        self.http: str = said["http"]
        self.smtp: list[str] = said["smtp"]

    def counts(self) -> dict[str, int]:
        """Mails by outcome."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return {name: int(number) for name, number in re.findall(r'outcome="(\w+)"\} (\d+)', text)}


class Stack:
    def __init__(self, quota: int = QUOTA) -> None:
        needed = [BIN / name for name in ("devstack", "tidegate", "scheduler", "poller", "ses-sandbox", "sqs-sandbox")]
        missing = [str(path) for path in [*needed, Path(LOCAL_PYTHON)] if not path.exists()]
        if missing:
            raise FileNotFoundError(f"{', '.join(missing)}: `make test-binaries need-local` makes them")
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-programs-"))
        self.run = self.folder / "run"
        self.run.mkdir()
        self.processes: list[Process] = []
        try:
            self.local = Process([
                BIN / "devstack", "--root", ROOT, "--python", LOCAL_PYTHON, "--bin-dir", BIN, "--out", self.run,
                "--quota", str(quota), "--sqs", "sandbox", "--big", "1", "--small", "1", "--keep-running", "--no-browser",
            ], self.folder / "devstack.log")  # fmt: skip
            self.processes.append(self.local)
            self.sandbox = self.local.says(r"Mailbox: (http\S+)", START_SECONDS)
            self.relay = self.another_relay("relay")
        except BaseException:
            self.end(keep=True)
            raise

    def another_relay(self, name: str, *options: str | Path) -> Relay:
        relay = Relay(self.run, self.folder / f"{name}.log", *options)
        self.processes.append(relay.process)
        return relay

    def ses_sandbox(self, name: str, *options: str) -> str:
        """An SES of its own, to which programs send without a relay."""
        log = self.folder / f"{name}.log"
        process = Process([BIN / "ses-sandbox", "--listen", "127.0.0.1:0", "--json", *options], log)
        self.processes.append(process)
        return process.says(r'"url":"(http[^"]+?)/?"', START_SECONDS)

    def sqs(self) -> str:
        """The address of its queues, which the local stack tells once its own first mails were sent."""
        return self.local.says(r"--endpoint-url (http\S+) sqs", START_SECONDS)

    @contextmanager
    def without_sqs(self) -> Iterator[None]:
        """The queues stand still meanwhile: they take connections, and answer nothing until then."""
        asked = ["pgrep", "-x", "-P", str(self.local.process.pid), "sqs-sandbox"]
        found = int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
        os.kill(found, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(found, signal.SIGCONT)

    def refused(self) -> dict[str, int]:
        """Calls that the stack's SES refused, by error code."""
        with urllib.request.urlopen(f"{self.sandbox}/_sandbox/stats", timeout=30) as answer:
            return dict(json.load(answer)["refused"])

    def end(self, keep: bool = False) -> None:
        for process in reversed(self.processes):
            process.end()
        if keep:
            print(f"the logs of this local stack are in {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared() -> Stack:
    """The stack of all tests of a run of Python; it ends with it."""
    stack = Stack()
    atexit.register(stack.end, keep=bool(os.environ.get("KEEP")))
    return stack


@functools.cache
def mailbox() -> Mailbox:
    """What the stack's SES accepted."""
    found = Mailbox(shared().sandbox)
    # Before the stack ends: what is registered last is called first.
    atexit.register(found.end)
    return found
