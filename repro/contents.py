"""What a torch wheel says about itself, read out of it without downloading it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import unquote, urlsplit

from packaging.markers import default_environment
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from repro.builds import Build, version_and_commit
from repro.errors import Unavailable
from repro.interpreters import Interpreter
from repro.web import Web, fault_of, twice

# torch's own names for the compiler of its GPU kernels, over the years and variants.
TRITONS = frozenset(
    prefix + suffix
    for prefix in ("triton", "pytorch-triton", "torchtriton")
    for suffix in ("", "-rocm", "-xpu")
)


@dataclass(frozen=True)
class Contents:
    """What is in a wheel.

    Args:
        version: as `torch/version.py` says.
        git_version: the commit it was built from; None where it tells none.
        requires: its Requires-Dist.
    """

    version: str
    git_version: str | None
    requires: tuple[str, ...]

    def triton(self, interpreter: Interpreter) -> Requirement | None:
        """What it asks for as triton on this platform, None where it needs none."""
        return triton_of(self.requires, interpreter)


def triton_of(requires: Sequence[str], interpreter: Interpreter) -> Requirement | None:
    """The triton among requirements, for an interpreter on this platform."""
    where: dict[str, str] = {name: str(value) for name, value in default_environment().items()}
    where["python_version"] = "{}.{}".format(*interpreter.version)
    where["python_full_version"] = interpreter.full
    where["extra"] = ""
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # an installer will say what it makes of it
        applies = requirement.marker is None or requirement.marker.evaluate(where)
        if applies and canonicalize_name(requirement.name) in TRITONS:
            return requirement
    return None


def requires_of(metadata: bytes) -> tuple[str, ...]:
    """The Requires-Dist of a METADATA."""
    return tuple(parse_email(metadata)[0].get("requires_dist", []))


class _Archive(Protocol):
    def namelist(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...


def _contents_of(archive: _Archive, name: str) -> Contents:
    files = archive.namelist()
    metadata = [file for file in files if re.fullmatch(r"torch-[^/]+\.dist-info/METADATA", file)]
    if "torch/version.py" not in files or len(metadata) != 1:
        raise Unavailable(f"{name}: no torch is in this wheel", "name another build")
    try:
        version, commit = version_and_commit(archive.read("torch/version.py").decode())
    except ValueError as error:
        raise Unavailable(f"{name}: torch/version.py: {error}", "name another build") from error
    about = archive.read(metadata[0])
    stated = parse_email(about)[0].get("version", "")
    # The installer compares it with the file name too, but only after it has fetched all of it.
    if stated != metadata[0].removeprefix("torch-").partition(".dist-info")[0]:
        raise Unavailable(
            f"{name}: its METADATA says version {stated}",
            "this is a fault of the index; name another build",
        )
    return Contents(version, commit, requires_of(about))


class Reader:
    """Reads wheels, and keeps what it read: a wheel at an address hardly ever changes.

    Args:
        folder: where it is kept.
    """

    def __init__(self, web: Web, folder: Path) -> None:
        self._web = web
        self._folder = folder

    def read(self, build: Build) -> Contents | None:
        """What a wheel says; None where the server gives no parts of files.

        Raises:
            Unavailable: the wheel cannot be had, or is none.
        """
        if build.url.startswith("file:"):
            path = Path(unquote(urlsplit(build.url).path))
            with path.open("rb") as file:
                return self._parsed(file, build.filename)
        return self._known(build) or twice(lambda: self._fetched(build))

    def forget(self, build: Build) -> None:
        """Read a wheel anew the next time: it is not what it was."""
        self._file(build).unlink(missing_ok=True)

    def _parsed(self, file: IO[bytes], name: str) -> Contents:
        try:
            with zipfile.ZipFile(file) as archive:
                return _contents_of(archive, name)
        except zipfile.BadZipFile as error:
            raise Unavailable(f"{name}: damaged: {error}", "name another build") from error

    def _fetched(self, build: Build) -> Contents | None:
        from remotezip import RangeNotSupported, RemoteIOError, RemoteZip, RemoteZipError
        from requests import RequestException
        from urllib3.exceptions import HTTPError

        try:
            with RemoteZip(
                build.url, session=self._web.session, timeout=self._web.timeout
            ) as archive:
                contents = _contents_of(archive, build.filename)
        except RangeNotSupported:
            return None
        except RemoteIOError as error:
            # It holds the text alone; what it was raised from tells more.
            raise fault_of(error.__context__ or error, build.filename) from error
        except (RequestException, HTTPError) as error:
            raise fault_of(error, build.filename) from error
        except (RemoteZipError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise Unavailable(
                f"{build.filename}: damaged: {error}", "name another build"
            ) from error
        self._keep(build, contents)
        return contents

    def _file(self, build: Build) -> Path:
        key = sha256(build.identity.encode()).hexdigest()[:24]
        return self._folder / f"{key}.json"

    def _known(self, build: Build) -> Contents | None:
        try:
            stored = json.loads(self._file(build).read_text(encoding="utf-8"))
            Version(stored["version"])
            if not all(isinstance(text, str) for text in stored["requires"]):
                return None
            return Contents(stored["version"], stored["git_version"], tuple(stored["requires"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep(self, build: Build, contents: Contents) -> None:
        path = self._file(build)
        aside = path.with_suffix(f".{os.getpid()}")
        # On a full disk it is read again the next time.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(asdict(contents)), encoding="utf-8")
            os.replace(aside, path)
