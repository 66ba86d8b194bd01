"""The image in a container engine, hardened as far as the engine can: run by .ci/container.sh.

TRAINPROOF_CONTAINER is the engine's command up to the options of ``run``, TRAINPROOF_IMAGE the
image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.audio import tone, write_audio
from trainproof import __version__

ENGINE = shlex.split(os.environ.get("TRAINPROOF_CONTAINER", ""))
IMAGE = os.environ.get("TRAINPROOF_IMAGE", "trainproof")
GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
PROMISED = ("--rm", "--network", "none", "--read-only")
HARDENED = (
    *PROMISED,
    *("--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges"),
    *("--pids-limit", "64"),
    *("--memory", "512m"),
)

pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(not ENGINE, reason="no image: .ci/container.sh builds and tests it"),
]


def run(
    *arguments: str,
    runs: Path | None = None,
    options: tuple[str, ...] = HARDENED,
    image: str = IMAGE,
) -> subprocess.CompletedProcess[str]:
    """Run the image with ``runs`` mounted read-only at /runs."""
    mount = ("-v", f"{runs}:/runs:ro") if runs else ()
    command = [*ENGINE, *options, *mount, image, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def shell(script: str) -> str:
    done = run("-c", script, options=(*HARDENED, "--entrypoint", "sh"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_says_its_version() -> None:
    assert run("--version").stdout == f"trainproof {__version__}\n"


def test_without_arguments_it_shows_help() -> None:
    done = run()
    assert done.returncode == 0
    assert "audit" in done.stdout


def test_the_promised_command_audits_a_healthy_run() -> None:
    done = run("audit", "/runs", runs=GALLERY / "hf/healthy/seed1", options=PROMISED)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failed_run_exits_with_1() -> None:
    assert run("audit", "/runs", runs=GALLERY / "torch/nan/seed1").returncode == 1


def test_a_missing_path_exits_with_2() -> None:
    assert run("audit", "/nowhere").returncode == 2


def test_any_uid_will_do() -> None:
    options = (*HARDENED, "--user", "12345:54321")
    assert run("audit", "/runs", runs=GALLERY / "hf/healthy/seed1", options=options).returncode == 0


def test_the_gallery_gets_the_verdicts_it_gets_outside() -> None:
    done = run("audit", "/runs", "--json", "-", runs=GALLERY)
    found = {run["id"]: run["verdict"] for run in json.loads(done.stdout)["reports"]}
    expected = json.loads((GALLERY / "expected.json").read_text("utf-8"))
    assert found == {name: run["verdict"] for name, run in expected.items()}


def test_an_archive_is_read_where_tmp_is_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with tarfile.open(tmp_path / "runs.tar.gz", "w:gz") as archive:
        archive.add(GALLERY / "torch/nan/seed1", "run")
    options = (*HARDENED, "--tmpfs", "/tmp")
    assert run("audit", "/runs/runs.tar.gz", runs=tmp_path, options=options).returncode == 1


def test_an_archive_without_room_for_it_is_not_judged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with tarfile.open(tmp_path / "runs.tar.gz", "w:gz") as archive:
        archive.add(GALLERY / "torch/nan/seed1", "run")
    done = run("audit", "/runs/runs.tar.gz", runs=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_nothing_that_is_audited_changes() -> None:
    before = digest(GALLERY)
    run("audit", "/runs", runs=GALLERY)
    assert digest(GALLERY) == before


def digest(root: Path) -> str:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    content = b"".join(str(path).encode() + b"\0" + path.read_bytes() for path in files)
    return hashlib.sha256(content).hexdigest()


def test_it_runs_as_a_numbered_user_without_rights() -> None:
    assert shell("id -u; id -g") == "65532\n65532"
    assert shell("grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\\t'") == (
        "CapEff:0000000000000000\nNoNewPrivs:1"
    )


def test_nothing_in_the_image_is_writable() -> None:
    """Devices are; so would /tmp be, were the root not read-only."""
    search = "find / -xdev -writable ! -type l ! -type c ! -path '/proc/*' 2>/dev/null || :"
    assert shell(search) == ""


def test_the_environment_holds_no_installer() -> None:
    assert shell("python -c 'import pip' 2>/dev/null && echo pip || echo none") == "none"


def test_no_start_compiles_anything() -> None:
    python = (*HARDENED, "--entrypoint", "python")
    loaded = run(
        "-v", "-c", "from trainproof.cli.app import command_line; command_line()", options=python
    ).stderr
    # Python names a bytecode file in quotes, and a source that it had to compile without.
    assert "code object from '" in loaded
    assert "code object from /" not in loaded


def test_extras_that_were_asked_for_are_there_and_others_are_named(tmp_path: Path) -> None:
    for number in range(3):
        write_audio(tmp_path / f"{number}.flac", tone(pitch=220.0 + number))
        (tmp_path / f"{number}.txt").write_text("what is said in it\n")
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o755)
    without = run("data", "/runs", runs=tmp_path)
    assert (without.returncode, "needs trainproof[speech]" in without.stdout) == (2, True)
    done = run("data", "/runs", runs=tmp_path, image=f"{IMAGE}-speech")
    assert done.returncode == 0, done.stdout
