"""The console behind nginx, by the example in infra/console, and the page's `curl` command through it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import unittest
from pathlib import Path

from stack import BIN, ROOT, START_SECONDS, Process, shared, within

EXAMPLE = ROOT / "infra/console/nginx.conf"
PAGE = ROOT / "docs/commands/console.md"
NGINX = shutil.which("nginx") or str(ROOT / ".tools/debian/usr/sbin/nginx")
TOKEN = "a-token-of-32-visible-characters"
# The page's address of a console.
CONSOLE = "http://localhost:7878"
PUBLIC = "mail.example"
# Everything in a folder of the test's, and no daemon.
AROUND = """daemon off; user root; pid {folder}/nginx.pid; error_log {folder}/nginx.err;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; server_name {public}; include {example}; }}
}}
"""


class BehindNginx(unittest.TestCase):
    def setUp(self) -> None:
        if not Path(NGINX).exists():
            if os.environ.get("CI"):
                self.fail("nginx is missing")
            self.skipTest("nginx is missing")
        stack = shared()
        self.folder = stack.folder
        own = ["--public-url", f"https://{PUBLIC}", "--trusted-proxy", "127.0.0.1", "--token-file", self.file("token", TOKEN)]
        # It tells the public address alone, so the port is ours.
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            port, self.port = one.getsockname()[1], other.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = [BIN / "tidegate", "console", "--local", "--local-runs", stack.run, "--listen", f"127.0.0.1:{port}", *own]
        console = Process(command, stack.folder / "console.log")
        self.addCleanup(console.end)
        example = EXAMPLE.read_text(encoding="utf-8")
        self.assertIn("http://127.0.0.1:7878", example)
        example = self.file("console.conf", example.replace("http://127.0.0.1:7878", url))
        around = AROUND.format(folder=self.folder, port=self.port, public=PUBLIC, example=example)
        nginx = Process([NGINX, "-p", self.folder, "-c", self.file("nginx.conf", around)], self.folder / "nginx.log")
        self.addCleanup(nginx.end)

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    def test_the_pages_command_shows_events_as_they_come_and_without_the_token_there_are_none(self) -> None:
        url = f"http://127.0.0.1:{self.port}"
        asked = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {PUBLIC}", f"{url}/api/events"]

        def status() -> str | None:
            code = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
            return code if code not in ("000", "502") else None

        self.assertEqual(within(START_SECONDS, "nginx and the console answer", status), "401")
        found = re.search(rf"^curl .*{CONSOLE}/api/events \|\n.*$", PAGE.read_text(encoding="utf-8"), re.M)
        assert found is not None
        command = found[0].replace("curl -sN", f"curl -sN -H 'Host: {PUBLIC}'").replace(CONSOLE, url)
        shown = subprocess.Popen(
            ["bash", "-c", command], stdout=subprocess.PIPE, text=True, env=os.environ | {"TOKEN": TOKEN}, start_new_session=True
        )
        try:
            assert shown.stdout is not None
            self.assertRegex(shown.stdout.readline(), r"^\d\d:\d\d:\d\d event: ?\w+")
        finally:
            os.killpg(shown.pid, 9)
            shown.communicate()


if __name__ == "__main__":
    unittest.main()
