"""The pages of an index: PEP 503 HTML as PyTorch's own script writes it, and PEP 691 JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

HTML = "text/html"
JSON = "application/vnd.pypi.simple.v1+json"
_HTML_TYPES = (HTML, "application/vnd.pypi.simple.v1+html", "*/*", "text/*")


@dataclass(frozen=True)
class Link:
    """One file on a page.

    Args:
        url: where it is, quoted, without a fragment.
        sha256: None where the page gives none.
        metadata: sha256 of its `.metadata` file, None where there is none.
        yanked: why it was withdrawn ("" without a reason), None where it was not.
    """

    filename: str
    url: str
    sha256: str | None = None
    metadata: str | None = None
    yanked: str | None = None
    requires_python: str | None = None


def wants_json(accept: str) -> bool:
    """Whether an Accept header prefers JSON to HTML."""
    best = {JSON: 0.0, HTML: 0.0}
    for part in accept.split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        weights = [word[2:] for word in parameters if word.startswith("q=")]
        weight = float(weights[0]) if weights else 1.0
        if kind in (JSON, "application/vnd.pypi.simple.latest+json"):
            best[JSON] = max(best[JSON], weight)
        elif kind in _HTML_TYPES:
            best[HTML] = max(best[HTML], weight)
    return best[JSON] > best[HTML]


def html_page(project: str, links: Sequence[Link]) -> bytes:
    """The page of a project."""
    lines = [_anchor(link) for link in links]
    return _html(f"Links for {project}", lines)


def html_root(projects: Sequence[str]) -> bytes:
    """The list of all projects."""
    lines = [f'    <a href="{name}/">{name}</a><br/>' for name in projects]
    return _html("Simple index", lines)


def _html(title: str, lines: Sequence[str]) -> bytes:
    body = "\n".join(lines)
    page = f"<!DOCTYPE html>\n<html>\n  <body>\n    <h1>{title}</h1>\n{body}\n  </body>\n</html>\n"
    return page.encode()


def _anchor(link: Link) -> str:
    attributes = {"href": link.url + (f"#sha256={link.sha256}" if link.sha256 else "")}
    if link.metadata is not None:
        attributes["data-dist-info-metadata"] = f"sha256={link.metadata}"
        attributes["data-core-metadata"] = f"sha256={link.metadata}"
    if link.requires_python is not None:
        attributes["data-requires-python"] = link.requires_python
    if link.yanked is not None:
        attributes["data-yanked"] = link.yanked
    written = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"    <a {written}>{escape(link.filename)}</a><br/>"


def json_page(project: str, links: Sequence[Link]) -> bytes:
    """The page of a project, version 1.0 of the format: later ones demand sizes."""
    files = [_file(link) for link in links]
    return json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": files}).encode()


def json_root(projects: Sequence[str]) -> bytes:
    """The list of all projects."""
    names = [{"name": name} for name in projects]
    return json.dumps({"meta": {"api-version": "1.0"}, "projects": names}).encode()


def _file(link: Link) -> dict[str, object]:
    file: dict[str, object] = {
        "filename": link.filename,
        "url": link.url,
        "hashes": {"sha256": link.sha256} if link.sha256 else {},
    }
    if link.metadata is not None:
        file["core-metadata"] = file["dist-info-metadata"] = {"sha256": link.metadata}
    if link.requires_python is not None:
        file["requires-python"] = link.requires_python
    if link.yanked is not None:
        file["yanked"] = link.yanked or True
    return file
