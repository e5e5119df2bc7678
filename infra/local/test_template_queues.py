"""What the template promises of the queues, the table and the feedback that comes into one of them."""

from __future__ import annotations

import json
import unittest
from typing import Any

from sam_template import ACCOUNT, INFRA, NAME, REGION, Rendered, source, stack
from test_support import arn

LIMIT_QUEUES = [f"limit-{number}" for number in range(1, 7)]
MAIL_QUEUES = {"campaign-first", "campaign-second", "express", "merge.fifo", "dead-letter"}
MAIL_QUEUES |= set(LIMIT_QUEUES)
OWN_QUEUES = {"feedback", "failed-invocations"}
# The rules that write to the feedback queue, and the kind of notice of each.
RULES = {
    "BounceRule": "bounce",
    "ComplaintRule": "complaint",
    "SuppressedBounceRule": "suppressed",
    "SuppressedComplaintRule": "suppressed",
    "DelayRule": "deferral",
    "SoftBounceRule": "deferral",
    "RenderingFailureRule": "dropped",
    "RejectRule": "dropped",
}
UNCOUNTED = [
    "OnAccountSuppressionList",
    "OnTenantSuppressionList",
    "UnsubscribedRecipient",
    "EmailValidationSuppressed",
]
RECIPIENT = {"emailAddress": "ada@example.com"}
FAILED = RECIPIENT | {"action": "failed", "status": "4.4.7", "diagnosticCode": "smtp; 421"}


def event(kind: str, limited: bool = False, **detail: Any) -> dict[str, Any]:
    """As SES tells EventBridge of a mail of ours."""
    tags = {"ses:configuration-set": [NAME], "tidegate_campaign": ["spring"]}
    if limited:
        tags["tidegate_limit"] = ["example_com"]
    mail = {
        "messageId": "0102-1",
        "destination": ["ada@example.com", "bob@example.com"],
        "tags": tags,
        "timestamp": "2026-11-20T20:36:07.042Z",
        "commonHeaders": {"subject": "Secret"},
    }
    return {"source": "aws.ses", "detail-type": kind, "detail": detail | {"mail": mail}}


def bounce(kind: str, sub_type: str, *to: dict[str, str], limited: bool = False) -> dict[str, Any]:
    said = {"bounceType": kind, "bounceSubType": sub_type, "bouncedRecipients": list(to)}
    return event("Email Bounced", limited, bounce=said)


def complaint(**said: Any) -> dict[str, Any]:
    said = {"complainedRecipients": [RECIPIENT]} | said
    return event("Email Complaint Received", complaint=said)


def matches(pattern: Any, value: Any) -> bool:
    """EventBridge's rules for the tests that are used here. An object in a list stands for its list."""
    if isinstance(pattern, dict):
        those = value if isinstance(value, list) else [value]
        return any(
            isinstance(one, dict)
            and all(
                matches(wanted, one[name]) if name in one else {"exists": False} in wanted
                for name, wanted in pattern.items()
            )
            for one in those
        )
    values = value if isinstance(value, list) else [value]
    return any(passes(test, one) for test in pattern for one in values)


def passes(test: Any, value: Any) -> bool:
    if not isinstance(test, dict):
        return bool(test == value)
    ((name, of),) = test.items()
    if name == "exists":
        return bool(of)
    assert name == "anything-but", name
    # A null is something else than any text.
    return value not in of


def made_of(rule: str, told: dict[str, Any]) -> dict[str, Any]:
    """The notice that a rule makes of an event."""
    (target,) = stack().resources[rule]["Targets"]
    message = target["InputTransformer"]["InputTemplate"]
    for name, path in target["InputTransformer"]["InputPathsMap"].items():
        value: Any = told
        for part in path.removeprefix("$.").split("."):
            value = value[part]
        message = message.replace(f"<{name}>", json.dumps(value))
    return dict(json.loads(message))


def taken(told: dict[str, Any]) -> list[str]:
    """The kinds of the notices that the rules make of an event."""
    made = stack().resources
    return [kind for rule, kind in RULES.items() if matches(made[rule]["EventPattern"], told)]


def queues(of: Rendered) -> dict[str, dict[str, Any]]:
    """By what follows the stack's name in theirs."""
    return {
        name.removeprefix(f"{NAME}-"): queue
        for name, queue in of.of_type("AWS::SQS::Queue").items()
    }


