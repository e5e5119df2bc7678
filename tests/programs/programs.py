"""The programs that send: how each is run, and where it stands if it is installed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEND = HERE / "send"
ROOT = HERE.parents[1]
# Debian's packages, unpacked and not installed.
DEBIAN = ROOT / ".tools/debian"
USR = DEBIAN / "usr"
# Longer than the slowest takes on a busy machine.
RUN_SECONDS = 180
PYTHON: tuple[str, ...] = (sys.executable, "-B")


class MissingError(Exception):
    """A program that is not installed, with the reason."""


@dataclass(frozen=True)
class Program:
    name: str
    # `ses` or `smtp`.
    way: str
    # The command without the file of its mails, which comes before `options`.
    command: tuple[str, ...]
    options: tuple[str, ...] = ()
    # Mails that it sends: fewer where it starts a process for each.
    mails: int = 100
    # A command that tells its version, and the pattern of it.
    version: tuple[str, ...] = ()
    # Members of a letter that it does not send as such.
    unsaid: tuple[str, ...] = ()


def found(name: str, package: str) -> str:
    """A program on the PATH, or of Debian's packages."""
    place = shutil.which(name, path=environment()["PATH"])
    if place is None:
        raise MissingError(f"{name} is missing: install it, or Debian's package {package}")
    return place


def php() -> tuple[str, ...]:
    """PHP without its settings: those of Debian's packages name places where nothing is installed."""
    if (place := shutil.which("php")) is not None:
        return (place,)
    binaries = sorted(USR.glob("bin/php[0-9]*"))
    folders = sorted(USR.glob("lib/php/20*"))
    if not binaries or not folders:
        raise MissingError("php is missing: install it, or Debian's package php-cli")
    wanted = ("ctype", "fileinfo", "iconv", "mbstring", "tokenizer")
    modules = [name for name in wanted if (folders[0] / f"{name}.so").exists()]
    options = [f"extension_dir={folders[0]}", *(f"extension={name}" for name in modules)]
    return (str(binaries[0]), "-n", *(part for option in options for part in ("-d", option)))


def php_script(file: str, library: str) -> tuple[str, ...]:
    """A script of PHP with a library of Debian's."""
    roots = [root for root in (Path("/usr/share/php"), USR / "share/php") if (root / library).exists()]
    if not roots:
        raise MissingError(f"{library} is missing below /usr/share/php: install Debian's package of it")
    return (*php(), "-d", f"include_path={roots[0]}", str(SEND / file))


def ruby() -> tuple[str, ...]:
    if (USR / "lib/ruby/vendor_ruby/mail.rb").exists() or Path("/usr/lib/ruby/vendor_ruby/mail.rb").exists():
        return (found("ruby", "ruby"), str(SEND / "mail.rb"))
    raise MissingError("Ruby's mail is missing: install Debian's package ruby-mail")


def node(file: str) -> tuple[str, ...]:
    if not (HERE / "node_modules").is_dir():
        raise MissingError("tests/programs/node_modules is missing: `make need-programs` makes it")
    return (found("node", "nodejs"), str(SEND / file))


@functools.cache
def environment() -> dict[str, str]:
    """Of all programs: only what they need, so that no setting of this user's has an effect."""
    triples = sorted({path.parent for path in USR.glob("lib/*/*.so*")})
    perl = [USR / "share/perl5", *USR.glob("lib/*/perl5/*"), *USR.glob("lib/*/perl/*"), *USR.glob("share/perl/*")]
    ruby_libraries = ("lib/ruby/vendor_ruby", "lib/ruby/[0-9]*", "lib/*/ruby/[0-9]*", "lib/*/ruby/vendor_ruby/[0-9]*",
                      "share/rubygems-integration/all/gems/*/lib", "lib/ruby/gems/*/gems/*/lib")  # fmt: skip
    ruby_folders = [folder for library in ruby_libraries for folder in USR.glob(library)]
    several = {"LD_LIBRARY_PATH": triples, "PERL5LIB": perl, "RUBYLIB": ruby_folders}
    return {
        "PATH": f"{os.environ['PATH']}:{ROOT / '.tools/aws/bin'}:{USR / 'bin'}",
        "HOME": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "PHPMAILER": next((str(path.parent) for root in (Path("/usr"), USR)
                           for path in root.glob("share/php/libphp-phpmailer/**/PHPMailer.php")), ""),
        **{name: ":".join(map(str, folders)) for name, folders in several.items() if folders},
    }  # fmt: skip


