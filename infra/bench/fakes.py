"""What stands in for AWS in a measurement under Lambda's limits, all of it over TLS: the SES and the
SQS sandbox, and ministack for DynamoDB. They run outside of the limits."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import Client, free_port
from idle import ministack as plain_ministack

HOST = "localhost"
TABLE = "tidegate"
READY_SECONDS = 30.0
# Where systems keep the authorities that they trust; on Lambda the first.
BUNDLES = ("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")
# Of the kind that AWS's endpoints show: RSA, 2,048 bits.
CERTIFICATES = f"""
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=tidegate bench' -keyout ca.key -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj '/CN={HOST}' -keyout key.pem -out leaf.csr
printf 'subjectAltName=DNS:{HOST}\\nextendedKeyUsage=serverAuth\\nbasicConstraints=CA:false\\n' > leaf.ext
openssl x509 -req -days 2 -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile leaf.ext -out cert.pem
"""


@dataclass(frozen=True)
class Identity:
    """A certificate for this machine, and the authorities that a client is to trust."""

    cert: Path
    key: Path
    trusted: Path
    context: ssl.SSLContext
    served: ssl.SSLContext


def identity(folder: Path) -> Identity:
    made = subprocess.run(["/bin/sh", "-ec", CERTIFICATES], cwd=folder, capture_output=True,
                          text=True, check=False)
    if made.returncode:
        raise ValueError(f"openssl made no certificate: {made.stderr.strip()}")
    ours = (folder / "ca.pem").read_text()
    # With the system's own before it: to read those is a part of a cold start.
    system = next((Path(bundle).read_text() for bundle in BUNDLES if Path(bundle).exists()), "")
    trusted = folder / "trusted.pem"
    trusted.write_text(f"{system}\n{ours}")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    return Identity(folder / "cert.pem", folder / "key.pem", trusted, context, served)


@dataclass(frozen=True)
class Fakes:
    identity: Identity
    ses: Client
    sqs: Client
    dynamodb: Client

    @staticmethod
    def url(client: Client) -> str:
        return f"https://{HOST}:{client.port}"

    def queue(self, name: str) -> str:
        return f"{self.url(self.sqs)}/000000000000/{name}"

    def calls(self) -> int:
        return sum(self.sqs.call("GET", "/_sandbox/stats")["calls"].values())

    def waiting(self) -> dict[str, int]:
        """Messages of each queue, in whatever state."""
        queues = self.sqs.call("GET", "/_sandbox/stats")["queues"]
        return {name: sum(depth.values()) for name, depth in queues.items()}

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.ses.call("GET", "/_sandbox/stats")
        return stats

    def arrivals(self, after: int) -> list[dict[str, Any]]:
        mails: list[dict[str, Any]] = []
        while page := self.ses.call("GET", f"/_sandbox/mails?after={after}&limit=10000"):
            mails += page
            after = page[-1]["seq"]
        return mails

    def environment(self) -> dict[str, str]:
        """How a function finds them."""
        return {
            "AWS_ENDPOINT_URL": self.url(self.dynamodb),
            "AWS_ENDPOINT_URL_SQS": self.url(self.sqs),
            "AWS_ENDPOINT_URL_SESV2": self.url(self.ses),
            "SSL_CERT_FILE": str(self.identity.trusted),
            "TIDEGATE_LEDGER": f"dynamodb:{TABLE}",
        }


@contextmanager
def program(name: str, command: list[str], folder: Path) -> Iterator[str]:
    """A sandbox that runs; its URL."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([*command, "--listen", "127.0.0.1:0", "--json"],
                                   stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        try:
            line = process.stdout.readline() if process.stdout else b""
            if not line:
                raise ValueError(f"{name} did not start: {(folder / f'{name}.log').read_text()}")
            yield json.loads(line)["url"]
        finally:
            process.kill()
            process.wait()


@contextmanager
def ministack(python: Path, served: Identity, scratch: str) -> Iterator[int]:
    port = free_port()
    own = {"USE_SSL": "1", "MINISTACK_SSL_CERT": str(served.cert),
           "MINISTACK_SSL_KEY": str(served.key)}
    process = plain_ministack(python, port, scratch, own)
    try:
        yield port
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def make_table(client: Client) -> None:
    body = {"TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]}
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            client.target("dynamodb", "DynamoDB_20120810.CreateTable", body)
            return
        except (OSError, ValueError):
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


@contextmanager
def fakes(args: Any, folder: Path, quota: int, latency: str, idle_seconds: int) -> Iterator[Fakes]:
    """All of them; SES with this quota and time to answer, SES and SQS with connections that end
    when they are idle for so long."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = identity(scratch)
        listen = ["--tls-cert", str(served.cert), "--tls-key", str(served.key),
                  "--idle-seconds", str(idle_seconds)]
        ses = [str(args.bin_dir / "ses-sandbox"), "--quota", str(quota), "--latency", latency]
        sqs = [str(args.bin_dir / "sqs-sandbox"), "--create"]
        ports = [int(stack.enter_context(program(command[0].rsplit("/", 1)[-1], command, folder))
                     .rsplit(":", 1)[-1]) for command in ([*ses, *listen], [*sqs, *listen])]
        ports.append(stack.enter_context(ministack(args.python, served, str(scratch))))
        made = Fakes(served, *(Client(port, served.context) for port in ports))
        make_table(made.dynamodb)
        yield made