def statements(of: Rendered) -> dict[str, list[dict[str, Any]]]:
    """What the queues' policies say, by queue."""
    said: dict[str, list[dict[str, Any]]] = {}
    for policy in of.of_type("AWS::SQS::QueuePolicy").values():
        for url in policy["Queues"]:
            name = url.rsplit("/", 1)[1].removeprefix(f"{NAME}-")
            said.setdefault(name, []).extend(policy["PolicyDocument"]["Statement"])
    return said


class Queues(unittest.TestCase):
    def setUp(self) -> None:
        self.stack = stack()
        self.queues = queues(self.stack)

    def test_there_are_these_and_no_others(self) -> None:
        self.assertEqual(set(self.queues), MAIL_QUEUES | OWN_QUEUES)

    def test_mail_that_waits_never_drifts_into_a_dead_letter_queue(self) -> None:
        for name, queue in self.queues.items():
            self.assertNotIn("RedrivePolicy", queue, name)

    def test_every_queue_keeps_messages_encrypted_for_fourteen_days(self) -> None:
        for name, queue in self.queues.items():
            self.assertEqual(queue["MessageRetentionPeriod"], 14 * 24 * 3600, name)
            self.assertIs(queue["SqsManagedSseEnabled"], True, name)

    def test_every_queue_refuses_what_does_not_come_by_tls(self) -> None:
        said = statements(self.stack)
        self.assertEqual(set(said), set(self.queues))
        for name, of_queue in said.items():
            refusals = [s for s in of_queue if s["Effect"] == "Deny"]
            self.assertEqual(len(refusals), 1, name)
            self.assertEqual(refusals[0]["Principal"], "*", name)
            self.assertEqual(refusals[0]["Action"], "sqs:*", name)
            self.assertEqual(
                refusals[0]["Condition"], {"Bool": {"aws:SecureTransport": "false"}}, name
            )

    def test_nobody_is_let_in_by_a_policy_but_the_rules(self) -> None:
        allowed = {
            name: [s for s in of_queue if s["Effect"] != "Deny"]
            for name, of_queue in statements(self.stack).items()
        }
        (feedback,) = allowed.pop("feedback")
        self.assertEqual([s for of_queue in allowed.values() for s in of_queue], [])
        self.assertEqual(feedback["Principal"], {"Service": "events.amazonaws.com"})
        self.assertEqual(feedback["Action"], "sqs:SendMessage")
        self.assertEqual(
            feedback["Condition"],
            {"ArnEquals": {"aws:SourceArn": [f"arn:aws:{rule}" for rule in RULES]}},
        )

    def test_mail_does_not_come_back_while_its_poller_may_send_it(self) -> None:
        poller = self.stack.resources["PollerFunction"]
        for name, queue in self.queues.items():
            self.assertEqual(queue["VisibilityTimeout"], 30, name)
            self.assertLess(poller["Timeout"], queue["VisibilityTimeout"], name)

    def test_the_queues_of_producers_leave_room_for_our_attributes(self) -> None:
        for name in ("campaign-first", "campaign-second", "express"):
            self.assertEqual(self.queues[name]["MaximumMessageSize"], 1032192, name)

    def test_a_mail_with_our_attributes_fits_where_we_move_it(self) -> None:
        # SQS's own limit, 1,048,576 bytes, holds where none is given.
        for name in ("merge.fifo", "dead-letter", *LIMIT_QUEUES):
            self.assertNotIn("MaximumMessageSize", self.queues[name], name)

    def test_a_limits_queue_is_no_campaign(self) -> None:
        for name in LIMIT_QUEUES:
            self.assertNotIn("FifoQueue", self.queues[name], name)
            self.assertNotIn("Tags", self.queues[name], name)

    def test_the_functions_and_the_output_name_the_domains_queues_in_their_order(self) -> None:
        place = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{NAME}"
        urls = ",".join(f"{place}-{name}" for name in LIMIT_QUEUES)
        # Also without a limit: mail that a former limit put there must still be sent.
        for given in ({}, {"Limits": "gmail.com=10/s"}):
            made = stack(**given)
            for function in ("SchedulerFunction", "PollerFunction"):
                variables = made.resources[function]["Environment"]["Variables"]
                self.assertEqual(variables["TIDEGATE_LIMIT_QUEUES"], urls)
            told = made.evaluate(source()["Outputs"]["LimitQueueUrls"]["Value"])
            self.assertEqual(told, urls)

    def test_the_merge_queue_has_high_throughput(self) -> None:
        queue = self.queues["merge.fifo"]
        self.assertIs(queue["FifoQueue"], True)
        self.assertEqual(queue["DeduplicationScope"], "messageGroup")
        self.assertEqual(queue["FifoThroughputLimit"], "perMessageGroupId")

    def test_no_parameter_deletes_a_queue_that_may_hold_mail(self) -> None:
        least = stack(Mode="direct", SecondCampaignName="", ExpressQueue="false", Feedback="off")
        self.assertEqual(set(queues(least)), MAIL_QUEUES | {"failed-invocations"})
        made = source()["Resources"]
        for number in range(1, 7):
            self.assertNotIn("Condition", made[f"LimitQueue{number}"])

    def test_what_holds_mail_goes_with_the_stack_alone(self) -> None:
        kinds = {"AWS::SQS::Queue", "AWS::DynamoDB::Table"}
        for logical, resource in source()["Resources"].items():
            if resource["Type"] in kinds and logical not in ("FeedbackQueue", "FailedInvocationsQueue"):
                self.assertEqual(resource["DeletionPolicy"], "Delete", logical)
                self.assertEqual(resource["UpdateReplacePolicy"], "Retain", logical)

    def test_a_queue_is_found_as_the_campaign_that_its_tags_name(self) -> None:
        both = queues(stack(FirstCampaignName="news", FirstCampaignWeight="70"))
        tagged = {tag["Key"]: tag["Value"] for tag in both["campaign-first"]["Tags"]}
        self.assertEqual(tagged, {"tidegate:weight": "70", "tidegate:campaign": "news"})
        tagged = {tag["Key"]: tag["Value"] for tag in both["campaign-second"]["Tags"]}
        self.assertEqual(tagged, {"tidegate:weight": "10", "tidegate:campaign": "minor"})
        self.assertNotIn("Tags", queues(stack(SecondCampaignName=""))["campaign-second"])


