"""django-ses (SES v2), as a program that sends a campaign: threads, each with a connection of its own."""

import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.core.mail import EmailMessage, get_connection

mails, threads = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), int(sys.argv[2])
settings.configure(
    EMAIL_BACKEND="django_ses.SESBackend",
    USE_SES_V2=True,
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_SES_REGION_NAME="us-east-1",
    AWS_SES_REGION_ENDPOINT_URL=os.environ["AWS_ENDPOINT_URL_SESV2"],
    # Its default keeps half of the rate that SES tells; through the relay the docs turn it off.
    **({"AWS_SES_AUTO_THROTTLE": None} if os.environ.get("NO_THROTTLE") else {}),
)
own = local()


def send(mail: dict[str, Any]) -> str:
    if not hasattr(own, "connection"):
        own.connection = get_connection()
        own.connection.open()
    headers = {"X-Tidegate-Campaign": mail["campaign"]}
    letter = EmailMessage(mail["subject"], mail["text"], mail["from"], [mail["to"]], headers=headers, connection=own.connection)
    try:
        letter.send()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    except BotoCoreError as error:
        return type(error).__name__
    return "accepted"


with ThreadPoolExecutor(threads) as pool:
    print(json.dumps(Counter(pool.map(send, mails))))
