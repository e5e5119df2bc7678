"""Calls to what stands in for AWS on this machine."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any

AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{}/aws4_request, Signature=x"


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