class StoreBucket(unittest.TestCase):
    def setUp(self) -> None:
        self.bucket = stack().resources["StoreBucket"]

    def test_no_parameter_and_no_deletion_of_the_stack_deletes_what_was_put_aside(self) -> None:
        for logical in ("StoreBucket", "StoreBucketPolicy"):
            resource = source()["Resources"][logical]
            self.assertNotIn("Condition", resource, logical)
            # But for a first deploy that fails: there is no mail in it yet.
            self.assertEqual(resource["DeletionPolicy"], "RetainExceptOnCreate", logical)
            self.assertEqual(resource["UpdateReplacePolicy"], "Retain", logical)

    def test_a_stack_can_be_made_again_beside_the_bucket_of_the_one_before(self) -> None:
        self.assertNotIn("BucketName", self.bucket)

    def test_it_is_encrypted_and_nobody_elses(self) -> None:
        (rule,) = self.bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        self.assertEqual(rule["ServerSideEncryptionByDefault"], {"SSEAlgorithm": "AES256"})
        closed = self.bucket["PublicAccessBlockConfiguration"]
        names = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
        self.assertEqual(closed, dict.fromkeys(names, True))
        (owned,) = self.bucket["OwnershipControls"]["Rules"]
        self.assertEqual(owned, {"ObjectOwnership": "BucketOwnerEnforced"})

    def test_mail_never_expires_and_what_was_brought_back_is_gone(self) -> None:
        # A version of a deleted object would keep its mails' bodies.
        self.assertNotIn("VersioningConfiguration", self.bucket)
        rules = self.bucket["LifecycleConfiguration"]["Rules"]
        expiring = [rule for rule in rules if any("Expiration" in key for key in rule)]
        folders = [f"store/{folder}/" for folder in ("progress", "large", "rows", "runs")]
        self.assertEqual([rule["Prefix"] for rule in expiring], folders)
        # No mail waits for longer than 365 days in the store and 14 on a queue.
        self.assertTrue(all(rule["ExpirationInDays"] > 379 for rule in expiring))

    def test_it_refuses_what_does_not_come_by_tls(self) -> None:
        policy = stack().resources["StoreBucketPolicy"]
        (statement,) = policy["PolicyDocument"]["Statement"]
        self.assertEqual(statement["Effect"], "Deny")
        self.assertEqual((statement["Principal"], statement["Action"]), ("*", "s3:*"))
        bucket = "arn:aws:AWS::S3::Bucket"
        self.assertEqual(statement["Resource"], [bucket, f"{bucket}/*"])
        self.assertEqual(statement["Condition"], {"Bool": {"aws:SecureTransport": "false"}})

    def test_both_functions_are_told_of_it_and_the_poller_whether_mail_is_deferred(self) -> None:
        for deferral in ("off", "on"):
            made = stack(Deferral=deferral)
            for function in ("SchedulerFunction", "PollerFunction"):
                variables = made.resources[function]["Environment"]["Variables"]
                self.assertEqual(variables["TIDEGATE_STORE"], "s3://AWS::S3::Bucket/store")
            self.assertEqual(variables["TIDEGATE_DEFERRAL"], deferral)
        told = stack().evaluate(source()["Outputs"]["StoreBucket"]["Value"])
        self.assertEqual(told, "AWS::S3::Bucket")


