"""The AWS CLI: `sesv2 send-email`, and `ses send-raw-email` for what has an attachment."""

import json
import subprocess
import sys
from email.policy import SMTP
from email.utils import formataddr
from pathlib import Path

from mime import message

AWS = "aws"
# Version 2 takes the bytes of a mail in base64 unless it is told otherwise; version 1 takes them as they are.
is_second = "aws-cli/2" in subprocess.run([AWS, "--version"], capture_output=True, text=True, check=True).stdout
options = ["--cli-binary-format", "raw-in-base64-out"] if is_second else []

for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    tags = [{"Name": "campaign", "Value": mail["campaign"]}] if mail["campaign"] else []
    if mail["attachment"]:
        written = message(mail)
        del written["Bcc"]
        call = ["ses", "send-raw-email"]
        request = {
            "Source": mail["from"],
            "Destinations": [address for address in (mail["to"], mail["cc"], mail["bcc"]) if address],
            "RawMessage": {"Data": written.as_bytes(policy=SMTP.clone(cte_type="7bit")).decode("ascii")},
            "Tags": tags,
        }
    else:
        call = ["sesv2", "send-email"]
        body = {"Text": {"Data": mail["text"]}} | ({"Html": {"Data": mail["html"]}} if mail["html"] else {})
        request = {
            "FromEmailAddress": formataddr((mail["from_name"], mail["from"])),
            "Destination": {"ToAddresses": [formataddr((mail["to_name"], mail["to"]))]},
            "ReplyToAddresses": [mail["reply_to"]] if mail["reply_to"] else [],
            "Content": {"Simple": {"Subject": {"Data": mail["subject"]}, "Body": body}},
            "EmailTags": tags,
        }
    subprocess.run([AWS, *call, *options, "--cli-input-json", json.dumps(request)], check=True)
