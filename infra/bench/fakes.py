"""What stands in for AWS in a measurement under Lambda's limits, all of it over TLS: the SES and the
SQS sandbox, and ministack for DynamoDB. They run outside of the limits."""

import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import CREDENTIALS, Client, ministack, printed, sandbox

HOST = "localhost"
TABLE = "tidegate"
READY_SECONDS = 30.0
# Where systems keep the authorities that they trust; on Lambda the first.
BUNDLES = ("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")
# Of the kind that AWS's endpoints show: RSA, 2,048 bits. Prints the authority's.
CERTIFICATES = f"""
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=tidegate bench' -keyout ca.key -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj '/CN={HOST}' -keyout key.pem -out leaf.csr
printf 'subjectAltName=DNS:{HOST}\\nextendedKeyUsage=serverAuth\\nbasicConstraints=CA:false\\n' > leaf.ext
openssl x509 -req -days 2 -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile leaf.ext -out cert.pem
cat ca.pem
"""


class Identity:
    """A certificate for this machine, and the authorities that a client is to trust."""

    def __init__(self, folder: Path) -> None:
        ours = printed(["/bin/sh", "-ec", CERTIFICATES], 60, cwd=folder)
        self.cert, self.key, self.trusted = (folder / f"{name}.pem" for name in ("cert", "key", "trusted"))
        # With the system's own before it: to read those is a part of a cold start.
        system = next((Path(bundle).read_text() for bundle in BUNDLES if Path(bundle).exists()), "")
        self.trusted.write_text(f"{system}\n{ours}")
        self.served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.served.load_cert_chain(self.cert, self.key)
        self.context = ssl.create_default_context(cadata=ours)


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

    def waiting(self) -> int:
        """Messages of all queues, in whatever state."""
        queues = self.sqs.call("GET", "/_sandbox/stats")["queues"]
        return sum(sum(depth.values()) for depth in queues.values())

    def stats(self) -> dict[str, Any]:
        return dict(self.ses.call("GET", "/_sandbox/stats"))

    def arrivals(self) -> list[dict[str, Any]]:
        mails: list[dict[str, Any]] = []
        after = 0
        while page := self.ses.call("GET", f"/_sandbox/mails?after={after}&limit=10000"):
            mails += page
            after = page[-1]["seq"]
        return mails

    def environment(self) -> dict[str, str]:
        """How a function finds them."""
        return CREDENTIALS | {
            "AWS_ENDPOINT_URL": self.url(self.dynamodb),
            "AWS_ENDPOINT_URL_SQS": self.url(self.sqs),
            "AWS_ENDPOINT_URL_SESV2": self.url(self.ses),
            "SSL_CERT_FILE": str(self.identity.trusted),
            "TIDEGATE_LEDGER": f"dynamodb:{TABLE}",
            "TIDEGATE_MERGE_QUEUE_URL": self.queue("merge.fifo"),
            "TIDEGATE_DEAD_LETTER_QUEUE_URL": self.queue("dead-letter"),
        }


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
        served = Identity(scratch)
        listen = ("--tls-cert", str(served.cert), "--tls-key", str(served.key), "--idle-seconds", str(idle_seconds))
        urls = [stack.enter_context(sandbox(args.bin_dir / name, folder, *own, *listen)) for name, own in (
            ("ses-sandbox", ("--quota", str(quota), "--latency", latency)), ("sqs-sandbox", ("--create",)))]
        over_tls = {"USE_SSL": "1", "MINISTACK_SSL_CERT": str(served.cert), "MINISTACK_SSL_KEY": str(served.key)}
        ports = [*(int(url.rsplit(":", 1)[-1]) for url in urls),
                 stack.enter_context(ministack(args.python, str(scratch), over_tls))]
        made = Fakes(served, *(Client(port, served.context) for port in ports))
        make_table(made.dynamodb)
        yield made
