"""A worker that sends campaigns straight at SES, at the rate that its way allows it."""

from __future__ import annotations

import itertools
import socket
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from processes import Client

LATENCY = 0.08
# Tokens come at a rate, and so many at most are kept. Answers the milliseconds until there is one.
TOKEN_BUCKET = b"""
local time, rate, most = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time[1] + time[2] / 1e6
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(most, (tonumber(kept[1]) or most) + (now - (tonumber(kept[2]) or now)) * rate)
local wait = tokens < 1 and math.ceil(1000 * (1 - tokens) / rate) or 0
if wait == 0 then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
return wait"""


@dataclass(frozen=True)
class Way:
    name: str
    # `sleep` so long after each answer, start `paced` so far apart, `pause` a second after so many, a `bucket` that keeps so many
    # tokens, or nothing at all.
    gate: str
    value: float = 0.0
    # Of each worker.
    threads: int = 1
    # Each worker has a campaign of its own, and both share a queue otherwise.
    own: bool = False
    latency: float = LATENCY


@dataclass(frozen=True)
class Task:
    way: Way
    quota: int
    ses: int
    redis: int
    begin: float
    end: float
    mails: list[str]


@dataclass(frozen=True)
class Call:
    at: float
    campaign: str
    accepted: bool


def permits(task: Task, slots: Iterator[int]) -> Iterator[None]:
    """Comes back when its thread may send; the slots are those of all threads of the worker."""
    gate, value = task.way.gate, task.way.value
    if gate == "bucket":
        command = [b"EVAL", TOKEN_BUCKET, b"1", b"bucket", b"%d" % task.quota, b"%d" % value]
        asked = b"*6\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
        with socket.create_connection(("127.0.0.1", task.redis)) as connection, connection.makefile("rb") as answers:
            while True:
                connection.sendall(asked)
                if wait := int(answers.readline().removeprefix(b":")):
                    time.sleep(wait / 1e3)
                else:
                    yield
    for number in itertools.count() if gate != "paced" else slots:
        if gate == "paced":
            time.sleep(max(0.0, task.begin + number * value - time.time()))
        yield
        if gate == "sleep":
            time.sleep(value)
        elif gate == "pause" and (number + 1) % value == 0:
            time.sleep(1)


def worker(task: Task) -> list[Call]:
    waiting, calls, slots = deque(task.mails), list[Call](), itertools.count()

    def send() -> None:
        client = Client(task.ses)
        time.sleep(max(0.0, task.begin - time.time()))
        for _ in permits(task, slots):
            at = time.time()
            if at >= task.end or not waiting:
                return
            campaign = waiting.popleft()
            body = {"FromEmailAddress": "news@example.org", "Destination": {"ToAddresses": ["ada@example.com"]}, "Content": {
                "Simple": {"Subject": {"Data": "News"}, "Body": {"Text": {"Data": "This is a mail.\n"}}}}}
            try:
                client.call("POST", "/v2/email/outbound-emails", body, "ses")
            except ValueError as error:
                if ": 429 " not in str(error):
                    raise
                waiting.append(campaign)
                calls.append(Call(at, campaign, accepted=False))
            else:
                calls.append(Call(at, campaign, accepted=True))

    with ThreadPoolExecutor(task.way.threads) as pool:
        for sent in [pool.submit(send) for _ in range(task.way.threads)]:
            sent.result()
    return calls
