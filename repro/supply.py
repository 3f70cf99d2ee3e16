"""From a spec to an environment: the index, the reader of wheels, the installer and the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from repro.builds import Build, Choice, Spec, without_credentials
from repro.contents import Reader
from repro.environments import Environments
from repro.errors import Unavailable
from repro.gpu import find_driver
from repro.index import Index, fetch_files
from repro.install import Installer
from repro.interpreters import find_interpreter
from repro.resolve import Variants, resolve
from repro.sources import Sources
from repro.store import Environment, Store
from repro.variants import variants_for
from repro.web import Web


@dataclass(frozen=True)
class Settings:
    """What a user can choose about builds.

    Args:
        folder: of environments, kept pages and bytecode.
        sources: the indexes that were named.
        variant: `cpu`, `cu130`, ...; `auto` is what this machine's GPU can run.
        python: the interpreter of environments, a version or a path; None is that of `repro`.
        max_size: bytes that environments may take; None for no limit.
    """

    folder: Path
    sources: Sources
    variant: str = "auto"
    python: str | None = None
    max_size: int | None = None

    @property
    def variants(self) -> Variants:
        """The variants to look for, the best first."""
        if self.variant != "auto":
            return Variants((self.variant,), chosen=True)
        return Variants(variants_for(find_driver()))

    @property
    def nightly_index(self) -> str:
        """The index of nightlies that is looked into first."""
        return self.sources.nightly(self.variants.names[0])

    def web(self) -> Web:
        """How the network is asked."""
        # The name changes with `repro.index.File`, which is what is kept there.
        return Web(self.folder / "pages")


class Supply:
    """Turns specs into builds and builds into environments.

    Args:
        say: is told what the user must know, and which must not pass by like a progress line.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self.say = say
        self.interpreter = find_interpreter(settings.python)
        self._web = web = settings.web()
        self.index = Index(web, settings.sources, self.interpreter, say)
        self.reader = Reader(web, settings.folder / "wheels")
        self.variants = settings.variants
        self.store = Store(
            Environments(settings.folder),
            self.interpreter,
            Installer(self.index, self.reader),
            settings.max_size,
        )

    def resolve(self, spec: Spec) -> Choice:
        """The build that a spec means; see `repro.resolve.resolve`."""
        choice = resolve(spec, self.index, self.variants, self.say)
        if choice.note is not None:
            self.say(choice.note)
        return choice

    def size(self, build: Build) -> int | None:
        """Bytes of a build's wheel, None where they cannot be told."""
        if build.url.startswith("file:"):
            return None
        try:
            return self._web.size(build.url)
        except Unavailable:
            return None

    def use(
        self, build: Build, narrate: Callable[[str], None]
    ) -> AbstractContextManager[Environment]:
        """The environment of a build, which nobody removes while the context lasts."""
        return self.store.use(build, narrate)


def described(settings: Settings, index: str) -> str:
    """An index in a line, with what it has of torch, asked anew.

    Raises:
        Unavailable: it cannot be asked.
    """
    said: list[str] = []
    files = fetch_files(settings.web(), f"{index}/torch/", "torch", said.append)
    if said:  # a page that was kept does not tell that the index is there
        raise Unavailable("; ".join(said), "look at the network, the proxy and the index settings")
    return f"{without_credentials(index)}, {len(files)} files of torch"
