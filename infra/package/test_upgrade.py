"""The oldest release, upgraded by `sam deploy` to the present build in mid-campaign, and back again: nothing is lost, the
quota's bound holds, and both versions read the control record and the ledger."""

from __future__ import annotations

import json
import threading
import time
import unittest
import zipfile
from pathlib import Path

import sam
from deployed import Deployed
from functions import ROOT, read_functions, version
from installed import zips

from local_aws import host_architecture

FIXTURE = ROOT / "tests" / "fixtures" / "v0.1.0"
SECOND = [f"second{number}" for number in range(100)]
QUOTA = 14
# A machine that deploys meanwhile delivers some mails late: this margin has room for 250 ms. The bound is the same, and
# a window that both versions serve has up to 14 recipients too many.
MARGIN = {"RateMargin": "0.25"}
# More than 10 s worth of mail.
WAITING = 150
# A member of the control record that neither version knows.
UNKNOWN = {"moon": {"phase": "full"}}


@unittest.skipUnless(host_architecture() == "x86_64", "the release that is kept is for x86_64")
class Upgrade(Deployed):
    def present(self) -> Path:
        functions = read_functions(zips(self.folder / "functions"), complete=False)
        with zipfile.ZipFile(sam.package(version(), functions, None, self.folder)) as archive:
            archive.extractall(self.folder)
        return self.folder / f"tidegate-sam-{version()}"

    def code(self) -> str:
        """Which code the poller runs."""
        function = self.outputs()["PollerFunction"]
        return self.aws.client("lambda").get_function(FunctionName=function)["Configuration"]["CodeSha256"]

    def control(self) -> dict[str, object]:
        table = self.outputs()["LedgerTable"]
        item = self.aws.client("dynamodb").get_item(TableName=table, Key={"pk": {"S": "regulator"}})["Item"]
        return json.loads(item["control"]["S"])

    def add_unknown(self) -> None:
        """As other software may write the record: on the condition that nobody else did meanwhile."""
        table, dynamodb = self.outputs()["LedgerTable"], self.aws.client("dynamodb")
        for _ in range(20):
            item = dynamodb.get_item(TableName=table, Key={"pk": {"S": "regulator"}})["Item"]
            version_read = int(item["control_version"]["N"])
            try:
                dynamodb.update_item(
                    TableName=table, Key={"pk": {"S": "regulator"}},
                    UpdateExpression="SET control = :control, control_version = :next",
                    ConditionExpression="control_version = :read",
                    ExpressionAttributeValues={
                        ":control": {"S": json.dumps(json.loads(item["control"]["S"]) | UNKNOWN)},
                        ":next": {"N": str(version_read + 1)}, ":read": {"N": str(version_read)},
                    },
                )  # fmt: skip
                return
            except dynamodb.exceptions.ConditionalCheckFailedException:
                continue
        self.fail("the control record changed with every read")

    def assert_counted(self, expected: dict[str, int]) -> None:
        """The ledger's sums, to which both versions added. The last window's report comes after its mails."""
        deadline = time.monotonic() + 30
        while (sent := {c["name"]: c["sent"] for c in self.status()["campaigns"]}) != expected:
            self.assertLess(time.monotonic(), deadline, sent)
            time.sleep(1)

    def test_an_upgrade_in_mid_campaign_and_the_way_back_lose_nothing_and_keep_the_bound(self) -> None:
        present = self.present()
        own = f"template-{host_architecture()}.yaml"
        self.deploy(FIXTURE, "template.yaml", **MARGIN)
        before = self.code()
        with Producer(self) as first:
            self.put("SecondCampaignQueueUrl", SECOND)
            self.wake()
            self.wait_until_sent(60)
            # A hold that is written in the old version's time must hold in the new one's.
            self.tidegate("pause", "minor", "--reason", "the old version holds", "--by", "ada")

            self.deploy(present, own if (present / own).exists() else "template.yaml", **MARGIN)
            self.assertNotEqual(self.code(), before)
            self.add_unknown()
            upgraded = self.sent()
            self.wait_until_sent(len(upgraded) + 100)
            self.assertEqual(minor(self.sent()), minor(upgraded), "mail of a held campaign was sent")
            # Weights of the new version's time are those that the old one sends by.
            self.tidegate("weights", "main=3", "minor=1", "--reason", "the new version weighs", "--by", "ada")

            self.deploy(FIXTURE, "template.yaml", **MARGIN)
            self.assertEqual(self.code(), before)
            back = self.sent()
            self.wait_until_sent(len(back) + 60)
            self.assertEqual(minor(self.sent()), minor(upgraded), "mail of a held campaign was sent")
            self.assertEqual(self.control()["weights"], {"main": 3, "minor": 1})
            self.tidegate("resume", "minor", "--reason", "back again", "--by", "ada")
        self.wait_until_sent(len(first.names) + len(SECOND))

        self.assertEqual(sorted(self.sent()), sorted(first.names + SECOND))
        self.assertEqual(self.control()["moon"], UNKNOWN["moon"])
        stats = self.ses.get("stats")
        self.assertLessEqual(stats["worst_sliding_second_offered"], QUOTA)
        self.assertEqual(stats["refused"], {})
        self.assert_counted({"main": len(first.names), "minor": len(SECOND)})


def minor(sent: list[str]) -> int:
    return sum(name.startswith("second") for name in sent)


class Producer(threading.Thread):
    """Keeps mail waiting in the first campaign's queue, however long a deployment takes."""

    def __init__(self, stack: Deployed) -> None:
        super().__init__()
        self.stack = stack
        self.names: list[str] = []
        self.ended = threading.Event()
        # The outputs are asked for once: a stack that is being updated has none for a moment.
        self.queue = stack.outputs()["FirstCampaignQueueUrl"]

    def run(self) -> None:
        while not self.ended.wait(0.5):
            if len(self.names) - self.stack.ses.get("stats")["accepted"]["mails"] < WAITING:
                more = [f"first{len(self.names) + n}" for n in range(WAITING)]
                self.stack.put_on(self.queue, more)
                self.names += more

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()


if __name__ == "__main__":
    unittest.main()
