"""Lambda, as far as a function can tell: asynchronous invocations, execution environments that start
cold, are frozen between invocations and killed at the time-out, and the runtime API they ask."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confinement import Group

# Milliseconds from an asynchronous Invoke to the function: log-normal.
DISPATCH_P50_MS = 70.0
DISPATCH_P99_MS = 225.0
Z_P99 = 2.326
SAMPLE_SECONDS = 0.05

Answer = tuple[int, dict[str, str], bytes]


class Request(NamedTuple):
    """One of HTTP; the names of its headers in small letters, and all of it as it was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    raw: bytes


def dispatch_seconds(chance: random.Random) -> float:
    sigma = math.log(DISPATCH_P99_MS / DISPATCH_P50_MS) / Z_P99
    return chance.lognormvariate(math.log(DISPATCH_P50_MS), sigma) / 1e3


def lambda_variables(name: str, memory_mb: int, runtime_api: str) -> dict[str, str]:
    """What Lambda tells a function in its environment."""
    return {
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": name,
        "AWS_LAMBDA_LOG_STREAM_NAME": name,
    }


@dataclass(frozen=True)
class Settings:
    """A function as it is deployed."""

    name: str
    program: Path
    memory_mb: int
    timeout_s: float
    variables: dict[str, str]
    log: Path


@dataclass
class Invocation:
    payload: Any
    cold: bool = False
    report: Any = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class Figures:
    """Sums over a function's environments."""

    cpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    periods: int = 0
    throttled_periods: int = 0
    peak_rss_bytes: int = 0
    most_descriptors: int = 0
    cold_starts: int = 0
    killed_for_memory: int = 0
    # Why, of each invocation that came to no end, or to an error.
    failed: list[str] = field(default_factory=list)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """None at the connection's end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        fields = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body, head + body)


async def serve(answer: Callable[[Request], Awaitable[Answer]],
                tls: ssl.SSLContext | None = None) -> tuple[asyncio.Server, int]:
    """An HTTP server on a free port."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_request(reader):
                status, headers, body = await answer(request)
                headers = {"Content-Type": "application/json", **headers,
                           "Content-Length": str(len(body))}
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {status} Answer\r\n{lines}\r\n".encode() + body)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=tls)
    return server, server.sockets[0].getsockname()[1]


