"""Python's smtplib."""

import json
import os
import smtplib
import sys
from pathlib import Path

from mime import message

with smtplib.SMTP(os.environ["SMTP_HOST"], int(os.environ["SMTP_PORT"])) as server:
    for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        server.send_message(message(mail))
