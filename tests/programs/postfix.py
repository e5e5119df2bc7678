"""Debian's Postfix, unpacked and not installed: it hands all mail to one host, and runs as whoever starts it."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = Path(os.environ.get("TIDEGATE_DEBIAN", ROOT / ".tools/debian"))
LIBRARIES = f"usr/lib/{platform.machine()}-linux-gnu"
START_SECONDS = 20.0
END_SECONDS = 10.0
# Postfix looks at its deferred mail, and tries it again, after so many seconds.
RETRY_SECONDS = 2
# Postfix insists on root for its master, and on two accounts that have nothing else.
PASSWD = "root:x:0:0::/:/bin/false\npostfix:x:{user}:{group}::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
GROUPS = "root:x:0:\npostfix:x:{group}:\npostdrop:x:{drop}:\nnogroup:x:65534:\n"
MASTER = """\
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Postfix:
    """A Postfix in a folder of its own, which takes mail at `port`. Bounces are logged, and refused by the relay."""

    def __init__(self, folder: Path, relayhost: str, **settings: str) -> None:
        self.folder, self.port, self.log = folder, free_port(), folder / "postfix.log"
        self.libraries = DEBIAN / "usr/lib/postfix"
        self.process: subprocess.Popen[bytes] | None = None
        etc = folder / "etc"
        for new in (etc, folder / "data", folder / "queue", *(folder / "queue" / name for name in (
            "active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "pid", "private",
            "maildrop", "public", "saved", "trace",
        ))):  # fmt: skip
            new.mkdir(parents=True, exist_ok=True)
        (etc / "passwd").write_text(PASSWD.format(user=64_901, group=64_901))
        (etc / "group").write_text(GROUPS.format(group=64_901, drop=64_902))
        (etc / "master.cf").write_text(MASTER.format(port=self.port))
        self.wrapped = {
            "LD_LIBRARY_PATH": f"{self.libraries}:{DEBIAN / LIBRARIES}",
            "LD_PRELOAD": f"{DEBIAN / LIBRARIES}/libnss_wrapper.so:{DEBIAN / LIBRARIES}/libuid_wrapper.so",
            "UID_WRAPPER": "1", "UID_WRAPPER_ROOT": "1",
            "NSS_WRAPPER_PASSWD": str(etc / "passwd"), "NSS_WRAPPER_GROUP": str(etc / "group"),
        }  # fmt: skip
        main = {
            "compatibility_level": "3.6", "queue_directory": folder / "queue", "data_directory": folder / "data",
            "command_directory": DEBIAN / "usr/sbin", "daemon_directory": self.libraries / "sbin",
            "shlib_directory": self.libraries, "meta_directory": DEBIAN / "etc/postfix",
            "maillog_file": self.log, "maillog_file_prefixes": folder,
            "myhostname": "postfix.example.org", "mydestination": "", "mynetworks": "127.0.0.0/8",
            "inet_interfaces": "loopback-only", "inet_protocols": "ipv4", "relayhost": relayhost,
            "alias_maps": "", "alias_database": "", "local_recipient_maps": "", "biff": "no",
            "smtp_host_lookup": "native", "smtpd_tls_security_level": "none",
            "notify_classes": "",
            "minimal_backoff_time": f"{RETRY_SECONDS}s", "maximal_backoff_time": f"{RETRY_SECONDS}s",
            "queue_run_delay": f"{RETRY_SECONDS}s", "transport_retry_time": f"{RETRY_SECONDS}s",
            "import_environment": " ".join(["MAIL_CONFIG", "TZ", *(f"{k}={v}" for k, v in self.wrapped.items())]),
        } | settings  # fmt: skip
        (etc / "main.cf").write_text("".join(f"{name} = {value}\n" for name, value in main.items()))

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(DEBIAN / name), "-c", str(self.folder / "etc"), *arguments]

    def start(self, *before: str) -> None:
        """`before` is a command that runs it, such as `taskset`."""
        # The master leads its own group of processes, which ends with it.
        with (self.folder / "master.err").open("wb") as errors:
            self.process = subprocess.Popen(
                [*before, *self.command("usr/lib/postfix/sbin/master", "-d")],
                env=os.environ | self.wrapped, cwd=self.folder / "queue",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5.0) as probe:
                    probe.settimeout(5.0)
                    if probe.recv(3) == b"220":
                        return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"Postfix does not answer: {error}; {self.said()}") from error
            time.sleep(0.1)

    def said(self) -> str:
        files = (self.folder / "master.err", self.log)
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def queued(self) -> int:
        """The mails that it keeps."""
        queues = ("incoming", "active", "deferred", "maildrop", "hold")
        return sum(file.is_file() for queue in queues for file in (self.folder / "queue" / queue).rglob("*"))

    def end(self) -> None:
        if self.process is None:
            return
        # Its daemons are in its group.
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None


def missing() -> str:
    """Why it cannot run here; empty where it can."""
    if (DEBIAN / "usr/sbin/postfix").exists():
        return ""
    return f"{DEBIAN} has no Postfix: on Debian and Ubuntu `make need-programs` unpacks it, if it is not installed"


@contextmanager
def discarding(*before: str) -> Iterator[list[str]]:
    """A Postfix that throws mail away, run by the command `before`: its address; none where it is missing."""
    if missing():
        yield []
        return
    with tempfile.TemporaryDirectory() as folder:
        postfix = Postfix(Path(folder), "", default_transport="discard", smtpd_client_connection_count_limit="0")
        try:
            postfix.start(*before)
            yield [f"127.0.0.1:{postfix.port}"]
        finally:
            postfix.end()
