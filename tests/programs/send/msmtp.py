"""msmtp, which reads the recipients from the mail as sendmail does."""

import json
import os
import subprocess
import sys
from pathlib import Path

from mime import message

MSMTP = ["msmtp", "-C", "/dev/null", f"--host={os.environ['SMTP_HOST']}", f"--port={os.environ['SMTP_PORT']}"]

for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    command = [*MSMTP, f"--from={mail['from']}", "--read-recipients"]
    subprocess.run(command, input=message(mail).as_bytes(), check=True)
