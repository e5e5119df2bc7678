"""The first hour on a real account, for less than a dollar. With AWS_ENDPOINT_URL: a rehearsal on a local AWS."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

INFRA = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(INFRA / "deploy"))

import deploy  # noqa: E402
from deploy import Refused, describe  # noqa: E402
from report import Figures, Row, Step, dollars, masked, of_times, table  # noqa: E402

REHEARSAL = "AWS_ENDPOINT_URL" in os.environ
# Recipients a second.
FASTEST = 10.0
# Dollars that a run may cost, and that an hour takes beside SES's: functions 4 cents, SQS 4, metrics 5, all else 1.
MOST_DOLLARS, DOLLARS_OF_AN_HOUR = 1.0, 0.15
# Every so many mails one goes to an address that SES's mailbox simulator answers in another way. Labels make them differ.
# https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html#send-email-simulator
EVERY, OTHERS = 50, ("bounce", "complaint", "suppressionlist", "ooto")
CAMPAIGNS = {"main": 0.9, "minor": 0.1}
WHY = ("--reason", "make verify-aws")
# The simulator's complaints would hold a campaign; at `debug` each mail has a line in the log.
PARAMETERS = {"Feedback": "count", "LogLevel": "info,tidegate=debug", "LogRetentionDays": "1"}
# A command acts within two seconds, and this machine's clock may be a second off.
IN_FORCE = 3.0
# CloudWatch has a line by then; not tried on AWS.
LOG_SECONDS = 1.0 if REHEARSAL else 20.0
# Mails may take so much longer than at the cap.
PATIENCE = 300.0
# CloudFormation deletes the stack by then.
STACK_SECONDS = 900.0


def check(session: boto3.Session, sender: str) -> dict[str, Any]:
    """Refuses an account that cannot send from this address, or has a stack of ours; gives SES's answer about it."""
    if not session.region_name or not re.fullmatch(r"[^@\s,]+@[\w-]+(\.[\w-]+)+", sender):
        raise Refused(f"REGION is {session.region_name} and FROM {sender!r}: give both, such as REGION=eu-west-1 FROM=news@example.org")
    ses, verified = session.client("sesv2"), False
    above = (sender[mark.end():] for mark in re.finditer("[@.]", sender))  # fmt: skip
    for identity in [sender, *(name for name in above if "@" not in name and "." in name)]:
        with suppress(ses.exceptions.NotFoundException):
            verified |= ses.get_email_identity(EmailIdentity=identity)["VerifiedForSendingStatus"]
    told = dict(ses.get_account())
    if not verified or not told["SendingEnabled"]:
        why = "the account's sending is paused" if verified else "neither the address nor its domain is verified"
        raise Refused(f"SES sends nothing from {sender} in {session.region_name}: {why}")
    for page in session.client("cloudformation").get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            if stack.get("Description", "").startswith("Tidegate sends ") and stack["StackStatus"] != "DELETE_COMPLETE":
                raise Refused(f"{stack['StackName']} is in this region, and would send SES's quota, too: choose another region")
    return told


