"""boto3, version 2 of SES."""

import json
import sys
from email.utils import formataddr
from pathlib import Path

import boto3

client = boto3.client("sesv2")
for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    simple = {
        "Subject": {"Data": mail["subject"], "Charset": "UTF-8"},
        "Body": {"Text": {"Data": mail["text"], "Charset": "UTF-8"}},
        "Headers": [{"Name": "X-Order", "Value": mail["order"]}],
    }
    if mail["html"]:
        simple["Body"]["Html"] = {"Data": mail["html"], "Charset": "UTF-8"}
    if mail["attachment"]:
        file = Path(mail["attachment"])
        simple["Attachments"] = [
            {"FileName": file.name, "RawContent": file.read_bytes(), "ContentType": "application/pdf",
             "ContentDisposition": "ATTACHMENT"}
        ]  # fmt: skip
    client.send_email(
        FromEmailAddress=formataddr((mail["from_name"], mail["from"])),
        Destination={
            "ToAddresses": [formataddr((mail["to_name"], mail["to"]))],
            "CcAddresses": [mail["cc"]] if mail["cc"] else [],
            "BccAddresses": [mail["bcc"]] if mail["bcc"] else [],
        },
        ReplyToAddresses=[mail["reply_to"]] if mail["reply_to"] else [],
        Content={"Simple": simple},
        EmailTags=[{"Name": "campaign", "Value": mail["campaign"]}] if mail["campaign"] else [],
    )