class Ledger(unittest.TestCase):
    def test_the_table_costs_what_is_used_and_forgets_what_expired(self) -> None:
        table = stack().resources["LedgerTable"]
        self.assertEqual(table["BillingMode"], "PAY_PER_REQUEST")
        self.assertEqual(
            table["TimeToLiveSpecification"], {"AttributeName": "expires_at", "Enabled": True}
        )

    def test_point_in_time_recovery_is_an_option(self) -> None:
        for given, expected in (("true", True), ("false", False)):
            table = stack(PointInTimeRecovery=given).resources["LedgerTable"]
            said = table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
            self.assertIs(said, expected)


class Feedback(unittest.TestCase):
    def test_the_configuration_set_tells_what_becomes_of_mail_to_the_default_bus(self) -> None:
        made = stack().resources
        self.assertEqual(made["ConfigurationSet"]["Name"], NAME)
        self.assertIs(made["ConfigurationSet"]["SendingOptions"]["SendingEnabled"], True)
        destination = made["FeedbackDestination"]["EventDestination"]
        self.assertEqual(
            destination["MatchingEventTypes"],
            ["bounce", "complaint", "deliveryDelay", "renderingFailure", "reject"],
        )
        bus = destination["EventBridgeDestination"]["EventBusArn"]
        self.assertEqual(bus, arn("events", "event-bus/default"))

    def test_hard_bounces_count_and_those_that_ses_does_not_count_are_told_apart(self) -> None:
        for sub_type in ("General", "NoEmail", "Suppressed"):
            self.assertEqual(taken(bounce("Permanent", sub_type, RECIPIENT)), ["bounce"], sub_type)
        bare = event("Email Bounced", bounce={"bounceType": "Permanent"})
        self.assertEqual(taken(bare), ["bounce"])
        for sub_type in UNCOUNTED:
            told = bounce("Permanent", sub_type, RECIPIENT)
            self.assertEqual(taken(told), ["suppressed"], sub_type)
        self.assertEqual(taken(bounce("Transient", "MailboxFull", FAILED)), [])

    def test_real_complaints_count_whether_their_sub_type_is_null_or_missing(self) -> None:
        for said in (
            {},
            {"complaintSubType": None},
            {"complaintSubType": None, "complaintFeedbackType": "abuse"},
        ):
            self.assertEqual(taken(complaint(**said)), ["complaint"], said)
        self.assertEqual(taken(complaint(complaintFeedbackType="not-spam")), [])
        for sub_type in UNCOUNTED:
            self.assertEqual(taken(complaint(complaintSubType=sub_type)), ["suppressed"], sub_type)

    def test_a_deferral_is_taken_where_it_concerns_the_providers_pace_and_a_limit_hears_of_it(
        self,
    ) -> None:
        def delay(kind: str, limited: bool = True) -> dict[str, Any]:
            said = {"delayType": kind, "delayedRecipients": [RECIPIENT]}
            return event("Email Delivery Delayed", limited, deliveryDelay=said)

        for kind in ("General", "IPFailure", "SpamDetected", "SendingDeferral"):
            self.assertEqual(taken(delay(kind)), ["deferral"], kind)
        # Without a limit that hears of deferrals no mail has the tag, and none costs anything.
        self.assertEqual(taken(delay("General", limited=False)), [])
        for kind in ("MailboxFull", "InternalFailure", "Undetermined"):
            self.assertEqual(taken(delay(kind)), [], kind)
        self.assertEqual(taken(bounce("Transient", "General", FAILED, limited=True)), ["deferral"])
        self.assertEqual(taken(bounce("Transient", "General", FAILED)), [])

    def test_an_out_of_office_reply_is_no_deferral(self) -> None:
        self.assertEqual(taken(bounce("Transient", "General", RECIPIENT, limited=True)), [])

    def test_mail_that_ses_dropped_is_taken_with_its_reason(self) -> None:
        failure = {"templateName": "welcome", "errorMessage": "no 'name'"}
        self.assertEqual(taken(event("Email Rendering Failed", failure=failure)), ["dropped"])
        self.assertEqual(
            taken(event("Email Rejected", reject={"reason": "Bad content"})), ["dropped"]
        )

    def test_mail_of_another_configuration_set_is_not_heard_of(self) -> None:
        for told in (bounce("Permanent", "General", RECIPIENT), complaint()):
            told["detail"]["mail"]["tags"]["ses:configuration-set"] = ["other"]
            self.assertEqual(taken(told), [])

    def test_a_notice_tells_the_recipients_that_are_concerned_and_no_header(self) -> None:
        failure = {"templateName": "welcome", "errorMessage": "no 'name'"}
        of_both = ["ada@example.com", "bob@example.com"]
        for told, recipients, reason in (
            (bounce("Permanent", "General", FAILED), [FAILED], None),
            (complaint(), [RECIPIENT], None),
            (bounce("Permanent", UNCOUNTED[0], RECIPIENT), [RECIPIENT], None),
            (complaint(complaintSubType=UNCOUNTED[0]), [RECIPIENT], None),
            (bounce("Transient", "General", FAILED, limited=True), [FAILED], None),
            (event("Email Rendering Failed", failure=failure), of_both, "no 'name'"),
            (event("Email Rejected", reject={"reason": "Bad content"}), of_both, "Bad content"),
        ):
            (rule,) = [
                rule for rule in RULES if matches(stack().resources[rule]["EventPattern"], told)
            ]
            notice = made_of(rule, told)
            self.assertEqual((notice["kind"], notice["recipients"]), (RULES[rule], recipients))
            self.assertEqual(notice.get("reason"), reason)
            self.assertNotIn("Secret", json.dumps(notice))

    def test_a_notice_has_the_members_that_the_scheduler_reads(self) -> None:
        for logical, kind in RULES.items():
            (target,) = stack().resources[logical]["Targets"]
            self.assertEqual(target["Arn"], arn("sqs", f"{NAME}-feedback"))
            expected = json.loads((INFRA.parent / "events" / f"{kind}.json").read_text("utf-8"))
            # EventBridge puts a value as JSON into its place: a tag is a list.
            message = target["InputTransformer"]["InputTemplate"]
            for name in target["InputTransformer"]["InputPathsMap"]:
                message = message.replace(f"<{name}>", json.dumps(expected[name]))
            self.assertEqual(json.loads(message), expected, logical)

    def test_receipts_that_say_something_of_the_list_come_as_they_are_from_our_configuration_set_alone(
        self,
    ) -> None:
        made = stack(Channel="sms")
        topic = arn("sns", f"{NAME}-receipts")
        (destination,) = made.resources["TextConfigurationSet"]["EventDestinations"]
        self.assertEqual(destination["SnsDestination"], {"TopicArn": topic})
        self.assertEqual(len(destination["MatchingEventTypes"]), 6)
        (subscription,) = made.of_type("AWS::SNS::Subscription").values()
        self.assertIs(subscription["RawMessageDelivery"], True)
        self.assertEqual(subscription["Endpoint"], arn("sqs", f"{NAME}-feedback"))
        _, published = made.resources["ReceiptTopicPolicy"]["PolicyDocument"]["Statement"]
        self.assertEqual(published["Principal"], {"Service": "sms-voice.amazonaws.com"})
        ours = arn("sms-voice", f"configuration-set/{NAME}")
        self.assertEqual(
            published["Condition"],
            {"StringEquals": {"aws:SourceAccount": ACCOUNT}, "ArnEquals": {"aws:SourceArn": ours}},
        )
        (written,) = [s for s in statements(made)["feedback"] if s["Effect"] == "Allow"]
        self.assertEqual(written["Principal"], {"Service": "sns.amazonaws.com"})
        self.assertEqual(written["Condition"], {"ArnEquals": {"aws:SourceArn": topic}})

    def test_off_makes_none_of_it(self) -> None:
        texts = stack(Channel="sms", Feedback="off")
        self.assertEqual(texts.of_type("AWS::SMSVOICE::ConfigurationSet"), {})
        self.assertEqual(set(texts.of_type("AWS::SNS::Topic")), {f"{NAME}-alarms"})
        made = stack(Feedback="off")
        self.assertEqual(made.of_type("AWS::SES::ConfigurationSet"), {})
        self.assertEqual(made.of_type("AWS::SES::ConfigurationSetEventDestination"), {})
        self.assertEqual(len(made.of_type("AWS::Events::Rule")), 1)


if __name__ == "__main__":
    unittest.main()
