"""What tests ask an index and a wheel: HTTP by hand, RECORD, and uv in a folder of its own."""

from __future__ import annotations

import csv
import http.client
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from email.message import Message
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import uv

from tests.nightly_index.wheels import Wheel


def fetch(
    url: str, method: str = "GET", timeout: float = 10, **headers: str
) -> tuple[int, Message, bytes]:
    """Status, headers and body; what goes wrong on the way is raised."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc, timeout=timeout)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, at.path, headers=named)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def archive(wheel: Wheel) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel.content.open())


def check_record(wheel: Wheel) -> None:
    """Every file is in RECORD, with its hash and size."""
    with archive(wheel) as file:
        [record] = [name for name in file.namelist() if name.endswith(".dist-info/RECORD")]
        rows = {row[0]: row[1:] for row in csv.reader(file.read(record).decode().splitlines())}
        assert sorted(rows) == sorted(file.namelist())
        assert rows.pop(record) == ["", ""]
        for name, (hashed, size) in rows.items():
            data = file.read(name)
            assert int(size) == len(data)
            assert hashed == "sha256=" + urlsafe_b64encode(sha256(data).digest()).decode()[:-1]


class Uv:
    """A virtual environment and a cache of this test alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        self.run("venv", "--quiet", "--python", sys.executable, folder / "env")

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("UV_")}
        own = {"UV_CACHE_DIR": str(self.folder / "uv"), "UV_NO_CONFIG": "1", "NO_COLOR": "1"}
        # A fault is looked at, not waited out.
        own |= {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "5", "NO_PROXY": "127.0.0.1"}
        return subprocess.run(
            [uv.find_uv_bin(), *map(str, arguments)],
            env=kept | own,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def install(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run("pip", "install", "--python", self.python, *arguments)

    def site(self, name: str) -> Path:
        [found] = self.folder.glob(f"env/lib/python*/site-packages/{name}")
        return found
