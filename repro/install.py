"""Fills an environment with exactly the build that was asked for.

torch and its triton are named by the address or hash of their wheels, so that no resolver chooses
them and no other index can slip in a package of the same name; everything else comes from the
default index.
What came out is then compared with what was asked for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from repro import uv
from repro.builds import Build, Origin, same_file, version_and_commit, without_credentials
from repro.contents import TRITONS, Contents, Reader, requires_of, triton_of
from repro.errors import Unavailable
from repro.index import Index
from repro.integrity import site_packages
from repro.store import Installed
from repro.web import Unreachable

# What torch needs to compile and does not always declare: inductor imports setuptools when it
# builds C++ (up to 2.9), and numpy is wanted by many paths. Without them an environment made by
# uv would fail in a way that says nothing about the build.
COMPANIONS = ("setuptools", "numpy")


class _Changed(Unavailable):
    """The wheel at an address is not the one that was there before."""


class Installer:
    """Makes environments with uv.

    Args:
        index: where triton is looked up.
        reader: tells what a wheel says about itself before it is downloaded.
    """

    def __init__(self, index: Index, reader: Reader) -> None:
        self._index = index
        self._reader = reader

    def __call__(
        self,
        build: Build,
        folder: Path,
        holding: Sequence[int],
        narrate: Callable[[str], None],
        fresh: bool = False,
    ) -> Installed:
        """Make a virtual environment at `folder` that holds the build.

        Args:
            holding: descriptors of locks, which uv keeps open as long as it runs.
            fresh: take nothing from uv's cache.

        Raises:
            Unavailable: it cannot be had, or what came is not what was asked for.
        """
        narrate(f"installing torch {build.version}")
        try:
            return self._fill(build, folder, holding, fresh)
        except _Changed as error:
            # What was read of it, or what uv has of it, is of a wheel that was there before.
            narrate(f"{error}; it is fetched anew")
            self._reader.forget(build)
            shutil.rmtree(folder)
            return self._fill(build, folder, holding, fresh=True)

    def _fill(self, build: Build, folder: Path, holding: Sequence[int], fresh: bool) -> Installed:
        # None where the server gives no parts of files: then it is seen after the download.
        expected = self._reader.read(build)
        if expected is not None:
            _check_version(build, expected.version)

        def call(*arguments: str | Path) -> None:
            try:
                uv.call(arguments, folder.parent, holding=holding)
            except Unavailable as error:
                if build.filename in str(error):
                    raise
                raise Unavailable(f"{build.filename}: {error}", error.hint, error.log) from error

        call("venv", "--quiet", "--relocatable", "--python", self._index.interpreter.executable,
             folder)  # fmt: skip
        install: list[str | Path] = ["pip", "install", "--python", folder / "bin" / "python"]
        if fresh:
            install.append("--no-cache")
        if self._index.sources.index_url is not None:
            install += ["--default-index", self._index.sources.default]
        torch = _requirement(build)
        if expected is None:
            call(*install, "--no-deps", "-r", _listed(folder, [torch]))
            requires = requires_of((_dist_info(folder, build) / "METADATA").read_bytes())
        else:
            requires = expected.requires
        wanted = triton_of(requires, self._index.interpreter)
        wheels = [torch]
        triton = None
        if wanted is not None and build.origin is not Origin.DEFAULT:
            triton = self._triton(build, wanted)
            wheels.append(f"{wanted.name} @ {triton.url}")
        call(*install, "-r", _listed(folder, [*wheels, *COMPANIONS]))
        return _checked(folder, build, expected, wanted, triton)

    def _triton(self, build: Build, wanted: Requirement) -> Build:
        """The wheel of the pinned triton, from the PyTorch index alone."""
        variant = build.shelf or build.variant or "cpu"
        pages = (
            (self._index.nightlies, self._index.releases)
            if build.is_nightly
            else (self._index.releases, self._index.nightlies)
        )
        faults: list[Unavailable] = []
        for page in pages:
            try:
                listing = page(variant, canonicalize_name(wanted.name))
            except Unavailable as error:
                faults.append(error)
                continue
            # A pin may name a withdrawn one: installers take those for an exact version too.
            fitting = [
                found
                for found in (*listing.builds, *listing.withdrawn)
                if wanted.specifier.contains(found.version, prereleases=True)
            ]
            if fitting:
                # Local versions (+git…) do not sort by age; a pin names one, or the one without.
                return max(fitting, key=lambda found: (found.version.local is None, found.version))
        unreachable = [fault for fault in faults if isinstance(fault, Unreachable)]
        if unreachable:
            raise unreachable[0]
        raise Unavailable(
            f"{build.filename}: it needs {wanted}, which the PyTorch index does not list",
            "name another build",
        )


def _requirement(build: Build) -> str:
    """The wheel as a line of requirements that no other wheel fits.

    One of the default index is named by its hash, so that uv takes it out of its cache where the
    user's own projects have put it; others by their address.
    """
    if build.origin is Origin.DEFAULT and build.sha256:
        return f"torch=={build.version} --hash=sha256:{build.sha256}"
    return f"torch @ {build.url}" + (f"#sha256={build.sha256}" if build.sha256 else "")


def _listed(folder: Path, requirements: Sequence[str]) -> Path:
    """A file of requirements; hashes can be given in one alone."""
    path = folder / "requirements.txt"
    path.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    return path


def _dist_info(folder: Path, build: Build) -> Path:
    found = sorted(site_packages(folder).glob("torch-*.dist-info"))
    if not found:
        raise Unavailable(f"{build.filename}: the install brought no torch", "see the log")
    return found[0]


def _check_version(build: Build, inside: str) -> None:
    """Compare what the wheel says inside with its name.

    A name without a local version may hold one with it: the default index allows none in names.
    """
    found = Version(inside)
    same = found == build.version
    if build.version.local is None:
        same = same or Version(found.public) == build.version
    if not same:
        raise Unavailable(
            f"{build.filename}: torch/version.py inside says {inside}",
            "this is a fault of the index; name another build",
        )


def _checked(
    folder: Path,
    build: Build,
    expected: Contents | None,
    wanted: Requirement | None,
    triton: Build | None,
) -> Installed:
    """Compare what is there with what was asked for."""
    site = site_packages(folder)
    version_file = site / "torch" / "version.py"
    try:
        version, commit = version_and_commit(version_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Unavailable(
            f"{build.filename}: the install brought no torch", "see the log"
        ) from None
    except ValueError as error:
        raise Unavailable(f"{build.filename}: torch/version.py: {error}", "name another") from error
    _check_version(build, version)
    if expected is not None and expected.git_version != commit:
        raise _Changed(
            f"{build.filename}: it said commit {expected.git_version}, {commit} was installed",
            "the index changed meanwhile; run it again",
        )
    installed: dict[str, Distribution] = {
        canonicalize_name(found.metadata["Name"]): found
        for found in distributions(path=[str(site)])
    }
    if "--hash=" not in _requirement(build):  # else uv has compared what tells more
        _check_source(installed, "torch", build)
    tritons = sorted(TRITONS & installed.keys())
    if wanted is None:
        return Installed(version, commit, None)
    name: str = canonicalize_name(wanted.name)
    if tritons != [name] or not wanted.specifier.contains(installed[name].version, True):
        there = ", ".join(f"{other} {installed[other].version}" for other in tritons) or "none"
        raise Unavailable(
            f"{build.filename}: it needs {wanted}; installed is {there}", "name another build"
        )
    if triton is not None:
        _check_source(installed, name, triton)
    return Installed(version, commit, f"{name} {installed[name].version}")


def _check_source(installed: dict[str, Distribution], name: str, wheel: Build) -> None:
    """Compare the address that the installer wrote down with the one that was asked for."""
    text = installed[name].read_text("direct_url.json") if name in installed else None
    came = json.loads(text)["url"] if text else "an index"
    if not same_file(came, wheel.url):
        raise Unavailable(
            f"{name} came from {without_credentials(came)} instead of "
            f"{without_credentials(wheel.url)}",
            "this is a fault of the installer; name another build",
        )
