import subprocess
import sys
from pathlib import Path

import pytest

import repro.uv
from repro.errors import Unavailable
from repro.process import Captured, Ended
from repro.uv import ATTEMPTS, INSTALL_LIMIT, call

WHEEL = "torch-2.13.0.dev20260528+cpu-cp311-cp311-linux_x86_64.whl"
URL = f"http://torch.example/nightly/cpu/{WHEEL.replace('+', '%2B')}"
NETWORK = "the package index cannot be reached"
NO_VERSION = "the index has no such version"
NO_WHEEL = "the index has no wheel of it for this Python and platform"
FULL = "the disk is full"
DENIED = "a folder cannot be written"


def ended(code: int = 0, stderr: str = "", stdout: str = "", timed_out: bool = False) -> Ended:
    def kept(text: str) -> Captured:
        return Captured(text.encode(), b"", len(text.encode()))

    return Ended(code, timed_out, False, kept(stdout), kept(stderr), 0.1)


class FakeRun:
    """Stands for `repro.process.run`: gives the answers one after the other, the last for ever."""

    def __init__(self, *answers: Ended) -> None:
        self.answers = list(answers)
        self.calls: list[dict] = []
        self.pauses: list[float] = []

    def __call__(self, command, *, environment, folder, timeout, holding=()) -> Ended:
        self.calls.append(
            {"command": command, "environment": environment, "folder": folder, "timeout": timeout}
        )
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def fake(monkeypatch):
    def answer(*answers: Ended) -> FakeRun:
        made = FakeRun(*answers)
        monkeypatch.setattr(repro.uv, "run", made)
        monkeypatch.setattr(repro.uv.time, "sleep", made.pauses.append)
        return made

    return answer


PASSING = ("refused", "no name", "cut off", "broken server", "truncated")


def complaint(fake, stderr: str) -> Unavailable:
    fake(ended(1, stderr))
    with pytest.raises(Unavailable) as caught:
        call(["pip", "install", "torch"], Path("/"))
    assert caught.value.hint
    assert caught.value.log == stderr
    return caught.value


