"""swaks, which puts a mail together from its options."""

import json
import os
import subprocess
import sys
from email.header import Header
from email.utils import formataddr
from pathlib import Path

SWAKS = ["swaks", "--server", os.environ["SMTP_HOST"], "--port", os.environ["SMTP_PORT"], "--silent", "2"]

for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    headers = {
        "From": formataddr((mail["from_name"], mail["from"])),
        "To": formataddr((mail["to_name"], mail["to"])),
        "Subject": Header(mail["subject"], "utf-8").encode(),
        "X-Order": mail["order"],
        "Cc": mail["cc"],
        "Reply-To": mail["reply_to"],
        "X-Tidegate-Campaign": mail["campaign"],
    }
    command = [*SWAKS, "--from", mail["from"]]
    command += ["--to", ",".join(address for address in (mail["to"], mail["cc"], mail["bcc"]) if address)]
    for name, value in headers.items():
        command += [f"--h-{name}", value] if value else []
    command += ["--body", mail["text"]]
    if mail["attachment"]:
        command += ["--attach-type", "application/pdf", "--attach-name", Path(mail["attachment"]).name]
        command += ["--attach", f"@{mail['attachment']}"]
    subprocess.run(command, check=True)
