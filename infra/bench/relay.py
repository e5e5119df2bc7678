"""A relay on a processor of its own, beside SQS's own answer and a Postfix there."""

import json
import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from figures import Row, at_least, at_most, told
from processes import printed

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/programs"))
from postfix import Postfix  # noqa: E402

COMMAND = "cargo bench --locked --quiet -p tidegate-operator --bench relay -- measure".split()


def part(_: str, args: Namespace) -> list[Row]:
    """`crates/operator/benches/relay.rs` measures; Postfix is there where Debian's is installed below .tools."""
    with tempfile.TemporaryDirectory() as folder:
        postfix = Postfix(Path(folder), "[127.0.0.1]:1", relay_transport="discard", default_transport="discard",
                          smtpd_client_connection_count_limit="0")
        why, free = Postfix.missing(), os.sched_getaffinity(0)
        try:
            if not why:
                os.sched_setaffinity(0, {0})
                postfix.start()
                os.sched_setaffinity(0, free)
            beside = [] if why else [f"127.0.0.1:{postfix.port}"]
            found = json.loads(printed([*COMMAND, args.bin_dir, args.root, args.python, args.out / "relay", *beside], 900, cwd=args.root))
        finally:
            postfix.end()
    return [row for way in ("smtp", "http") for row in (
        at_least(f"4 KB by {way}", found[way]["rate"], "mails/s", 1_000),
        at_least(f"200 KB by {way}", found[f"{way}_large"]["rate"], "mails/s", 200),
        at_most(f"p99 over SQS's, 500/s by {way}", found[f"{way}_paced"]["p99_ms"] - found["sqs_paced"]["p99_ms"], "ms", 25))
    ] + [told("4 KB by SMTP, to Postfix's", None if why else found["smtp"]["rate"] / found["postfix"]["rate"], "", why)]