COMPLAINTS = {
    "refused": (
        NETWORK,
        "error: Failed to fetch: https://index.example/simple/torch/\n"
        "  cause: error sending request for url (https://index.example/simple/torch/)\n"
        "  cause: client error (Connect)\n"
        "  cause: tcp connect error\n"
        "  cause: Connection refused (os error 111)\n",
    ),
    "no name": (
        NETWORK,
        "error: Request failed after 3 retries\n"
        "  Caused by: Failed to fetch: `https://torch.example/whl/cpu/torch/`\n"
        "  Caused by: error sending request for url\n"
        "  Caused by: client error (Connect)\n"
        "  Caused by: dns error: failed to lookup address information: Name or service not known\n",
    ),
    "cut off": (
        f"torch-2.12.1-cp311-none.whl: {NETWORK}",
        "  \u00d7 Failed to download `torch==2.12.1`\n"
        "  \u251c\u2500\u25b6 Failed to extract archive: torch-2.12.1-cp311-none.whl\n"
        "  \u2570\u2500\u25b6 error decoding response body: connection reset by peer\n",
    ),
    "too slow": (
        "the server stalled",
        "error: Failed to fetch: `https://index.example/simple/torch/`\n"
        "  Caused by: operation timed out\n",
    ),
    "gone": (
        f"{WHEEL}: the server answers 404, not available",
        f"error: Failed to fetch: {URL}\n"
        f"  cause: HTTP status client error (404 Not Found) for url ({URL})\n",
    ),
    "broken server": (
        f"{WHEEL}: the server answers 500",
        f"error: Failed to fetch: {URL}\n"
        f"  cause: HTTP status server error (500 Internal Server Error) for url ({URL})\n",
    ),
    "stalled": (
        f"{WHEEL}: the server stalled",
        f"error: Failed to unzip wheel: {WHEEL}\n"
        "  cause: an error occurred during transport: error decoding response body\n"
        "  cause: request or response body error\n"
        "  cause: operation timed out\n",
    ),
    "stalled, without ranges": (
        "the server stalled",
        "error: No solution found when resolving dependencies\n"
        "  cause: Because torch has an invalid package format and you require torch, we can\n"
        "hint: The structure of `torch` was invalid\n"
        "  Caused by: Failed to read from zip file\n"
        "  Caused by: Failed to download distribution due to network timeout. Try increasing\n",
    ),
    "truncated": (
        f"{WHEEL}: what came was cut off",
        f"error: Failed to unzip wheel: {WHEEL}\n"
        "  cause: request or response body error\n"
        "  cause: error reading a body from connection\n"
        "  cause: end of file before message length reached\n",
    ),
    "damaged": (
        f"{WHEEL}: the file is damaged",
        f"error: Failed to unzip wheel: {WHEEL}\n  cause: invalid Zip archive\n",
    ),
    "wrong METADATA": (
        f"{WHEEL}: its METADATA states another name or version than its file name",
        f"error: Failed to install: {WHEEL} (torch==2.13.0.dev20260528+cpu (from {URL}))\n"
        "  cause: Wheel version does not match filename (2.13.0.dev20260527+cpu != "
        "2.13.0.dev20260528+cpu), which indicates a malformed wheel.\n",
    ),
    "wrong hash": (
        f"{WHEEL}: its sha256 is not what the index states",
        f"error: Failed to download `torch @ {URL}#sha256=00`\n"
        f"  cause: Hash mismatch for `torch @ {URL}#sha256=00`\n",
    ),
    "no version": (
        NO_VERSION,
        "error: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of torch==99.9.9 and you require torch==99.9.9, we "
        "can conclude that your requirements are unsatisfiable.\n",
    ),
    "no version, boxed": (
        NO_VERSION,
        "  \u00d7 No solution found when resolving dependencies:\n"
        "  \u2570\u2500\u25b6 Because there is no version of torch==99.9.9 and you require\n"
        "      torch==99.9.9, we can conclude that your requirements are\n"
        "      unsatisfiable.\n",
    ),
    "no package": (
        NO_VERSION,
        "  \u00d7 No solution found when resolving dependencies:\n"
        "  \u2570\u2500\u25b6 Because torchx9 was not found in the package registry and you\n"
        "      require torchx9, we can conclude that your requirements are unsatisfiable.\n",
    ),
    "no wheel for this Python": (
        NO_WHEEL,
        "error: No solution found when resolving dependencies\n"
        "  cause: Because torch==1.4.0 has no wheels with a matching Python "
        "ABI tag (e.g., `cp311`) and "
        "you require torch==1.4.0, we can conclude that your requirements are unsatisfiable.\n"
        "\nhint: You require CPython 3.11 (`cp311`), but we only found wheels for `torch` (v1.4.0) "
        "with the following Python ABI tags: `cp27m`, `cp38`\n",
    ),
    "no wheel for this platform": (
        NO_WHEEL,
        "  \u00d7 No solution found when resolving dependencies:\n"
        "  \u2570\u2500\u25b6 Because torch==2.6.0 has no wheels with a matching platform tag\n"
        "      (e.g., `manylinux_2_17_s390x`) and you require torch==2.6.0, we can conclude that\n"
        "      your requirements are unsatisfiable.\n",
    ),
    "Python too old": (
        NO_WHEEL,
        "  \u00d7 No solution found when resolving dependencies:\n"
        "  \u2570\u2500\u25b6 Because the current Python version (3.9.1) does not satisfy "
        "Python>=3.10 and torch==2.12.1 depends on Python>=3.10, we can "
        "conclude that torch==2.12.1 cannot "
        "be used.\n",
    ),
    "full": (
        FULL,
        "error: Failed to install: torch-2.12.1-cp311.whl (torch==2.12.1)\n"
        "  Caused by: failed to copy file from /a to /b: No space left on device (os error 28)\n",
    ),
    "full while downloading": (
        FULL,
        "  \u00d7 Failed to download `torch==2.12.1`\n"
        "  \u2570\u2500\u25b6 Failed to write to the distribution cache\n"
        "      No space left on device (os error 28)\n",
    ),
    "quota": (FULL, "error: failed to create directory `/cache`: Disk quota exceeded\n"),
    "denied": (
        DENIED,
        "error: failed to create directory `/cache/uv`: Permission denied (os error 13)\n",
    ),
    "read only": (
        DENIED,
        "error: failed to open file `/cache/uv/TAG`: Read-only file system (os error 30)\n",
    ),
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_a_complaint_becomes_a_sentence(fake, what):
    sentence, stderr = COMPLAINTS[what]
    assert str(complaint(fake, stderr)) == sentence


def test_a_network_that_was_turned_off_is_not_taken_for_a_missing_version(fake):
    stderr = (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because torch was not found in the cache and you require torch, we can conclude "
        "that your requirements are unsatisfiable.\n\n"
        "hint: Packages were unavailable because the network was disabled. When the network is "
        "disabled, registry packages may only be read from the cache.\n"
    )
    assert str(complaint(fake, stderr)) != NO_VERSION


def test_a_refusal_by_the_index_is_not_tried_again(fake):
    stderr = (
        "error: Failed to fetch: `https://example.com/simple/torch/`\n"
        "  Caused by: HTTP status client error (401 Unauthorized) for url "
        "(https://example.com/simple/torch/)\n"
    )
    made = fake(ended(2, stderr))
    with pytest.raises(Unavailable):
        call(["pip"], Path("/"))
    assert len(made.calls) == 1


def test_anything_else_is_quoted(fake):
    assert "something odd" in str(complaint(fake, "error: something odd\nmore\n"))
    assert "something odd" in str(
        complaint(fake, "  \u00d7 something odd\n  \u2570\u2500\u25b6 why\n")
    )
    assert str(complaint(fake, "")) == "uv failed: without a word"


@pytest.mark.parametrize(
    "before", ["Using Python 3.11.4 environment at: /x\n", "warning: `--a` is deprecated\n"]
)
def test_what_is_quoted_is_the_error_and_not_what_uv_said_before_it(fake, before):
    stderr = before + "Resolved 30 packages in 1.2s\nerror: something odd\n"
    assert "something odd" in str(complaint(fake, stderr))


def test_a_failing_network_is_tried_again_with_pauses_in_between(fake):
    made = fake(ended(1, COMPLAINTS["refused"][1]))
    with pytest.raises(Unavailable, match=NETWORK):
        call(["pip"], Path("/"))
    assert len(made.calls) == ATTEMPTS
    assert len(made.pauses) == ATTEMPTS - 1
    assert made.pauses == sorted(made.pauses)
    assert made.pauses[0] > 0


@pytest.mark.parametrize("what", PASSING)
def test_what_may_pass_is_tried_again(fake, what):
    made = fake(ended(1, COMPLAINTS[what][1]), ended(0))
    assert call(["pip"], Path("/")).exit_code == 0
    assert len(made.calls) == 2


def test_a_network_that_comes_back_is_enough(fake):
    made = fake(ended(1, COMPLAINTS["no name"][1]), ended(0, stdout="torch==2.12.1\n"))
    assert call(["pip"], Path("/")).stdout.text == "torch==2.12.1\n"
    assert len(made.calls) == 2


@pytest.mark.parametrize("what", [w for w in COMPLAINTS if w not in PASSING])
def test_what_does_not_pass_is_not_tried_again(fake, what):
    made = fake(ended(1, COMPLAINTS[what][1]))
    with pytest.raises(Unavailable):
        call(["pip"], Path("/"))
    assert len(made.calls) == 1
    assert made.pauses == []


def test_a_time_out_is_said_and_not_tried_again(fake):
    made = fake(ended(-9, timed_out=True))
    with pytest.raises(Unavailable, match="had not finished after 7 s"):
        call(["pip"], Path("/"), timeout=7)
    assert len(made.calls) == 1


def test_uv_is_called_with_its_arguments_and_the_users_settings(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("UV_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere")
    made = fake(ended())
    call(["pip", "install", tmp_path / "x"], tmp_path)
    [only] = made.calls
    assert Path(only["command"][0]).name.startswith("uv")
    assert only["command"][1:] == ["pip", "install", tmp_path / "x"]
    assert (only["folder"], only["timeout"]) == (tmp_path, INSTALL_LIMIT)
    assert only["environment"]["UV_INDEX_URL"] == "https://index.example/simple"
    assert only["environment"]["NO_COLOR"] == "1"
    assert "VIRTUAL_ENV" not in only["environment"]


def test_the_uv_that_was_installed_with_us_runs(tmp_path):
    assert call(["--version"], tmp_path, 60).stdout.text.startswith("uv ")


def test_importing_our_module_needs_no_uv():
    """It is looked for when it is called, so that `repro list` works without it."""
    code = "import sys; import repro.uv; print('uv' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
