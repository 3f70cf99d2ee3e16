"""Find and read cases. Only the header is read: the file is not run and torch is not imported."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from repro.errors import ReproError

NAME = re.compile(r"[a-z][a-z0-9_]*")
DEVICES = ("cpu", "cuda", "xpu", "mps")
DEFAULT_TIMEOUT = 300.0
LONGEST_TIMEOUT = 7 * 24 * 3600.0
# The regular expression of the inline script metadata specification (PEP 723).
_BLOCK = re.compile(
    r"^# /// (?P<type>[a-zA-Z0-9-]+)[ \t]*\r?$\n(?P<content>(?:^#(?:| .*)\r?$\n)+)^# ///[ \t]*\r?$",
    re.MULTILINE,
)
_KEYS = ("title", "issue", "devices", "ranks", "timeout", "backward", "compile")
_COMPILE_KEYS = ("backend", "fullgraph", "dynamic", "mode", "options")


class CaseError(ReproError):
    """A case that cannot be found or whose header cannot be read."""


@dataclass(frozen=True)
class Case:
    """The header of one case.

    Args:
        name: the file name without `.py`.
        path: absolute path of the file.
        source: the whole file.
        devices: kinds of device it can run on, the preferred one first.
        ranks: processes that run it together.
        timeout: seconds for one probe.
        backward: whether gradients are run and compared too.
        compile: keyword arguments of `torch.compile`.
        torch: the versions of torch that the header's `dependencies` admit.
    """

    name: str
    path: Path
    source: str
    title: str
    issue: str | None = None
    devices: tuple[str, ...] = ("cpu",)
    ranks: int = 1
    timeout: float = DEFAULT_TIMEOUT
    backward: bool = False
    compile: Mapping[str, Any] = field(default_factory=dict)
    torch: SpecifierSet = field(default_factory=SpecifierSet)

    @property
    def backend(self) -> str:
        """The backend that `torch.compile` gets; torch's own default is inductor."""
        return str(self.compile.get("backend", "inductor"))

    def admits(self, version: str) -> bool:
        """Whether the header's `dependencies` admit this torch, nightlies included."""
        return self.torch.contains(Version(version), prereleases=True)


