"""Makes the files of a release from programs that are built: the functions' zips, archive, wheel, checksums.

Equal programs give equal files, byte by byte: names are sorted, times are fixed, owners left out. Only
another zlib may pack the same content into other bytes.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.append(str(ROOT / "infra" / "local"))
import packages  # noqa: E402

# 1980-01-01, the first second that a zip can hold.
EPOCH = 315_532_800
FUNCTIONS = ("poller", "scheduler")
OPERATOR = "tidegate"
# The programs of a local run: `tidegate local` finds them in this folder, and they are on nobody's PATH.
LOCAL = ("devstack", *FUNCTIONS, "ses-sandbox")
PROGRAMS = Path("libexec", "tidegate")
# What deploys the stack into the local AWS, in the place that devstack takes for a checkout.
FILES = Path("share", "tidegate")
DEPLOYMENT = (
    *(f"infra/local/{name}.py" for name in ("local_aws", "cdk_app", "packages")),
    "infra/sam/template.yaml",
)
COMPLETIONS = {
    "bash": "share/bash-completion/completions/tidegate",
    "fish": "share/fish/vendor_completions.d/tidegate.fish",
    "zsh": "share/zsh/site-functions/_tidegate",
}
SUMS = "SHA256SUMS"


def version() -> str:
    """The workspace's, which all its crates have."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', manifest, re.M)
    if found is None:
        raise SystemExit("dist: Cargo.toml has no version")
    return found[1]


def newest_glibc(program: Path) -> tuple[int, ...]:
    """The newest version of glibc that a program asks for."""
    with program.open("rb") as file:
        versions = ELFFile(file).get_section_by_name(".gnu.version_r")
        asked = (name.name for _, names in versions.iter_versions() for name in names) if versions else ()
        found = (re.fullmatch(r"GLIBC_([\d.]+)", name) for name in asked)
        return max((tuple(map(int, version[1].split("."))) for version in found if version), default=())


def check_glibc(most: str, programs: list[Path]) -> None:
    """Ends with an error where a program would not start on a system with glibc `most`."""
    for program in programs:
        newest = newest_glibc(program)
        if newest > tuple(map(int, most.split("."))):
            raise SystemExit(f"dist: {program} needs glibc {'.'.join(map(str, newest))}, allowed is {most} and older")


def functions(binaries: Path, arch: str, channel: str, out: Path) -> list[Path]:
    """Lambda's packages, each a zip with the one file `bootstrap`."""
    of_channel = "" if channel == "email" else f"-{channel}"
    out.mkdir(parents=True, exist_ok=True)
    made = {out / f"{name}-{arch}{of_channel}.zip": binaries / name / "bootstrap" for name in FUNCTIONS}
    for package, binary in made.items():
        package.write_bytes(packages.zip_bootstrap(binary, packages.SMALLEST))
    return list(made)


def built(programs: Path, name: str) -> Path:
    """A program as cargo leaves it, or as cargo-lambda does."""
    by_lambda = programs / name / "bootstrap"
    return by_lambda if by_lambda.exists() else programs / name


def install(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def stage(programs: Path, notices: list[Path], prefix: Path) -> None:
    """Lays out all that is installed below a prefix such as /usr/local: archive and wheel have the same."""
    shutil.rmtree(prefix, ignore_errors=True)
    operator = prefix / "bin" / OPERATOR
    install(built(programs, OPERATOR), operator, 0o755)
    for name in LOCAL:
        install(built(programs, name), prefix / PROGRAMS / name, 0o755)
    for file in DEPLOYMENT:
        install(ROOT / file, prefix / FILES / file)
    for shell, file in COMPLETIONS.items():
        (prefix / file).parent.mkdir(parents=True)
        said = subprocess.run([operator, "completions", shell], stdout=subprocess.PIPE, check=True)
        (prefix / file).write_bytes(said.stdout)
    manual = prefix / "share" / "man" / "man1"
    manual.mkdir(parents=True)
    subprocess.run([operator, "man", manual], check=True)
    for notice in notices:
        install(notice, prefix / "share" / "doc" / "tidegate" / notice.name)


def archive(prefix: Path, platform: str, out: Path) -> Path:
    """`tidegate-VERSION-PLATFORM.tar.gz`, with one folder of that name."""
    name = f"tidegate-{version()}-{platform}"

    def alike(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = EPOCH
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(prefix, name, filter=alike)
    out.mkdir(parents=True, exist_ok=True)
    made = out / f"{name}.tar.gz"
    made.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return made


def wheel(prefix: Path, tag: str, out: Path) -> Path:
    """`tidegate-VERSION-py3-none-TAG.whl`, by hatchling, in a folder beside the prefix."""
    project = prefix.with_name(f"{prefix.name}-wheel")
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(prefix, project / "prefix")
    for file in sorted((HERE / "wheel").iterdir()):
        install(file, project / file.name)
    for notice in sorted((prefix / "share" / "doc" / "tidegate").iterdir()):
        install(notice, project / "licenses" / notice.name)
    shutil.rmtree(project / "prefix" / "share" / "doc")
    install(ROOT / "infra" / "local" / "requirements.txt", project / "requirements.txt")
    out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "TIDEGATE_VERSION": version(),
        "TIDEGATE_WHEEL_TAG": f"py3-none-{tag}",
    }
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out.resolve())]
    subprocess.run(command, cwd=project, env=environment, check=True, stdout=subprocess.PIPE)
    return out / f"tidegate-{version()}-py3-none-{tag}.whl"


