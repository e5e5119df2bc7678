"""AWS's published prices in us-east-1, US dollars; free tiers are not subtracted. Compare them with their
sources before you budget: AWS changes them."""

from __future__ import annotations

# What it is: price, unit, source.
PRICES: dict[str, tuple[float, str, str]] = {
    "lambda_request": (0.20e-6, "request", "https://aws.amazon.com/lambda/pricing/"),
    "lambda_gb_s_arm64": (0.0000133334, "GB-s", "https://aws.amazon.com/lambda/pricing/"),
    "lambda_gb_s_x86_64": (0.0000166667, "GB-s", "https://aws.amazon.com/lambda/pricing/"),
    "sqs_standard": (0.40e-6, "call of 64 KB", "https://aws.amazon.com/sqs/pricing/"),
    "sqs_fifo": (0.50e-6, "call of 64 KB", "https://aws.amazon.com/sqs/pricing/"),
    "dynamodb_write": (0.625e-6, "write unit of 1 KB",
                       "https://aws.amazon.com/dynamodb/pricing/on-demand/"),
    "dynamodb_read": (0.125e-6, "read unit of 4 KB",
                      "https://aws.amazon.com/dynamodb/pricing/on-demand/"),
    "dynamodb_gb_month": (0.25, "GB-month", "https://aws.amazon.com/dynamodb/pricing/on-demand/"),
    "metric": (0.30, "metric and month", "https://aws.amazon.com/cloudwatch/pricing/"),
    "alarm": (0.10, "alarm and month", "https://aws.amazon.com/cloudwatch/pricing/"),
    "dashboard": (3.00, "dashboard and month", "https://aws.amazon.com/cloudwatch/pricing/"),
    "log_gb": (0.50, "GB taken in", "https://aws.amazon.com/cloudwatch/pricing/"),
    "log_gb_month": (0.03, "GB kept for a month", "https://aws.amazon.com/cloudwatch/pricing/"),
    "event": (1.00e-6, "event to a rule of one's own",
              "https://aws.amazon.com/eventbridge/pricing/"),
    "ses_mail": (0.10e-3, "recipient", "https://aws.amazon.com/ses/pricing/"),
}


def price(name: str) -> float:
    return PRICES[name][0]
