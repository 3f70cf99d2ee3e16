"""Environments on disk, each with exactly one build: whole or absent, checked before use."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from repro import integrity
from repro.builds import Build, version_and_commit, without_credentials
from repro.bytecode import compile_all
from repro.environments import FILES, RECORD, SCHEMA, Environments, record_of
from repro.errors import Unavailable
from repro.interpreters import Interpreter
from repro.locks import exclusive, shared

DEFAULT_MAX_SIZE = 40 * 10**9
Narrate = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A Python that has the build in it.

    Args:
        python: its executable.
        version: the torch that is in it, as its `torch/version.py` says; None for an interpreter
            that is not ours and was not looked into.
        git_version: the commit it was built from.
    """

    python: Path
    version: str | None = None
    git_version: str | None = None


@dataclass(frozen=True)
class Installed:
    """What an installer brought.

    Args:
        version, git_version: as `torch/version.py` says.
        triton: its name and version, None where the build needs none.
    """

    version: str
    git_version: str | None
    triton: str | None


class Installer(Protocol):
    """Makes a virtual environment in a folder that is not there yet, with the build in it."""

    def __call__(
        self,
        build: Build,
        folder: Path,
        holding: Sequence[int],
        narrate: Narrate,
        fresh: bool = False,
    ) -> Installed:
        """See `repro.install.Installer`, which is the one in use."""


class Store:
    """The environments below one folder.

    Args:
        environments: what is there; its folder is made when it is first needed.
        interpreter: what new environments are made of.
        max_size: bytes that environments may take; None for no limit.

    Attributes:
        installs: how many environments it has made.
    """

    def __init__(
        self,
        environments: Environments,
        interpreter: Interpreter,
        install: Installer,
        max_size: int | None = DEFAULT_MAX_SIZE,
    ) -> None:
        self.environments = environments
        self._interpreter = interpreter
        self._install = install
        self._max_size = max_size
        self.installs = 0

    def folder(self, build: Build) -> Path:
        """Where the environment of a build is, or will be."""
        return self.environments.folder / _name(build, self._interpreter)

    @contextmanager
    def use(self, build: Build, narrate: Narrate = lambda line: None) -> Iterator[Environment]:
        """The environment of a build, made now where it is not there; nobody removes it meanwhile.

        Raises:
            Unavailable: it could not be made, with the sentence that says why.
        """
        with ExitStack() as held:
            try:
                environment = self._held(build, held, narrate)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                raise Unavailable(
                    f"{error.filename or self.environments.root}: {error.strerror or error}",
                    f"{'make room' if full else 'look at it'}, or point REPRO_CACHE_DIR at a "
                    "folder of yours",
                    str(error),
                ) from error
            yield environment

    def _held(self, build: Build, held: ExitStack, narrate: Narrate) -> Environment:
        folder = self.folder(build)

        def waiting() -> None:
            narrate(f"waiting for another repro that installs torch {build.version}")

        self.environments.sweep()
        if found := self._shared(folder, held):
            return found
        # One makes it; who waited for that looks again. Who makes and who uses have a lock each:
        # with one, all who wait to make it would wait for the end of each other's use of it.
        with exclusive(self.environments.making(folder.name), waiting) as descriptor:
            found = self._shared(folder, held)
            if found is None:
                self._make(build, descriptor, narrate)
                # Removing it takes the lock that is held here, so it is as it was just made.
                found = self._shared(folder, held, trusted=True)
        if found is None:
            raise Unavailable(f"{folder}: it vanished while it was made", "run it again")
        return found

    def _shared(self, folder: Path, held: ExitStack, trusted: bool = False) -> Environment | None:
        """The finished environment of a folder, which nobody removes while it is held."""
        lock = self.environments.lock(folder.name)
        with ExitStack() as sharing:
            sharing.enter_context(shared(lock))
            record = record_of(folder)
            if record is None or not (trusted or _whole(folder)):
                return None
            with contextlib.suppress(OSError):  # a store that may only be read is used all the same
                os.utime(lock)  # its time is that of the last use
            held.push(sharing.pop_all())
            python = folder / "bin" / "python"
            return Environment(python, record["version"], record["git_version"])

    def _make(self, build: Build, descriptor: int, narrate: Narrate) -> None:
        """Make it aside and rename it, so that it appears whole or not at all."""
        final = self.folder(build)
        self.environments.folder.mkdir(parents=True, exist_ok=True)
        self.environments.clear(final.name)
        suspects: frozenset[str] = frozenset()
        # Also a link that leads nowhere any more, over which nothing can be renamed.
        if os.path.lexists(final):
            suspects = integrity.changed(final, final / FILES)
            narrate(f"the environment of torch {build.version} was changed; it is made anew")
        aside = self.environments.aside(final.name)
        try:
            installed = self._install(build, aside, [descriptor], narrate)
            if damaged := integrity.damaged(aside, suspects):
                # uv links files from its cache: who edits one in place edits the cache too.
                narrate(
                    f"uv's cache has {', '.join(damaged)} as it was changed; it is fetched anew "
                    f"(`uv cache clean {' '.join(damaged)}` mends the cache)"
                )
                shutil.rmtree(aside)
                installed = self._install(build, aside, [descriptor], narrate, fresh=True)
            self._finish(build, aside, installed, descriptor)
            # A broken one stays until the new one is checked: a kill before that, and the next run
            # still sees what was changed, and with it what to distrust in uv's cache.
            if os.path.lexists(final):
                self._discard(final, build, narrate)
            os.rename(aside, final)
            self.installs += 1
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if self._max_size is not None:
            for removed in self.environments.evict(self._max_size, but=final.name):
                narrate(f"removed {removed.name}, which was not used for longest")

    def _discard(self, final: Path, build: Build, narrate: Narrate) -> None:
        """Remove a broken environment, once nobody uses it any more."""

        def waiting() -> None:
            narrate(f"waiting for another repro that uses torch {build.version}")

        with exclusive(self.environments.lock(final.name), waiting):
            self.environments.discard(final)

    def _finish(self, build: Build, aside: Path, installed: Installed, descriptor: int) -> None:
        """Compile its bytecode, and write down what it is."""
        compile_all(
            aside / "bin" / "python",
            integrity.site_packages(aside),
            self.environments.bytecode(self._interpreter.name, self._interpreter.cache_tag),
            [descriptor],
        )
        record = asdict(installed) | {
            "schema": SCHEMA,
            "variant": build.variant,
            "url": without_credentials(build.url),
            "python": self._interpreter.full,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        integrity.write_down(aside, aside / FILES)
        (aside / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _whole(folder: Path) -> bool:
    """Whether an environment is as it was made, and its record is of it."""
    if integrity.changed(folder, folder / FILES):
        return False
    record = record_of(folder)
    try:
        path = integrity.site_packages(folder) / "torch" / "version.py"
        stated = version_and_commit(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, Unavailable):
        return False
    return record is not None and stated == (record["version"], record["git_version"])


def _name(build: Build, interpreter: Interpreter) -> str:
    """The name of a build's environment: another wheel, or another Python, is another one."""
    short = hashlib.sha256(build.identity.encode()).hexdigest()[:8]
    version = re.sub(r"[^\w.+]", "-", str(build.version))
    return f"torch-{version}-{interpreter.name}-{short}"
