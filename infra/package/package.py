"""Makes the packages that deploy Tidegate without a checkout, from the functions' zips: the SAM template's
(tidegate-sam-VERSION.zip) and the CDK construct's (tidegate-cdk-VERSION.tgz).

    python3 infra/package/package.py --functions dist/functions --out dist      (it needs PyYAML)

The zips are scheduler-arm64.zip and poller-arm64.zip for e-mail, scheduler-arm64-sms.zip and poller-arm64-sms.zip
for text messages, and the same for x86_64, each with one file: bootstrap.
Equal input gives equal packages, byte by byte. Exit code 2: a zip is missing, or is no function's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import npm
import sam
from functions import ARCHITECTURES, ROOT, Refused, read_functions, version


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("package", description=__doc__, formatter_class=formatter)
    option = parser.add_argument
    option("--functions", type=Path, required=True, metavar="DIR", help="where the functions' zips are")
    option("--out", type=Path, required=True, metavar="DIR", help="where the packages are written")
    option("--complete", action="store_true", help="for a release: fail unless every processor is there")
    option("--source-url", metavar="URL", help="the repository, such as https://github.com/OWNER/tidegate")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    args = parse(arguments)
    try:
        functions = read_functions(args.functions, args.complete)
        args.out.mkdir(parents=True, exist_ok=True)
        given = (version(), functions, args.source_url, args.out)
        made = [sam.package(*given), npm.package(*given)]
    except Refused as refused:
        print(f"package: {refused}", file=sys.stderr)
        sys.exit(2)
    for architecture in set(ARCHITECTURES) - set(functions.architectures):
        print(f"package: {args.functions} has no zips for {architecture}: the packages lack it", file=sys.stderr)
    for path in made:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