def recipient(number: int) -> str:
    kind = OTHERS[number // EVERY % len(OTHERS)] if number % EVERY == EVERY - 1 else "success"
    return f"{kind}+{number}@simulator.amazonses.com"


class Hour:
    """A stack for an hour: what is done to it while mail flows, and its removal."""

    def __init__(self, session: boto3.Session, options: Any, stack: str, cap: float) -> None:
        self.session, self.options, self.stack, self.cap = session, options, stack, cap
        self.folder, self.to, self.steps = INFRA.parent / ".local" / stack, list[str](), list[Step]()

    def tidegate(self, *arguments: str, codes: Any = (0,)) -> subprocess.CompletedProcess[str]:
        command = [self.options.tidegate, *arguments, "--stack", self.stack, "--region", self.session.region_name]
        ran = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if ran.returncode not in codes:
            raise Refused(f"tidegate {' '.join(arguments)} ended with {ran.returncode}: {ran.stderr or ran.stdout}")
        return ran

    def counters(self) -> dict[str, int]:
        return dict(json.loads(self.tidegate("status", "--json").stdout)["counters"])

    def deploy(self, senders: str) -> None:
        settings = self.folder / "settings.yaml"
        settings.write_text(json.dumps(PARAMETERS | {"AllowedSenders": senders, "QuotaPerSecond": f"{self.cap:g}"}))
        given = {"stack": self.stack, "region": self.session.region_name, "settings": settings, "bucket": f"{self.stack}-code"}
        given |= {name: getattr(self.options, name) for name in ("architecture", "binaries", "tidegate")}
        deploy.deploy(deploy.parse(["deploy", "--no-confirm", "--no-protect", *(f"--{name}={value}" for name, value in given.items())]))

    def send(self, campaign: str, count: int) -> None:
        first, run = len(self.to), f"after-{len(self.to)}"
        rows, text = self.folder / "rows.csv", self.folder / "mail.txt"
        self.to += [recipient(number) for number in range(first, first + count)]
        rows.write_text("\n".join(["to", *self.to[first:]]))
        text.write_text("A mail of make verify-aws.\n")
        self.tidegate("send", str(rows), "--campaign", campaign, "--run", run, "--text", str(text), "--subject", "Tidegate",
                      "--from", self.options.sender, "--yes")  # fmt: skip

    def wait_until_sent(self, mails: int) -> None:
        deadline = time.monotonic() + mails / self.cap + PATIENCE
        while (sent := self.counters().get("mails", 0)) < mails:
            if time.monotonic() > deadline:
                raise Refused(f"only {sent} of {mails} mails were sent in time")
            time.sleep(1)

    def step(self, name: str, allowed: float, after: float, do: Any) -> None:
        """`after` is when it is in force; 0 where mail must flow from the first moment on."""
        print(f"verify: {name}", flush=True)
        began = time.time()
        do()
        began = time.time() + after if after else began
        time.sleep(after + self.options.seconds / 16)
        self.steps.append(Step(name, began, time.time(), allowed))

    def pass_through(self) -> float:
        """Sends, steers and wakes; the seconds from a command to its mail after a pause."""
        mails, half, invoke = self.cap * self.options.seconds, f"{self.cap / 2:g}", self.session.client("lambda").invoke
        for campaign, share in CAMPAIGNS.items():
            self.send(campaign, round(mails * share))
        self.wait_until_sent(round(mails / 20))
        self.step("rate capped at half", self.cap / 2, IN_FORCE, lambda: self.tidegate("rate", "--cap", half, *WHY))
        self.tidegate("rate", "--uncap", *WHY)
        self.step("all sending paused", 0, IN_FORCE, lambda: self.tidegate("pause", *WHY))
        self.tidegate("resume", *WHY)
        self.step("poller's environments replaced", self.cap, 0, self.replace_environments)
        self.step("scheduler invoked twice beside EventBridge", self.cap, 0, lambda: [
            invoke(FunctionName=f"{self.stack}-scheduler", InvocationType="Event", Payload=b"{}") for _ in range(2)])  # fmt: skip
        self.step("AllowedSenders changed by a stack update", self.cap, 0, lambda: self.deploy(self.options.sender))
        self.wait_until_sent(len(self.to))
        time.sleep(self.options.seconds * 0.6)
        began = time.monotonic()
        self.send("minor", 1)
        self.wait_until_sent(len(self.to))
        return time.monotonic() - began

    def replace_environments(self) -> None:
        """Lambda starts new ones after a change of a function's configuration."""
        functions, name = self.session.client("lambda"), f"{self.stack}-poller"
        known = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": known | {"VERIFY": "new"}})

    def logged(self, function: str, since: float) -> list[str]:
        pages = self.session.client("logs").get_paginator("filter_log_events")
        found = pages.paginate(logGroupName=f"/aws/lambda/{self.stack}-{function}", startTime=int(since * 1000))
        return [event["message"].strip() for page in found for event in page["events"]]

    def audit(self, since: float) -> Row:
        """The text of `tidegate audit`, and whether all promises held."""
        ran = self.tidegate("audit", "--since", f"{int(time.time() - since) + 60}s", codes=range(256))
        return Row("audit", ran.stdout or ran.stderr, ran.returncode == 0)

    def left(self) -> list[str]:
        buckets = [bucket.name for bucket in self.session.resource("s3").buckets.all() if bucket.name.startswith(f"{self.stack}-")]
        groups = self.session.client("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{self.stack}-")["logGroups"]
        stacks = [self.stack] * bool(describe(self.session.client("cloudformation"), self.stack))
        return stacks + buckets + [group["logGroupName"] for group in groups]

    def delete(self, name: str) -> None:
        if name == self.stack:
            self.session.client("cloudformation").delete_stack(StackName=name)
        elif name.startswith("/"):
            self.session.client("logs").delete_log_group(logGroupName=name)
        else:
            self.session.resource("s3").Bucket(name).objects.delete()
            self.session.resource("s3").Bucket(name).delete()

    def remove(self) -> list[str]:
        """The stack first. CloudFormation refuses it while it changes the stack, and a call that was under way when we were interrupted
        may make something yet. Where it is interrupted or fails, it says what is left to be done by hand."""
        deadline, left = time.monotonic() + STACK_SECONDS, [self.stack]
        try:
            while left and time.monotonic() < deadline:
                time.sleep(2)
                left = self.left()
                for name in [self.stack] if self.stack in left else left:
                    with suppress(ClientError):
                        self.delete(name)
        finally:
            print("verify: " + (f"{', '.join(left)} may be left; by hand:\n{self.by_hand()}" if left else "nothing is left"), flush=True)
        return left

    def by_hand(self) -> str:
        return (f"  make delete STACK={self.stack} REGION={self.session.region_name} CONFIRM=no PROTECT=no\n"
                f"  aws s3 ls | awk '/ {self.stack}-/ {{print $3}}' | xargs -I NAME aws s3 rb --force s3://NAME")  # fmt: skip


def of_aws(name: str, seen: str, holds: bool | None = None) -> Row:
    """A line that only AWS can fill."""
    return Row(name, "not shown by the rehearsal", None) if REHEARSAL else Row(name, seen, holds)


def judge(hour: Hour, began: float, first_mail: float) -> dict[str, list[Row]]:
    """The tables of the report, from the logs and the ledger's counters."""
    time.sleep(LOG_SECONDS)
    seen, told = Figures([*hour.logged("poller", began), *hour.logged("scheduler", began)]), hour.counters()
    mails, dead, refused = (told.get(name, 0) for name in ("mails", "dead", "refused"))
    bounced, complained = seen.feedback["bounced"] + seen.feedback["suppressed"], seen.feedback["complained of"]
    to_bounce, to_complain = (sum(to.startswith(kinds) for to in hour.to) for kinds in (("bounce", "suppressionlist"), "complaint"))
    heard = (bounced, complained) == (to_bounce, to_complain)
    return {
        "Figures": [
            Row("mails that SES accepted", f"{mails:,} of {len(hour.to):,}, {dead} dead letters", mails == len(hour.to) and not dead),
            of_aws("refused for the rate", str(refused), refused == 0),
            Row("seconds that nobody served", str(told.get("windows_missed", 0)), None),
            Row("worst second, by the log's times", f"{seen.worst_second()} mails, at a cap of {hour.cap:g}/s", None),
            Row("from a command to its mail, after a pause", f"{first_mail:.1f} s", None),
            of_aws("bounces and complaints that SES told of", f"{bounced} of {to_bounce}, {complained} of {to_complain}", heard),
            of_aws("SES's answer", of_times(seen.latencies)),
            of_aws("Init Duration", of_times(seen.init)),
            of_aws("billed", f"{seen.gb_seconds:.0f} GB-seconds in {seen.invocations:,} invocations"),
        ],
        "While mail flowed": [seen.of(step) for step in hour.steps],
        "Bill": [of_aws(name, f"${cost:.4f}") for name, cost in seen.bill(told, time.time() - began).items()],
    }  # fmt: skip


def run(options: argparse.Namespace) -> list[str]:
    session, began, today = boto3.Session(region_name=options.region or None), time.time(), time.strftime("%Y-%m-%d", time.gmtime())
    told, region = check(session, options.sender), session.region_name
    hour = Hour(session, options, f"tidegate-verify-{int(began):x}", min(FASTEST, told["SendQuota"]["MaxSendRate"]))
    mails = int(hour.cap * options.seconds) + 1
    if (most := dollars(ses_mail=mails) + DOLLARS_OF_AN_HOUR) >= MOST_DOLLARS:
        raise Refused(f"{mails:,} mails may cost ${most:.2f}; the limit is ${MOST_DOLLARS:.2f}: give fewer --seconds")
    print(f"verify: {hour.stack} in {region}: at most {mails:,} mails, ${most:.2f}. Should this be killed:\n{hour.by_hand()}", flush=True)
    hour.folder.mkdir(parents=True)
    try:
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        session.client("s3").create_bucket(Bucket=f"{hour.stack}-code", **place)
        hour.deploy("*")
        tables = judge(hour, began, hour.pass_through())
        doctor, version = (hour.tidegate(word, codes=range(256)).stdout.strip() for word in ("doctor", "--version"))
        audit = hour.audit(began)
    finally:
        left = hour.remove()
    said = {name: f"```text\n{text.strip()}\n```" for name, text in (("Audit", audit.seen), ("Doctor", doctor))}
    parts = {name: table(rows) for name, rows in tables.items()} | said | {"Left": ", ".join(left) or "Nothing."}
    allowed = f"{told['SendQuota']['MaxSendRate']:g}/s{'' if told['ProductionAccessEnabled'] else ' (sandbox)'}"
    begins = (f"# {'Rehearsal on a local AWS' if REHEARSAL else 'Verified on AWS'}: {region}, {today}\n\n{version}. SES allows {allowed}; "
              f"the stack's cap was {hour.cap:g}/s. It sent {len(hour.to):,} mails to SES's mailbox simulator.")  # fmt: skip
    text = "\n\n".join([begins, *(f"## {name}\n\n{part}" for name, part in parts.items())])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{today}-{region}.md").write_text(masked(text) + "\n", encoding="utf-8")
    print(f"verify: the report is {options.out}/{today}-{region}.md")
    return [row.name for rows in [*tables.values(), [audit]] for row in rows if row.holds is False] + left


def main() -> int | str:
    parser = argparse.ArgumentParser("verify", description=__doc__)
    defaults = dict.fromkeys(("region", "sender", "architecture", "binaries", "tidegate"), "") | {"seconds": 400.0}
    for name, default in (defaults | {"out": INFRA.parent / (".local" if REHEARSAL else "docs") / "verified"}).items():
        parser.add_argument(f"--{name}", default=default, type=type(default), help="[%(default)s]")
    try:
        return f"verify: not as promised: {', '.join(broken)}" if (broken := run(parser.parse_args())) else 0
    except KeyboardInterrupt:
        return 130
    except (Refused, BotoCoreError, ClientError) as error:
        return f"verify: {error}"


if __name__ == "__main__":
    sys.exit(main())
