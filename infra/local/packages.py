"""What is uploaded to deploy: the functions' packages, named in the template, and the template."""

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUCKET = "tidegate-code"


class Failure(Exception):
    """How a deployment ends that does not succeed: told in one line, with the exit code that names its kind."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


# Levels of compression. The fast one takes a third of the default's time, for 5 % more bytes.
FAST = 1
SMALLEST = 9


def zip_bootstrap(binary: Path, level: int = FAST) -> bytes:
    """The deployment package of one binary; equal binaries give equal packages."""
    try:
        content = binary.read_bytes()
    except OSError as error:
        raise Failure(f"cannot read the binary {binary}: {error.strerror}; build it first", 2) from error
    return zipped({"bootstrap": content}, 0o755, level)


def zipped(files: Mapping[str, bytes], mode: int, level: int | None = None) -> bytes:
    """A zip of these files; equal files give equal zips."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=level)
    return buffer.getvalue()


def kept_package(binary: Path) -> bytes:
    """The deployment package of one binary. In cargo's folder it is kept beside the binary until that is built anew:
    `make test` deploys each function some thirty times, and to zip one takes 0.6 s of processor."""
    # Where a binary is installed, nothing is left that no uninstallation would remove.
    if not (binary.parent / ".fingerprint").is_dir():
        return zip_bootstrap(binary)
    kept = binary.with_name(f"{binary.name}.zip")
    built = binary.stat().st_mtime_ns if binary.exists() else 0
    if kept.exists() and kept.stat().st_mtime_ns == built:
        return kept.read_bytes()
    package = zip_bootstrap(binary)
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        made = Path(folder) / kept.name
        made.write_bytes(package)
        os.utime(made, ns=(built, built))
        made.replace(kept)
    return package


def functions(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The template's functions as SchedulerFunction and PollerFunction; CDK makes up other ids."""
    found = (r for r in template["Resources"].values() if r["Type"] == "AWS::Lambda::Function")
    return {f"{_role(function).capitalize()}Function": function for function in found}


def _role(function: dict[str, Any]) -> str:
    name = function["Properties"]["FunctionName"]
    text = name if isinstance(name, str) else str(*name.values())
    return text.rsplit("-", 1)[-1]


def upload(s3: Any, template: dict[str, Any], binaries: Mapping[str, Path | None]) -> dict[str, int]:
    """Uploads each function's package and points the template at it; gives the packages' bytes."""
    sizes = {}
    for name, function in sorted(functions(template).items()):
        binary = binaries.get(name)
        if binary is None:
            raise Failure(f"no binary for the template's {name}: give --scheduler and --poller", 2)
        package = kept_package(binary)
        key = f"{name}-{hashlib.sha256(package).hexdigest()}.zip"
        s3.put_object(Bucket=BUCKET, Key=key, Body=package)
        function["Properties"]["Code"] = {"S3Bucket": BUCKET, "S3Key": key}
        sizes[name] = len(package)
    return sizes


def upload_template(s3: Any, endpoint: str, template: dict[str, Any]) -> str:
    """Uploads the template, which is too large to be sent as it is; gives its URL."""
    body = json.dumps(template, separators=(",", ":")).encode()
    key = f"template-{hashlib.sha256(body).hexdigest()}.json"
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    return f"{endpoint}/{BUCKET}/{key}"


def make_bucket(s3: Any) -> None:
    if BUCKET not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=BUCKET)