class _Header:
    """The TOML of a header together with where it stands, for errors that name file and line."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        blocks = [block for block in _BLOCK.finditer(source) if block["type"] == "script"]
        if not blocks:
            raise CaseError(
                f"{path}: no header: a case starts with a block between '# /// script' and '# ///'",
                "repro new NAME writes a case with a header",
            )
        if len(blocks) > 1:
            line = source[: blocks[1].start()].count("\n") + 1
            raise CaseError(f"{path}:{line}: a second '# /// script' block; a case has one")
        self._first = source[: blocks[0].start("content")].count("\n") + 1
        # Not splitlines(): to TOML the other line separators are ordinary characters.
        lines = [line.removesuffix("\r") for line in blocks[0]["content"].split("\n")[:-1]]
        self.lines = [line[2:] if line.startswith("# ") else line[1:] for line in lines]
        try:
            self.table = tomllib.loads("\n".join(self.lines))
        except tomllib.TOMLDecodeError as error:
            place = re.search(r"at line (\d+)", str(error))
            line = self._first + int(place[1]) - 1 if place else self._first + len(self.lines) - 1
            what = re.sub(r" \(at .*\)$", "", str(error))
            raise CaseError(f"{path}:{line}: the header is no valid TOML: {what}") from None
        except (ValueError, RecursionError) as error:  # a number or a nesting beyond its limits
            raise CaseError(f"{path}:{self._first}: the header is no valid TOML: {error}") from None

    def error(self, key: str, problem: str, hint: str | None = None) -> CaseError:
        """An error that names file, line and key."""
        table, _, name = key.rpartition(".")
        inside = ""
        offset = 0
        for number, line in enumerate(self.lines):
            if opened := re.match(r"\s*\[(.+?)\]\s*(#.*)?$", line):
                inside = opened[1].replace(" ", "")
                if inside == key:
                    offset = number
            elif re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line) and inside == table:
                offset = number
        return CaseError(f"{self.path}:{self._first + offset}: {key}: {problem}", hint)

    def typed(self, table: Mapping[str, Any], key: str, kind: type, what: str) -> Any:
        """A value of the wanted type, None where the key is absent."""
        name = key.rpartition(".")[2]
        value = table.get(name)
        wrong = isinstance(value, bool) and kind is not bool
        if value is not None and (wrong or not isinstance(value, kind)):
            raise self.error(key, f"must be {what}, not {value!r}")
        return value


def _torch_versions(header: _Header) -> SpecifierSet:
    dependencies = header.typed(header.table, "dependencies", list, "a list of text") or []
    found = SpecifierSet()
    for text in dependencies:
        try:
            requirement = Requirement(str(text))
        except (InvalidRequirement, InvalidSpecifier) as error:
            why = str(error).partition("\n")[0]
            raise header.error("dependencies", f"{text!r} is no requirement: {why}") from None
        if requirement.name.lower() != "torch":
            raise header.error(
                "dependencies",
                f"{text!r}: a case may need torch and the standard library alone",
                "import anything else where it is there, and raise unittest.SkipTest where not",
            )
        found &= requirement.specifier
    return found


def parse_case(path: Path, source: str) -> Case:
    """Read a case's header.

    Raises:
        CaseError: names the file, the line and the key.
    """
    name = path.stem
    if not NAME.fullmatch(name):
        raise CaseError(
            f"{path}: {name!r} is no name of a case",
            "use lower-case letters, digits and _ and begin with a letter",
        )
    header = _Header(path, source)
    tools = header.typed(header.table, "tool", dict, "a table") or {}
    table = header.typed(tools, "tool.repro", dict, "a table")
    if table is None:
        raise header.error("tool.repro", "the table is missing; a case has at least a title in it")
    for key in table:
        if key not in _KEYS:
            raise header.error(f"tool.repro.{key}", f"unknown key; known: {', '.join(_KEYS)}")
    title = header.typed(table, "tool.repro.title", str, "text")
    if not title or not title.strip():
        raise header.error("tool.repro.title", "is missing; say in a few words what breaks")
    devices = header.typed(table, "tool.repro.devices", list, "a list of text")
    devices = ["cpu"] if devices is None else devices
    if not devices or any(device not in DEVICES for device in devices):
        raise header.error(
            "tool.repro.devices", f"must name one or more of {', '.join(DEVICES)}, not {devices!r}"
        )
    ranks = header.typed(table, "tool.repro.ranks", int, "a whole number")
    ranks = 1 if ranks is None else ranks
    if not 1 <= ranks <= 64:
        raise header.error("tool.repro.ranks", f"must be from 1 to 64, not {ranks}")
    timeout = header.typed(table, "tool.repro.timeout", (int, float), "a number of seconds")  # type: ignore[arg-type]
    timeout = DEFAULT_TIMEOUT if timeout is None else timeout
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise header.error(
            "tool.repro.timeout", f"must be above 0 and at most {LONGEST_TIMEOUT:g} seconds"
        )
    options = header.typed(table, "tool.repro.compile", dict, "a table") or {}
    for key in options:
        if key not in _COMPILE_KEYS:
            raise header.error(
                f"tool.repro.compile.{key}",
                f"is no argument of torch.compile; known: {', '.join(_COMPILE_KEYS)}",
            )
    return Case(
        name=name,
        path=path.resolve(),
        source=source,
        title=title.strip(),
        issue=header.typed(table, "tool.repro.issue", str, "text"),
        devices=tuple(devices),
        ranks=ranks,
        timeout=float(timeout),
        backward=bool(header.typed(table, "tool.repro.backward", bool, "true or false")),
        compile=options,
        torch=_torch_versions(header),
    )


def read_case(path: Path) -> Case:
    """Read the case in a file.

    Raises:
        CaseError: the file cannot be read or its header is wrong.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: byte {error.start} is no UTF-8") from None
    return parse_case(path, source)


def case_folders(given: Iterable[Path], here: Path, installed: Path) -> list[Path]:
    """Where cases are looked for, in order: `./cases`, the given folders, those installed.

    Raises:
        CaseError: a folder that was given is not there.
    """
    folders = [here / "cases"]
    for folder in given:
        if not folder.is_dir():
            raise CaseError(f"{folder}: no such folder", "--cases-dir wants a folder of case files")
        folders.append(folder)
    folders.append(installed)
    unique: dict[Path, None] = {}
    for folder in folders:
        if folder.is_dir():
            unique.setdefault(folder.resolve())
    return list(unique)


def case_files(folders: Sequence[Path]) -> dict[str, Path]:
    """Name -> file of every case in the folders; the first folder that has a name wins."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            if not path.name.startswith("_"):
                found.setdefault(path.stem, path)
    return found


def find_cases(names: Sequence[str], folders: Sequence[Path]) -> list[Case]:
    """The named cases in the order given, every case where none is named.

    A name that ends in `.py` is a path.

    Raises:
        CaseError: no such case, or a header that cannot be read.
    """
    files = case_files(folders)
    if not names:
        if not files:
            raise CaseError(
                "no cases in " + ", ".join(map(str, folders)), "repro new NAME writes one"
            )
        return [read_case(path) for path in files.values()]
    found: dict[Path, Case] = {}
    for name in names:
        if name.endswith(".py"):
            path = Path(name)
        elif name in files:
            path = files[name]
        else:
            raise CaseError(f"no case {name!r}", f"known: {', '.join(sorted(files)) or 'none'}")
        case = read_case(path)
        found.setdefault(case.path, case)
    return list(found.values())
