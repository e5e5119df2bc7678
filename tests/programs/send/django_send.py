"""Django: by SMTP, and by django-ses in both versions of SES."""

import json
import os
import sys
from email.utils import formataddr
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection

WAYS = {
    "smtp": {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": os.environ["SMTP_HOST"],
        "EMAIL_PORT": int(os.environ["SMTP_PORT"]),
    },
    "ses": {"EMAIL_BACKEND": "django_ses.SESBackend", "USE_SES_V2": False},
    "sesv2": {"EMAIL_BACKEND": "django_ses.SESBackend", "USE_SES_V2": True},
}
settings.configure(
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_SES_REGION_NAME="us-east-1",
    AWS_SES_REGION_ENDPOINT_URL=os.environ["AWS_ENDPOINT_URL_SES"],
    AWS_SES_AUTO_THROTTLE=None,
    **WAYS[sys.argv[2]],
)

letters = []
for mail in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    letter = EmailMultiAlternatives(
        mail["subject"],
        mail["text"],
        formataddr((mail["from_name"], mail["from"])),
        [formataddr((mail["to_name"], mail["to"]))],
        cc=[mail["cc"]] if mail["cc"] else None,
        bcc=[mail["bcc"]] if mail["bcc"] else None,
        reply_to=[mail["reply_to"]] if mail["reply_to"] else None,
        headers={"X-Order": mail["order"]} | ({"X-Tidegate-Campaign": mail["campaign"]} if mail["campaign"] else {}),
    )
    if mail["html"]:
        letter.attach_alternative(mail["html"], "text/html")
    if mail["attachment"]:
        letter.attach_file(mail["attachment"], "application/pdf")
    letters.append(letter)
sent = get_connection().send_messages(letters)
sys.exit(0 if sent == len(letters) else f"{sent} of {len(letters)} were sent")
