"""A plain SMTP server, which keeps what it is handed: what a program sends when there is no relay."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass(frozen=True)
class Handed:
    """A mail with its envelope."""

    sender: str
    recipients: tuple[str, ...]
    message: bytes


class Sink:
    def __init__(self) -> None:
        self.mails: list[Handed] = []
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(self.listen())
        self.port: int = self.server.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    async def listen(self) -> asyncio.Server:
        def connection() -> SMTP:
            return SMTP(self, enable_SMTPUTF8=True, hostname="sink", loop=self.loop)

        return await self.loop.create_server(connection, "127.0.0.1", 0)

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        content = envelope.content
        message = content.encode() if isinstance(content, str) else bytes(content or b"")
        self.mails.append(Handed(envelope.mail_from or "", tuple(envelope.rcpt_tos), message))
        return "250 2.0.0 kept"

    def end(self) -> None:
        self.server.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()