class Environment:
    """One execution environment: a process in a group of its own, and its runtime API."""

    def __init__(self, function: Function, first: Invocation) -> None:
        self.function = function
        self.current: Invocation | None = None
        self.next: asyncio.Future[Invocation | None] = asyncio.get_running_loop().create_future()
        self.next.set_result(first)
        self.group = function.group()
        self.frozen = self.over = False
        self.peak_rss = self.descriptors = 0
        self.deadline: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self.server, port = await serve(self.answer)
        settings = self.function.settings
        told = lambda_variables(settings.name, settings.memory_mb, f"127.0.0.1:{port}")
        with settings.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.group.command(str(settings.program)), stdout=log, stderr=log,
                stdin=asyncio.subprocess.DEVNULL, env=settings.variables | told)
        self.watched = asyncio.create_task(self.watch())

    async def answer(self, request: Request) -> Answer:
        if request.path.endswith("/invocation/next"):
            return await self.give_next()
        if self.deadline:
            self.deadline.cancel()
        if request.path.endswith("/response") and self.current:
            self.current.report = json.loads(request.body or b"null")
        else:
            self.function.figures.failed.append(request.body.decode(errors="replace")[:300])
        return 202, {}, b'{"status":"OK"}'

    async def give_next(self) -> Answer:
        if self.current:  # it is done with it, and idle
            self.sample()
            self.current = None
            self.next = asyncio.get_running_loop().create_future()
            self.function.idle.append(self)
            self.set_frozen(True)
        self.current = await self.next
        if self.current is None:  # it was killed meanwhile
            return 410, {}, b""
        timeout = self.function.settings.timeout_s
        self.deadline = asyncio.get_running_loop().call_later(timeout, self.time_out)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": self.current.id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + timeout) * 1e3)),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:000000000000:"
                                                   f"function:{self.function.settings.name}",
        }
        return 200, headers, json.dumps(self.current.payload).encode()

    def give(self, invocation: Invocation) -> None:
        self.set_frozen(False)
        self.next.set_result(invocation)

    def set_frozen(self, frozen: bool) -> None:
        self.frozen = frozen
        self.group.set_frozen(frozen)

    def time_out(self) -> None:
        self.function.figures.failed.append("timed out")
        self.over = True
        self.process.kill()

    def sample(self) -> None:
        """Descriptors and the most memory that the process has had."""
        process = Path(f"/proc/{self.process.pid}")
        try:
            status = (process / "status").read_text()
            self.descriptors = max(self.descriptors, len(os.listdir(process / "fd")))
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_rss = max(self.peak_rss, int(line.split()[1]) * 1_024)

    async def watch(self) -> None:
        """Until the process has ended: its part of the figures."""
        await self.process.wait()
        figures, throttling = self.function.figures, self.group.throttling()
        figures.cpu_seconds += self.group.cpu_seconds()
        figures.throttled_seconds += throttling.seconds
        figures.periods += throttling.periods
        figures.throttled_periods += throttling.throttled
        figures.peak_rss_bytes = max(figures.peak_rss_bytes, self.peak_rss)
        figures.most_descriptors = max(figures.most_descriptors, self.descriptors)
        if self.group.killed():
            figures.killed_for_memory += 1
            figures.peak_rss_bytes = self.function.settings.memory_mb << 20
        elif not self.over:
            figures.failed.append(f"ended with {self.process.returncode}")
        if self.deadline:
            self.deadline.cancel()
        if not self.next.done():
            self.next.set_result(None)
        if self in self.function.idle:
            self.function.idle.remove(self)
        self.function.alive.discard(self)
        self.server.close()
        self.group.remove()

    async def retire(self) -> None:
        """Ends it as Lambda does: a kill."""
        self.sample()
        self.over = True
        self.process.kill()
        self.group.set_frozen(False)
        await self.watched


class Function:
    """A function that is deployed here."""

    def __init__(self, group: Callable[[], Group], settings: Settings) -> None:
        self.group = group
        self.settings = settings
        self.figures = Figures()
        self.idle: list[Environment] = []
        self.alive: set[Environment] = set()
        self.dispatches: list[asyncio.Task[None]] = []
        self.chance = random.Random(7)
        self.sampling = asyncio.create_task(self.sample())

    async def sample(self) -> None:
        while True:
            for environment in list(self.alive):
                if not environment.frozen:
                    environment.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    def invoke(self, payload: Any) -> Invocation:
        """Takes an event, and gives it to an environment a moment later."""
        invocation = Invocation(payload)
        self.dispatches.append(asyncio.create_task(self.dispatch(invocation)))
        return invocation

    async def dispatch(self, invocation: Invocation) -> None:
        await asyncio.sleep(dispatch_seconds(self.chance))
        if self.idle:  # the one that was used last, so that those in excess grow old
            self.idle.pop().give(invocation)
            return
        invocation.cold = True
        self.figures.cold_starts += 1
        environment = Environment(self, invocation)
        self.alive.add(environment)
        await environment.start()

    def cpu_seconds(self) -> float:
        """Processor time of all environments until now."""
        alive = sum(environment.group.cpu_seconds() for environment in self.alive)
        return self.figures.cpu_seconds + alive

    async def retire_idle(self) -> None:
        """Takes the idle environments away, as Lambda does when it likes."""
        idle, self.idle = self.idle, []
        await asyncio.gather(*(environment.retire() for environment in idle))

    async def stop(self) -> None:
        self.sampling.cancel()
        await asyncio.gather(*self.dispatches)
        await asyncio.gather(*(environment.retire() for environment in list(self.alive)))
