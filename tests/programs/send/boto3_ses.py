"""boto3, version 1 of SES: SendEmail, and SendRawEmail for what has an attachment."""

import json
import sys
from email.utils import formataddr
from pathlib import Path

import boto3
from mime import message

client = boto3.client("ses")
for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    sender, to = formataddr((mail["from_name"], mail["from"])), formataddr((mail["to_name"], mail["to"]))
    tags = [{"Name": "campaign", "Value": mail["campaign"]}] if mail["campaign"] else []
    if mail["attachment"]:
        written = message(mail)
        del written["Bcc"]
        to_all = [address for address in (mail["to"], mail["cc"], mail["bcc"]) if address]
        client.send_raw_email(Source=mail["from"], Destinations=to_all, RawMessage={"Data": written.as_bytes()}, Tags=tags)
        continue
    body = {"Text": {"Data": mail["text"], "Charset": "UTF-8"}}
    if mail["html"]:
        body["Html"] = {"Data": mail["html"], "Charset": "UTF-8"}
    client.send_email(
        Source=sender,
        Destination={"ToAddresses": [to], "CcAddresses": [mail["cc"]] if mail["cc"] else []},
        ReplyToAddresses=[mail["reply_to"]] if mail["reply_to"] else [],
        Message={"Subject": {"Data": mail["subject"], "Charset": "UTF-8"}, "Body": body},
        Tags=tags,
    )
