"""Take out of foreign text what must not be pasted in public. The one place that does."""

from __future__ import annotations

import contextlib
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


# Left of a token may stand anything but a letter or digit: `_` and `=` are usual there.
_EDGE = r"(?<![A-Za-z0-9])"
_KEY = r"PRIVATE KEY(?: BLOCK)?-----"
# `tokens`, `tokenizer` and `token_ids` are what models are made of, and no secrets.
_NAME = (
    r"(?:TOKEN(?![A-Z])|(?i:TOKEN(?![A-Z0-9_])|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY"
    r"|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?))"
)
_SECRETS: tuple[tuple[str, str], ...] = (
    (rf"-----BEGIN [A-Z ]*{_KEY}.*?(?:-----END [A-Z ]*{_KEY}|\Z)", "<private key>"),
    (
        _EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|hf_[A-Za-z0-9]{16,}"
        r"|glpat-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|sk-[A-Za-z0-9_-]{20,}"
        r"|pypi-[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
        "<token>",
    ),
    (r"(?<=://)[^\s/?#]*@", "<credentials>@"),
    (
        r"(?i)\b(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+)[^\s'\"]+",
        r"\1<token>",
    ),
    (
        rf"(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]*?{_NAME})"
        r"([A-Za-z0-9_]++\\*['\"]?[ \t]*(?:=(?!=)|:(?!:))[ \t]*)"
        r"(?!(?:-?\d{1,7}|None|True|False)(?![^\s'\",;)}\]]))"
        r"(?:\\*\"[^\"\n]*\"?|\\*'[^'\n]*'?|(?:<private key>)?[^\s'\"]+)",
        r"\1<redacted>",
    ),
    (
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
        "<e-mail>",
    ),
)
# What one replacement leaves can lie open to another; nothing real needs a third round.
ROUNDS = 4
_COMPILED = tuple((re.compile(pattern, re.DOTALL | re.ASCII), text) for pattern, text in _SECRETS)
# Four numbers that follow == or a hyphen are a package's version (nvidia-cublas-cu12==12.8.4.1).
_IPV4 = re.compile(
    r"(?<![A-Za-z0-9_.-])(?<![=<>~!]=)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![A-Za-z0-9_-])(?!\.\w)"
)
# Every address in use begins with four digits; what begins with fewer is a slice or C++ (`a::b`).
_IPV6 = re.compile(r"(?<![A-Za-z0-9_:.])[0-9A-Fa-f]{4}:[0-9A-Fa-f:.]++(?![A-Za-z0-9_])")
_PUBLIC_HOMES = re.compile(r"(/home/|/Users/)[^/\s'\":]+")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
# Control characters, and those that reorder or hide text in an issue.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)
# Names that a placeholder is made of; as a user or host they tell nothing.
_WORDS = {"user", "host", "token", "address", "redacted", "credentials", "e-mail", "mail", "key"}
_WORDS |= {"private", "private key", "root", "localhost"}


def _address(found: re.Match[str]) -> str:
    text = found[0]
    for end in (len(text), len(text.rstrip(".")), len(text.rstrip(".")) - 1):  # "at fe80::1:"
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(text[:end])
            kept = address.is_loopback or address.is_unspecified
            return text if kept else "<address>" + text[end:]
    return text


def plain(text: str) -> str:
    """Without colours, cursor movements and characters that hide or reorder text."""
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def _without(name: str, word: str, text: str) -> str:
    if len(name) < 3 or name.lower() in _WORDS:
        return text
    pattern = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
    return re.sub(pattern, word, text, flags=re.IGNORECASE | re.ASCII)


def redact(text: str, machine: Machine) -> str:
    """Without home, user and host names, addresses, tokens, keys and credentials.

    Loopback addresses stay: they say nothing about anybody.
    """
    text = plain(text)
    for _ in range(ROUNDS):
        before, text = text, _once(text, machine)
        if text == before:
            break
    return text


def _once(text: str, machine: Machine) -> str:
    if len(machine.home) > 1:
        text = re.sub(re.escape(machine.home.rstrip("/")) + r"(?![A-Za-z0-9_-])", "~", text)
    text = _PUBLIC_HOMES.sub(r"\1<user>", text)
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    text = _without(machine.host, "<host>", text)
    text = _without(machine.host.partition(".")[0], "<host>", text)
    text = _without(machine.user, "<user>", text)
    return _IPV6.sub(_address, _IPV4.sub(_address, text))
