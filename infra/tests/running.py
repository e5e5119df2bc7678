"""A local AWS and an SES that run for a test, and end with it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3


def unused_port() -> int:
    """A port for a program that binds it later. The side that holds it closes a connection first, so it is in TIME_WAIT
    for a minute, and the kernel gives it to nobody who asks for any port."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        server.accept()[0].close()
        client.recv(1)
        return int(server.getsockname()[1])


class LocalAws:
    """ministack on a free port; functions inherit its environment, and so find it."""

    def __init__(self, folder: Path, region: str) -> None:
        self.region = region
        port = unused_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        own = {"BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "GATEWAY_PORT": str(port),
               "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0", "STATE_DIR": str(folder / "state"),
               "S3_DATA_DIR": str(folder / "s3"), "TMPDIR": str(folder)}  # fmt: skip
        self.log = (folder / "ministack.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-B", Path(__file__).with_name("ministack_as_lambda.py")], cwd=folder, stdout=self.log,
            stderr=subprocess.STDOUT, env=os.environ | own | self.environment(), start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.endpoint}/_ministack/ready", timeout=5):
                    return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def environment(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip

    def client(self, service: str) -> Any:
        return boto3.client(
            service, endpoint_url=self.endpoint, region_name=self.region,
            aws_access_key_id="test", aws_secret_access_key="test",
        )  # fmt: skip

    def end(self) -> None:
        # Its functions are of its process group.
        os.killpg(self.process.pid, 15)
        self.process.wait(20)
        self.log.close()


class SesSandbox:
    """ses-sandbox on a free port: it enforces its quota, and its mailbox tells what was sent when."""

    def __init__(self, program: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [program, "--listen", "127.0.0.1:0", "--json", *options], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/_sandbox/{path}", timeout=10) as answer:
            return json.load(answer)

    def mails(self) -> list[dict[str, Any]]:
        """Every mail that it accepted, in order."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["seq"] if found else 0
            page = self.get(f"mails?after={after}&limit=10000")
            if not page:
                return found
            found += page

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
