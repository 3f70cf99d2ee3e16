"""Take out of foreign text what must not be pasted in public. The one place that does."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What names this machine and its user.

    Args:
        home: the home folder.
        user: the login name.
        host: the host name, with or without its domain.
    """

    home: str
    user: str
    host: str


_SECRETS: tuple[tuple[str, str], ...] = (
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        "<private key>",
    ),
    (r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})", "<token>"),
    (r"\bhf_[A-Za-z0-9]{16,}", "<token>"),
    (r"\bglpat-[A-Za-z0-9_-]{16,}", "<token>"),
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}", "<token>"),
    (r"\bsk-[A-Za-z0-9_-]{20,}", "<token>"),
    (r"\bpypi-[A-Za-z0-9_-]{20,}", "<token>"),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "<token>"),
    (r"(?<=://)[^/\s:@]+(?::[^/\s@]*)?@", "<credentials>@"),
    (r"(?i)\b(authorization\s*:\s*(?:bearer|basic|token)\s+)[^\s'\"]+", r"\1<token>"),
    (
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
        "<e-mail>",
    ),
)
_COMPILED = tuple((re.compile(pattern, re.DOTALL), text) for pattern, text in _SECRETS)
# NAME=value and "name": "value". Names are bounded and begin at a word, and the word is looked into
# afterwards: the obvious single expression takes minutes for a long run of letters.
_ASSIGNED = re.compile(r"(?<![\w])(\w{1,100})(['\"]?\s{0,8}[=:]\s{0,8}['\"]?)(?!<)([^\s'\",;]+)")
# `num_tokens` and `tokens_per_expert` are what this tool's users write about: only a name that ends
# in TOKEN is one, and a short number is no secret.
_SECRET_NAME = re.compile(
    r"TOKEN$|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIAL", re.IGNORECASE
)
_NO_SECRET = re.compile(r"-?\d{1,7}|None|True|False")
# Four numbers that follow == or a hyphen are a package's version (nvidia-cublas-cu12==12.8.4.1).
_IPV4 = re.compile(r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f.]*:)[0-9A-Fa-f:.]+(?![\w:])")
_PUBLIC_HOMES = re.compile(r"(/home/|/Users/)[^/\s'\":]+")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
# Control characters, and those that reorder or hide text in an issue.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def _address(found: re.Match[str]) -> str:
    text = found[0].rstrip(".:") if found[0].endswith(".") else found[0]
    rest = found[0][len(text) :]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return found[0]
    # `a::b` is a valid address too, but in a log of ours it is C++.
    public = any(letter.isdigit() for letter in text)
    if not public or address.is_loopback or address.is_unspecified:
        return found[0]
    return "<address>" + rest


def _assignment(found: re.Match[str]) -> str:
    if not _SECRET_NAME.search(found[1]) or _NO_SECRET.fullmatch(found[3]):
        return found[0]
    return f"{found[1]}{found[2]}<redacted>"


def plain(text: str) -> str:
    """Without colours, cursor movements and characters that hide or reorder text."""
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def redact(text: str, machine: Machine) -> str:
    """Without home, user and host names, addresses, tokens, keys and credentials.

    Loopback addresses stay: they say nothing about anybody.
    """
    text = plain(text)
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    text = _ASSIGNED.sub(_assignment, text)
    if len(machine.home) > 1:
        text = re.sub(re.escape(machine.home.rstrip("/")) + r"(?=/|\b)", "~", text)
    text = _PUBLIC_HOMES.sub(r"\1<user>", text)
    hosts = {machine.host, machine.host.partition(".")[0]}
    for host in sorted(hosts, key=len, reverse=True):
        if len(host) > 2 and host != "localhost":
            text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "<host>", text)
    if len(machine.user) > 2 and machine.user != "root":
        text = re.sub(rf"(?<![\w-]){re.escape(machine.user)}(?![\w-])", "<user>", text)
    return _IPV6.sub(_address, _IPV4.sub(_address, text))
