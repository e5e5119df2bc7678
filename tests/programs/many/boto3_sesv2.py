"""boto3 (SES v2), as a program that sends a campaign: threads that share a client, and the SDK's own retries."""

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

mails, threads = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), int(sys.argv[2])
client = boto3.client("sesv2", config=Config(max_pool_connections=threads))


def send(mail: dict[str, Any]) -> str:
    body = {"Text": {"Data": mail["text"]}}
    try:
        client.send_email(
            FromEmailAddress=mail["from"],
            Destination={"ToAddresses": [mail["to"]]},
            Content={"Simple": {"Subject": {"Data": mail["subject"]}, "Body": body}},
            EmailTags=[{"Name": "campaign", "Value": mail["campaign"]}],
        )
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    except BotoCoreError as error:
        return type(error).__name__
    return "accepted"


with ThreadPoolExecutor(threads) as pool:
    print(json.dumps(Counter(pool.map(send, mails))))