def run(command: Sequence[str], variables: dict[str, str], seconds: float = RUN_SECONDS) -> str:
    """What a program printed; it must end well."""
    ended = subprocess.run(command, env=environment() | variables, capture_output=True, text=True, timeout=seconds, check=False,
                           stdin=subprocess.DEVNULL)  # fmt: skip
    if ended.returncode != 0:
        said = (ended.stdout + ended.stderr).strip()
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {said[-2000:]}")
    return ended.stdout


def addresses(http: str, smtp: str) -> dict[str, str]:
    """The one setting: where a program finds SES, or a server of SMTP."""
    host, port = smtp.rsplit(":", 1)
    return {"AWS_ENDPOINT_URL_SES": http, "AWS_ENDPOINT_URL_SESV2": http, "SMTP_HOST": host, "SMTP_PORT": port}


def version_of(program: Program) -> str:
    """The version that a program tells."""
    if not program.version:
        return ""
    ended = subprocess.run(program.version, env=environment(), capture_output=True, text=True, timeout=60, check=False,
                           stdin=subprocess.DEVNULL)  # fmt: skip
    number = re.search(r"\d+\.\d+[\w.]*", ended.stdout + ended.stderr)
    return number[0] if number else "?"


def python_version(package: str) -> tuple[str, ...]:
    return (*PYTHON, "-c", f"import importlib.metadata as m; print(m.version('{package}'))")


def node_version(package: str) -> tuple[str, ...]:
    return ("node", "-p", f"require('{HERE}/node_modules/{package}/package.json').version")


def program(name: str) -> Program:
    """A program by its name.

    Raises MissingError where it is not installed.
    """
    return MAKERS[name]()


def of_python(name: str, way: str, file: str, package: str, *options: str, unsaid: tuple[str, ...] = ()) -> Program:
    return Program(name, way, (*PYTHON, str(SEND / file)), options, version=python_version(package), unsaid=unsaid)


def aws_cli() -> Program:
    place = found("aws", "awscli")
    return Program("aws-cli", "ses", (*PYTHON, str(SEND / "aws_cli.py")), mails=8, version=(place, "--version"),
                   unsaid=("order",))  # fmt: skip


def by_php(name: str, file: str, library: str, package: str) -> Program:
    return Program(name, "smtp", php_script(file, library), version=("dpkg-deb", "-f", debian(package), "Version"))


def debian(package: str) -> str:
    return str(next(iter(DEBIAN.glob(f"{package}_*.deb")), "none"))


def msmtp() -> Program:
    place = found("msmtp", "msmtp")
    return Program("msmtp", "smtp", (*PYTHON, str(SEND / "msmtp.py")), version=(place, "--version"))


def swaks() -> Program:
    place = found("swaks", "swaks")
    return Program("swaks", "smtp", (*PYTHON, str(SEND / "swaks.py")), mails=24, version=(place, "--version"),
                   unsaid=("text", "html"))  # fmt: skip


MAKERS: dict[str, Callable[[], Program]] = {
    "boto3-ses": lambda: of_python("boto3-ses", "ses", "boto3_ses.py", "boto3", unsaid=("order",)),
    "boto3-sesv2": lambda: of_python("boto3-sesv2", "ses", "boto3_sesv2.py", "boto3"),
    "aws-cli": aws_cli,
    "sdk-v3": lambda: Program("sdk-v3", "ses", node("sdk_v3.mjs"), version=node_version("@aws-sdk/client-sesv2")),
    "nodemailer-ses": lambda: Program(
        "nodemailer-ses", "ses", node("nodemailer_send.mjs"), ("ses",), version=node_version("nodemailer")
    ),
    "nodemailer-smtp": lambda: Program(
        "nodemailer-smtp", "smtp", node("nodemailer_send.mjs"), ("smtp",), version=node_version("nodemailer")
    ),
    "django-smtp": lambda: of_python("django-smtp", "smtp", "django_send.py", "django", "smtp"),
    "django-ses": lambda: of_python("django-ses", "ses", "django_send.py", "django-ses", "ses"),
    "django-sesv2": lambda: of_python("django-sesv2", "ses", "django_send.py", "django-ses", "sesv2"),
    "smtplib": lambda: Program(
        "smtplib", "smtp", (*PYTHON, str(SEND / "smtplib_send.py")), version=(sys.executable, "--version")
    ),
    "msmtp": msmtp,
    "swaks": swaks,
    "phpmailer": lambda: by_php("phpmailer", "phpmailer.php", "libphp-phpmailer", "libphp-phpmailer"),
    "symfony": lambda: by_php("symfony", "symfony.php", "Symfony/Component/Mailer", "php-symfony-mailer"),
    "ruby-mail": lambda: Program("ruby-mail", "smtp", ruby(), version=("dpkg-deb", "-f", debian("ruby-mail"), "Version")),
}
