"""From a resource and the headers of a request to an answer: validators and ranges. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.nightly_index.content import Content
from tests.nightly_index.shelf import Resource


@dataclass(frozen=True)
class Answer:
    """A status, headers, and the part of a content that is the body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content = field(default_factory=lambda: Content(()))
    start: int = 0
    stop: int = 0

    @property
    def length(self) -> int:
        """Size of the body."""
        return self.stop - self.start


def plain(status: int, text: str, **headers: str) -> Answer:
    """A line of text."""
    body = text.encode()
    kept = {"Content-Type": "text/plain"} | headers
    return Answer(status, kept, Content((body,)), 0, len(body))


def answer(resource: Resource, asked: Mapping[str, str]) -> Answer:
    """The answer to a GET; for a HEAD it is the same without the body."""
    options, content = resource.options, resource.content
    headers = {"Content-Type": resource.kind}
    if resource.page:
        headers["Vary"] = "Accept"
        if options.cache_control is not None:
            headers["Cache-Control"] = options.cache_control
    tag = f'"{content.tag}"'
    if options.validators:
        headers["ETag"] = tag
        known = [word.strip().removeprefix("W/") for word in asked["If-None-Match"].split(",")]
        if tag in known or "*" in known:
            return Answer(304, headers)
    if options.ranges and not resource.page:
        headers["Accept-Ranges"] = "bytes"
        if asked["If-Range"] in ("", tag):
            found = byte_range(asked["Range"], content.size)
            if found == (0, 0):
                return Answer(416, headers | {"Content-Range": f"bytes */{content.size}"})
            if found is not None:
                start, stop = found
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
                return Answer(206, headers, content, start, stop)
    return Answer(200, headers, content, 0, content.size)


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Start and stop of a Range header; (0, 0) where it lies outside.

    None where it is to be ignored: there is none, it is malformed, or it names several ranges,
    which a server may answer as a whole.
    """
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text.strip())
    if found is None or found[0].endswith("=-"):
        return None
    first, last = found[1], found[2]
    if not first:
        start, stop = max(size - int(last), 0), size
    else:
        start, stop = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    return (start, stop) if start < stop else (0, 0)