def checksums(out: Path) -> Path:
    """Of all files below `out`, as `sha256sum -c` reads them there."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != SUMS)
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(out).as_posix()}\n" for file in files)
    (out / SUMS).write_text("".join(lines), encoding="utf-8")
    return out / SUMS


def notes(changelog: str, tag: str, links: str) -> str:
    """The changelog's part of the version; its relative links lead into the repository at `links`."""
    if tag != f"v{version()}":
        raise SystemExit(f"dist: the tag {tag} is not v{version()}, the version in Cargo.toml")
    part = re.search(rf"^## \[{re.escape(version())}\] - (.+?)\n+(.+?)(?=^## |\Z)", changelog, re.M | re.S)
    if part is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", part[1]):
        raise SystemExit(f"dist: CHANGELOG.md has no heading `## [{version()}] - YYYY-MM-DD`")
    return re.sub(r"\]\((?![a-z]+:|#)", f"]({links}/", part[2]).strip() + "\n"


def tell(*made: Path) -> None:
    for path in made:
        print(f"{path}: {path.stat().st_size / 1024 / 1024:.1f} MiB")


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("dist", description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text)
        added.set_defaults(run=run)
        added.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="[dist]")
        return added

    zips = command("functions", lambda a: tell(*functions(a.binaries, a.arch, a.channel, a.out / "functions")),
                   "the two functions as zips for Lambda")  # fmt: skip
    zips.add_argument("--binaries", type=Path, required=True, metavar="DIR", help="with poller/bootstrap")
    zips.add_argument("--arch", choices=("arm64", "x86_64"), required=True)
    zips.add_argument("--channel", choices=("email", "sms"), default="email", help="that they were built for [email]")

    glibc = command("glibc", lambda a: check_glibc(a.most, a.programs), "refuse programs that need a newer glibc")
    glibc.add_argument("--most", required=True, metavar="VERSION")
    glibc.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM")

    def pack(args: argparse.Namespace) -> None:
        prefix = args.programs.with_name("prefix")
        stage(args.programs, args.notice, prefix)
        tell(archive(prefix, args.platform, args.out), wheel(prefix, args.tag, args.out))

    programs = command("programs", pack, "the operator's command and the local run: archive and wheel")
    programs.add_argument("--programs", type=Path, required=True, metavar="DIR", help=f"with {OPERATOR}, {', '.join(LOCAL)}")
    programs.add_argument("--notice", type=Path, action="append", default=[], metavar="FILE", help="a licence; repeatable")
    programs.add_argument("--platform", required=True, help="in the archive's name, such as linux-x86_64")
    programs.add_argument("--tag", required=True, help="the wheel's, such as manylinux_2_17_x86_64")
    cut = command("notes", lambda a: print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), a.tag, a.links), end=""),
                  "the release's notes, from CHANGELOG.md")  # fmt: skip
    cut.add_argument("--tag", required=True, help="such as v0.1.0")
    cut.add_argument("--links", required=True, metavar="URL", help="of the repository's files at the tag")
    command("checksums", lambda a: tell(checksums(a.out)), f"{SUMS} of all files")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    args = options(arguments)
    args.run(args)


if __name__ == "__main__":
    main()
