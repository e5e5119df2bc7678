"""The page docs/cargo-lambda.md: its commands, as printed but for the ports, in a terminal in which nothing is set."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import unittest
import urllib.request

from test_guide import ROOT, blocks

# Where test_guide has put its path.
from running import unused_port

PAGE = ROOT / "docs" / "cargo-lambda.md"
TOOLS = ROOT / ".tools" / "lambda" / "bin"
# A user's own; Cargo would compile what reads the variables of another Cargo.
KEPT = ("HOME", "LANG", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")


class Page(unittest.TestCase):
    def setUp(self) -> None:
        self.ports = {port: str(unused_port()) for port in ("4579", "4580", "9000")}
        programs = os.environ["TIDEGATE_BIN_DIR"]
        self.environment = {name: os.environ[name] for name in KEPT if name in os.environ} | {
            "PATH": f"{TOOLS}:{os.environ['PATH']}", "CARGO_TARGET_DIR": os.path.dirname(programs)}
        texts = [block for _, block in blocks(PAGE.read_text(encoding="utf-8"))]
        for port, free in self.ports.items():
            texts = [text.replace(port, free) for text in texts]
        self.first, self.second = (text.replace("target/local", programs) for text in texts)

    def shell(self, block: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", block], cwd=ROOT, env=self.environment,
                                stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip

    def wait_for(self, host: str, port: str) -> None:
        deadline = time.monotonic() + 300
        while True:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
                if client.connect_ex((host, int(self.ports[port]))) == 0:
                    return
            self.assertIsNone(self.watch.poll(), "the first block ended")
            self.assertLess(time.monotonic(), deadline, f"nothing answers on {port}")
            time.sleep(0.2)

    def end(self) -> None:
        os.killpg(self.watch.pid, signal.SIGTERM)
        self.watch.wait(20)

    def test_a_mail_that_the_page_sends_arrives(self) -> None:
        self.watch = self.shell(self.first)
        self.addCleanup(self.end)
        for host, port in (("127.0.0.1", "4579"), ("127.0.0.1", "4580"), ("::1", "9000")):
            self.wait_for(host, port)
        self.assertEqual(self.shell(self.second).wait(300), 0)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['4579']}/_sandbox/mails", timeout=10) as answer:
            mails = json.load(answer)
        self.assertEqual([mail["to"] for mail in mails], [["ada@example.com"]])


if __name__ == "__main__":
    unittest.main()
