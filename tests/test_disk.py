"""Sizes as people write them, and folders as the disk sees them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repro import disk
from repro.disk import content_of, parse_size, together
from repro.errors import ReproError

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("40 GB", 40 * 10**9),
        ("40GB", 40 * 10**9),
        ("  500mb\n", 500 * 10**6),
        ("1.5TB", 1_500_000_000_000),
        ("1000", 1000),
        ("0", 0),
        ("0.5 kB", 500),
        ("12 b", 12),
        ("007KB", 7000),
        ("999999999999999", 999_999_999_999_999),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@given(
    whole=st.integers(0, 99_999),
    decimals=st.none() | st.from_regex(r"[0-9]{1,9}", fullmatch=True, alphabet="0123456789"),
    unit=st.sampled_from([*UNITS]),
    data=st.data(),
)
def test_every_unit_in_every_spelling(whole, decimals, unit, data):
    number = f"{whole}" if decimals is None else f"{whole}.{decimals}"
    upper = data.draw(st.lists(st.booleans(), min_size=len(unit), max_size=len(unit)))
    spelt = "".join(c.upper() if up else c for c, up in zip(unit, upper, strict=True))
    before, between, behind = (data.draw(st.sampled_from(["", " ", "   "])) for _ in range(3))
    size = parse_size(f"{before}{number}{between}{spelt}{behind}")
    # Half a byte for rounding, and what a float of that size cannot tell.
    exact = Fraction(number) * UNITS[unit]
    assert isinstance(size, int)
    assert abs(size - exact) <= Fraction(1, 2) + exact / 10**15


@given(
    st.text()
    | st.text(
        alphabet="0123456789.,+-_ eExXkKmMgGtTbBiInNaAfF\n\u0664\u00b2\uff14\u212a", max_size=9
    )
)
@example("nan")
@example("inf")
@example("infGB")
@example("-1GB")
@example("1e300")
@example("\u0664\u0660GB")
@example("\uff14\uff10GB")
def test_what_is_no_size_is_refused_with_a_hint_and_never_half_understood(text):
    try:
        size = parse_size(text)
    except ReproError as error:
        refused = error
    else:
        word = text.strip()
        assert size >= 0
        assert word.isascii()
        assert word[0].isdigit()
        assert set(word.lower()) <= set("0123456789. \t\n\r\v\fkmgtb")
        return
    assert repr(text) in str(refused)
    assert "40GB" in refused.hint


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "GB", "nan", "NaN GB", "inf", "Infinity", "-1", "+1", "1e3", "1_000", "0x10"),
        *(
            "1,5GB",
            "1.",
            ".5",
            "1.2.3",
            "40 GB GB",
            "40KiB",
            "40 gibibytes",
            "1 K",
            "1\0",
            "9" * 16,
        ),
        # Arabic and fullwidth digits, a superscript, the Kelvin sign, a blank within.
        *("\u0664\u0660GB", "\uff14\uff10GB", "\u00b2", "1\u212aB", "4\u00a00GB", "1.0000000000"),
    ],
)
def test_garbage(text):
    with pytest.raises(ReproError, match="is no size") as caught:
        parse_size(text)
    assert caught.value.hint == "write it as 40GB, 500MB or 1.5TB"


# --- folders ------------------------------------------------------------------------------------


def used(*folders: Path) -> int:
    """What the disk has below folders, asked in another way."""
    found = {}
    for folder in folders:
        for parent, below, files in os.walk(folder):
            for name in (*below, *files):
                stat = os.lstat(os.path.join(parent, name))
                found[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(found.values())


def put(path: Path, size: int = 20_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def on_disk(path: Path) -> int:
    return os.lstat(path).st_blocks * 512


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder"


def test_a_folder_that_is_not_there_or_is_a_file(folder, tmp_path):
    for path in (folder, put(tmp_path / "file")):
        content = content_of(path)
        assert (content.size, content.frees(), dict(content.files)) == (0, 0, {})


def test_files_count_as_the_disk_has_them(folder):
    paths = [put(folder / name, size) for name, size in (("a", 20_000), ("b/c", 1), ("b/d/e", 0))]
    content = content_of(folder)
    folders = [folder / "b", folder / "b" / "d"]
    assert content.size == content.frees() == sum(map(on_disk, [*paths, *folders])) == used(folder)
    assert content.size >= 20_001


def test_a_sparse_file_takes_what_it_has(folder):
    path = put(folder / "sparse", 1)
    os.truncate(path, 10**9)
    assert content_of(folder).size == on_disk(path) < 10**8


def test_two_names_in_one_folder_are_one_file(folder):
    path = put(folder / "a")
    os.link(path, folder / "b")
    content = content_of(folder)
    assert content.size == content.frees() == on_disk(path)


def test_what_another_folder_links_is_freed_by_neither_alone(folder, tmp_path):
    path = put(folder / "a")
    own = put(folder / "own", 50_000)
    other = tmp_path / "other"
    other.mkdir()
    os.link(path, other / "a")
    first, second = content_of(folder), content_of(other)
    assert first.size == on_disk(path) + on_disk(own)
    assert first.frees() == on_disk(own)
    assert (second.size, second.frees()) == (on_disk(path), 0)
    assert together([first, second]) == first.size
    assert first.frees(second) == first.size
    assert second.frees(first) == on_disk(path)


def test_what_a_third_place_links_is_not_freed_by_both(folder, tmp_path):
    path = put(folder / "a")
    other = tmp_path / "other"
    other.mkdir()
    os.link(path, other / "a")
    os.link(path, tmp_path / "cache")
    assert content_of(folder).frees(content_of(other)) == 0
    os.unlink(tmp_path / "cache")
    assert content_of(folder).frees(content_of(other)) == on_disk(path)


def test_symbolic_links_are_not_followed(folder, tmp_path):
    far = put(tmp_path / "far" / "big", 500_000)
    folder.mkdir()
    (folder / "file").symlink_to(far)
    (folder / "folder").symlink_to(far.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "nowhere").symlink_to("nowhere at all")
    content = content_of(folder)
    assert len(content.files) == 4
    assert content.size == used(folder) < 500_000


@pytest.mark.parametrize("gone", ["file", "sub"])
def test_what_vanishes_meanwhile_is_left_out(gone, folder, monkeypatch):
    kept = [put(folder / "a"), put(folder / "z")]
    put(folder / "file")
    put(folder / "sub" / "below")
    real = disk._entries

    def vanishing(path: str) -> Iterator[os.DirEntry[str]]:
        for entry in real(path):
            if entry.name == gone:
                shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
            yield entry

    monkeypatch.setattr(disk, "_entries", vanishing)
    content = content_of(folder)
    assert not (folder / gone).exists()
    assert content.size == used(folder)
    assert content.size >= sum(map(on_disk, kept))


def test_nothing_together_is_nothing():
    assert together([]) == 0


PLACES = ("one", "one/sub", "one/sub/deep", "two", "two/sub", "three", "elsewhere")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30_000),
            st.lists(st.sampled_from(PLACES), min_size=1, max_size=4),
        ),
        max_size=6,
    )
)
def test_what_removal_frees_is_what_the_disk_has_more_afterwards(layout):
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        for place in PLACES:
            (root / place).mkdir(exist_ok=True, parents=True)
        for number, (size, places) in enumerate(layout):
            first = put(root / places[0] / f"{number}-0", size)
            for name, place in enumerate(places[1:], 1):
                os.link(first, root / place / f"{number}-{name}")
        contents = {name: content_of(root / name) for name in ("one", "two", "three")}
        for name, content in contents.items():
            assert content.size == used(root / name)
        assert together(contents.values()) == used(*(root / name for name in contents))
        first, second = contents["one"], contents["two"]
        before = used(root)
        for child in (root / "one").iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        assert before - used(root) == first.frees()
        for child in (root / "two").iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        assert before - used(root) == first.frees(second) + sum(
            file.size
            for inode, file in second.files.items()
            if inode not in first.files and second.names[inode] == file.links
        )
