"""The environments that are on disk: looked at, and removed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs

from repro.bytecode import Kept
from repro.disk import Content, content_of, together
from repro.errors import ReproError
from repro.inventory import Removed, Stored
from repro.locks import try_exclusive

RECORD, FILES = "repro.json", "files.json"
SCHEMA = 1


def cache_folder() -> Path:
    """Where environments are kept: `REPRO_CACHE_DIR`, else the user's cache folder."""
    chosen = os.environ.get("REPRO_CACHE_DIR")
    return (
        Path(chosen).expanduser().absolute()
        if chosen
        else platformdirs.user_cache_path("torch-compile-repro")
    )


def record_of(folder: Path) -> dict[str, Any] | None:
    """What was written down about an environment, None where that is not ours or damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        texts = (record["version"], record["git_version"] or "", record["python"])
        complete = record["schema"] == SCHEMA and all(isinstance(text, str) for text in texts)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if complete else None


def _owner(leftover: Path) -> str:
    """The environment that `Environments.aside` named a folder for."""
    return leftover.name[1:].rpartition(".")[0]


def _erase(path: Path) -> None:
    """Remove a folder; of a link to one, as of an environment on another disk, the link."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


class Environments:
    """The environments below one folder, with their locks and kept bytecode.

    Args:
        root: the folder; it need not be there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "environments"
        self._walked: dict[tuple[Path, int, int], Content] = {}

    def lock(self, name: str) -> Path:
        """The lock of an environment: shared by who uses it; its time is that of the last use."""
        return self.root / "locks" / f"{name}.lock"

    def making(self, name: str) -> Path:
        """The lock of who makes or removes an environment; taken before the other one."""
        return self.root / "locks" / f"{name}.making"

    @contextmanager
    def _alone(self, name: str) -> Iterator[bool]:
        """Whether nobody makes or uses an environment; if so, nobody begins to meanwhile."""
        with (
            try_exclusive(self.making(name)) as making,
            try_exclusive(self.lock(name)) as using,
        ):
            yield making is not None and using is not None

    @property
    def _bytecode(self) -> Path:
        return self.root / "bytecode"

    def bytecode(self, interpreter: str, tag: str) -> Kept:
        """Where the bytecode for a Python is kept, each file also named in who uses it."""
        return Kept(self._bytecode / interpreter, self.lock(f"bytecode-{interpreter}"), tag)

    def aside(self, name: str) -> Path:
        """A place next to an environment in which it can be made or removed unseen."""
        return self.folder / f".{name}.{uuid.uuid4().hex[:8]}"

    def discard(self, folder: Path) -> None:
        """Remove a folder at once for everybody who looks, however long it takes."""
        aside = self.aside(folder.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        os.rename(folder, aside)
        _erase(aside)

    def clear(self, name: str) -> None:
        """Remove what a killed process left of one environment; its lock is held."""
        for leftover in self._leftovers():
            if _owner(leftover) == name:
                _erase(leftover)

    def sweep(self) -> None:
        """Remove what killed processes left, of every environment that nobody is working on."""
        for name in {_owner(path) for path in self._leftovers()}:
            with try_exclusive(self.making(name)) as descriptor:
                if descriptor is not None:
                    self.clear(name)

    def _leftovers(self) -> list[Path]:
        """What `aside` named and is still there, of dead and of living processes."""
        return [path for path in self.folder.glob(".*.*") if path.is_dir()]

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("[!.]*") if path.is_dir())

    def _used(self, name: str) -> datetime:
        """When an environment was last used."""
        try:
            return datetime.fromtimestamp(self.lock(name).stat().st_mtime, UTC)
        except FileNotFoundError:
            return datetime.fromtimestamp(0, UTC)

    def all(self) -> list[Stored]:
        """What is there, the last used first."""
        found = []
        kept = content_of(self._bytecode)
        for folder in self._folders():
            record = record_of(folder) or {}
            used = self._used(folder.name)  # before the lock is opened, which makes it
            with self._alone(folder.name) as alone:
                in_use = not alone
            content = content_of(folder)
            found.append(
                Stored(
                    name=folder.name,
                    version=record.get("version"),
                    variant=record.get("variant"),
                    git_version=record.get("git_version"),
                    triton=record.get("triton"),
                    python=record.get("python"),
                    used=used,
                    in_use=in_use,
                    size=content.size,
                    frees=content.frees(kept),
                )
            )
        return sorted(found, key=lambda stored: stored.used, reverse=True)

    def size(self) -> int:
        """Bytes that environments and bytecode take, what they share counted once."""
        return together(self._contents().values())

    def _contents(self) -> dict[Path, Content]:
        """What lies in each environment, and what bytecode is kept.

        An environment stays as it was made, so each is walked through once: its tens of thousands
        of files took longer to look at, at each installation, than the installation itself.
        """
        contents = {self._bytecode: content_of(self._bytecode)}
        for path in self._folders():
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                seen = path.stat()
                made = path, seen.st_ino, seen.st_mtime_ns  # made anew, it may get its number again
                if made not in self._walked:
                    self._walked[made] = content_of(path)
                contents[path] = self._walked[made]
        return contents

    def remove(self, name: str) -> Removed:
        """Remove an environment, and kept bytecode that none has any more.

        Raises:
            ReproError: there is none of that name, or somebody uses it.
        """
        folder = self.folder / name
        if folder not in self._folders():
            raise ReproError(f"{name}: no such environment", "`repro env list` shows what is there")
        frees = self._frees(folder)
        if not self._removed(folder):
            raise ReproError(f"{name}: another repro is using it", "wait for its end")
        self._drop_bytecode()
        return Removed(name, frees)

    def _frees(self, folder: Path) -> int:
        """Bytes that are free once an environment and the bytecode that only it has are gone."""
        return content_of(folder).frees(content_of(self._bytecode))

    def _removed(self, folder: Path) -> bool:
        """Whether an environment could be removed: nobody used it."""
        with self._alone(folder.name) as alone:
            if alone and folder.exists():
                self.discard(folder)
            return alone

    def _drop_bytecode(self) -> bool:
        """Remove kept bytecode that no environment has; whether there was any.

        That is what has no other name, so on a disk without hard links it is all. Nobody waits for
        it: who finds it gone compiles it.
        """
        dropped = False
        for parent, _, names in os.walk(self._bytecode, topdown=False):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    if os.lstat(f"{parent}/{name}").st_nlink == 1:
                        os.unlink(f"{parent}/{name}")
                        dropped = True
            with contextlib.suppress(OSError):  # it is not empty, or somebody has removed it
                os.rmdir(parent)
        return dropped

    def prune(self, max_size: int | None) -> list[Removed]:
        """Remove leftovers, what no version of us can use, and the least recently used.

        Args:
            max_size: bytes that may stay; None for all.
        """
        self.sweep()
        gone = []
        for folder in self._folders():
            if record_of(folder) is None:
                frees = self._frees(folder)
                if self._removed(folder):
                    gone.append(Removed(folder.name, frees))
        self._drop_bytecode()
        return gone + ([] if max_size is None else list(self.evict(max_size)))

    def evict(self, limit: int, but: str = "") -> Iterator[Removed]:
        """Remove the least recently used until the rest is within the limit.

        Bytecode that no environment has goes before any environment.
        """
        contents = self._contents()
        tried: set[Path] = set()
        while together(contents.values()) > limit:
            if self._drop_bytecode():
                contents[self._bytecode] = content_of(self._bytecode)
                continue
            used = sorted(self._folders(), key=lambda folder: self._used(folder.name))
            left = [path for path in used if path.name != but and path not in tried]
            if not left:
                return
            tried.add(left[0])
            # Looked at anew: what went before may have had the other names of its files.
            frees = self._frees(left[0])
            if self._removed(left[0]):
                contents.pop(left[0], None)  # or it came after the look at all of them
                yield Removed(left[0].name, frees)
