"""Command lines as they may be shown on this machine: secrets struck out. Elsewhere they are not shown at all.

A word is struck out when its option's or variable's name speaks of a secret, when it carries a password inside a URL,
or when it looks like a key by itself (known prefixes, long runs of mixed characters).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

STRUCK = "***"
LONGEST = 4096  # characters of a whole line; a terminal shows less

_NAME = re.compile(
    r"pass(?:wd|word|phrase|code)?$|(?:^|[_.-])pass(?:$|[_.-])|pwd|secret|token(?!izer|s?[_.-]?(?:per|size|len|count|limit)|s$)"
    r"|api[_.-]?key|access[_.-]?key|private[_.-]?key|account[_.-]?key|wandb[_.-]?key|(?:^|[_.-])key$|credential|auth"
    r"|bearer|cookie|signature|salt$",
    re.IGNORECASE,
)
# Names that hold such a word and mean something else.
_HARMLESS = re.compile(
    r"max[_-]?(?:new[_-]?)?tokens|tokens?[_-]per|author|keyframe|key[_-]?value|no[_-]?auth", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]{0,30}://[^/\s:@]{0,256}):[^/\s@]{1,512}@")
_URL_QUERY = re.compile(
    r"(?P<head>[?&](?:[\w-]*(?:key|token|secret|signature|sig|password|pwd|credential)[\w-]*)=)[^&\s#]+", re.I
)
_KEYS = re.compile(
    r"hf_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{10,}|gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|glpat-[\w-]{10,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|ASIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{4,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r"|nvapi-[\w-]{10,}|r8_\w{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
)
_RANDOM = re.compile(
    r"(?=[A-Za-z0-9+/_-]*[0-9])(?=[A-Za-z0-9+/_-]*[a-z])(?=[A-Za-z0-9+/_-]*[A-Z])[A-Za-z0-9+/_-]{32,}={0,2}"
)
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]{0,80})(?P<equals>[=:])(?P<value>.+)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z][\w.-]{0,80}")
_HEADER = re.compile(r"(?P<head>(?:authorization|x-[\w-]*key|cookie)\s*:\s*).+", re.IGNORECASE | re.DOTALL)


def redacted(words: Iterable[str]) -> str:
    """Return the words as one line with secrets struck out and control characters made visible."""
    line = " ".join(_printable(word) for word in _words(words))
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _words(words: Iterable[str]) -> Iterator[str]:
    strike_next = False
    for word in words:
        if strike_next and not _OPTION.fullmatch(word):
            strike_next = False
            yield STRUCK
            continue
        strike_next = bool(_OPTION.fullmatch(word)) and _secret(word)
        yield _word(word[:LONGEST])


def _word(word: str) -> str:
    assignment = _ASSIGNMENT.fullmatch(word)
    if assignment and _secret(assignment["name"]) and "://" not in word[: len(assignment["name"]) + 3]:
        return f"{assignment['name']}{assignment['equals']}{STRUCK}"
    if header := _HEADER.search(word):
        return word[: header.end("head")] + STRUCK
    word = _URL_PASSWORD.sub(rf"\g<head>:{STRUCK}@", word)
    word = _URL_QUERY.sub(rf"\g<head>{STRUCK}", word)
    word = _KEYS.sub(STRUCK, word)
    return _RANDOM.sub(_struck_unless_path, word)


def _secret(name: str) -> bool:
    bare = name.lstrip("-")
    return bool(_NAME.search(bare)) and not _HARMLESS.search(bare)


def _struck_unless_path(match: re.Match[str]) -> str:
    """Long words of a path are names of folders and models; a key has no slash every few characters."""
    text = match.group()
    return text if text.count("/") >= 2 or ("-" in text.strip("-") and text.count("-") >= 3) else STRUCK


def _printable(word: str) -> str:
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in word)
