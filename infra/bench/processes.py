"""Programs that a measurement starts, and calls to those of them that stand in for AWS."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Command = Sequence[str | Path]

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{}/aws4_request, Signature=x"
MINISTACK = "import sys; from ministack.app import main; sys.argv = ['ministack']; main()"


def printed(command: Command, seconds: float, codes: tuple[int, ...] = (0,), **options: Any) -> str:
    """The output of a program that has so many seconds, and may end with these codes."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
    if ended.returncode not in codes or not ended.stdout.strip():
        raise ValueError(ended.stderr.strip() or f"it ended with {ended.returncode} and said nothing")
    return ended.stdout


def devstack(args: Any, folder: Path, seconds: float, *options: object) -> dict[str, Any]:
    """The report of a local run on the release binaries. One that breaks a promise is a report, too."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [args.bin_dir / "devstack", "--json", "--root", args.root, "--bin-dir", args.bin_dir, "--out", folder,
               "--python", args.python, *map(str, options)]
    return dict(json.loads(printed(command, seconds, codes=(0, 1))))


@contextmanager
def running(command: Command, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs meanwhile; it and what it started are killed then."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def sandbox(program: Path, folder: Path, *options: str) -> Iterator[str]:
    """A sandbox that runs; its URL."""
    log = folder / f"{program.name}.log"
    command: Command = [program, *options, "--listen", "127.0.0.1:0", "--json"]
    with log.open("wb") as errors, running(command, stdout=subprocess.PIPE, stderr=errors) as process:
        line = process.stdout.readline() if process.stdout else b""
        if not line:
            raise ValueError(f"{program.name} did not start: {log.read_text()}")
        yield json.loads(line)["url"].rstrip("/")


@contextmanager
def ministack(python: Path, scratch: str, more: dict[str, str] | None = None) -> Iterator[int]:
    """The local AWS; its port."""
    port = free_port()
    environment = (more or {}) | {
        "PATH": os.environ.get("PATH", ""), "HOME": scratch, "TMPDIR": scratch,
        "BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "GATEWAY_PORT": str(port),
        "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0",
    }
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running([python, "-u", "-c", MINISTACK], cwd=scratch, env=environment, **silent):
        yield port


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Client:
    """Calls over one connection; over TLS with the context that trusts its certificate."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.port, self.context = port, context
        self.connection: http.client.HTTPConnection | None = None

    def connect(self) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection("localhost", self.port, timeout=60)
        return http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.context)

    def call(self, method: str, path: str, body: Any = None, service: str = "", **headers: str) -> Any:
        signed = {"Authorization": AUTHORIZATION.format(service)} if service else {}
        for again in (True, False):
            connection = self.connection = self.connection or self.connect()
            try:
                connection.request(method, path, None if body is None else json.dumps(body), signed | headers)
                answer = connection.getresponse()
                read = answer.read()
                break
            except (http.client.HTTPException, ConnectionError):
                connection.close()
                self.connection = None
                if not again:
                    raise
        if answer.status >= 300:
            raise ValueError(f"{service} {method} {path}: {answer.status} {read[:300]!r}")
        return json.loads(read) if read else None

    def target(self, service: str, name: str, body: Any) -> Any:
        """A call in AWS's JSON protocol."""
        return self.call("POST", "/", body, service, **{
            "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": name})
