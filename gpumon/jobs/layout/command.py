"""A command line taken apart: what runs, and its options. Never raises, whatever the words are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Interpreter options that take the next word.
_PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]{0,8}(?:t|d)?")
_NEGATIVE_NUMBER = re.compile(r"-[0-9][0-9.]*")
MOST_WORDS = 1024  # a longer command line is read up to here
LONGEST_NUMBER = 9  # digits


@dataclass(frozen=True, slots=True)
class Command:
    """What runs. Exactly one of module, script and code is set for an interpreter; none of them for a binary."""

    program: str = ""  # base name of the binary, or of the script; "" for modules and inline code
    module: str = ""  # dotted name after -m
    script: str = ""  # path as written
    code: str = ""  # text after -c
    title: str = ""  # a process that renamed itself: the whole text
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)  # of all arguments, see `options`

    @property
    def name(self) -> str:
        """The module, else the program: what a person would call it."""
        return self.module or self.program


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def read(words: tuple[str, ...]) -> Command:
    """Take a command line apart."""
    words = words[:MOST_WORDS]
    if not words or not words[0]:
        return Command()
    first = words[0]
    if "::" in first and not first.startswith("/"):
        return Command(title=first)
    name = base_name(first.lstrip("-"))
    if _PYTHON.fullmatch(name):
        return _interpreted(words[1:])
    return command(program=name, script="", arguments=words[1:])


def command(
    *, program: str = "", module: str = "", script: str = "", code: str = "", arguments: tuple[str, ...] = ()
) -> Command:
    """Return a command with its options read."""
    return Command(program, module, script, code, "", arguments, options(arguments))


def of_program(words: tuple[str, ...], *, module: bool = False) -> Command:
    """Return the command that a launcher starts: a module, a script for Python, or any program."""
    if not words:
        return Command()
    if module:
        return command(module=words[0], arguments=words[1:])
    if words[0].endswith(".py"):
        return command(program=base_name(words[0]), script=words[0], arguments=words[1:])
    return read(words)


def _interpreted(words: tuple[str, ...]) -> Command:
    position = 0
    while position < len(words):
        word = words[position]
        rest = words[position + 1 :]
        if word == "-m" and rest:
            return command(module=rest[0], arguments=rest[1:])
        if word == "-c" and rest:
            return command(code=rest[0], arguments=rest[1:])
        if not word.startswith("-"):
            return command(program=base_name(word), script=word, arguments=rest)
        position += 2 if word in _PYTHON_VALUED else 1
    return Command(program="python")


def options(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return options by name, with dashes for underscores and without leading ones; "" for one without a value.

    A word after an option is taken for its value unless it begins with a dash. Where that is wrong (a flag before a
    positional word) the value is no number and no known word, and is ignored by whoever asks. The last one wins.
    """
    found: dict[str, str] = {}
    for position, word in enumerate(arguments):
        if len(word) < 2 or not word.startswith("-") or _NEGATIVE_NUMBER.fullmatch(word):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and position + 1 < len(arguments):
            after = arguments[position + 1]
            value = after if not after.startswith("-") or _NEGATIVE_NUMBER.fullmatch(after) else ""
        found[name.replace("_", "-")] = value
    return found


def split(arguments: tuple[str, ...], flags: frozenset[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return a launcher's own options and the words from its first positional one on.

    Args:
        flags: the launcher's options without a value, named as `options` names them; all others take one.
    """
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if not word.startswith("-") or len(word) < 2:
            break
        if word == "--":
            position += 1
            break
        name, equals, _ = word.lstrip("-").partition("=")
        position += 1 if equals or name.replace("_", "-") in flags else 2
    return options(arguments[:position]), arguments[position:]


def number(text: str | None) -> int:
    """Return a whole number of at most nine digits, -1 for anything else."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        return -1
    return int(text)


def size(options: Mapping[str, str], *names: str) -> int:
    """Return the first named option that holds a number above zero, 0 when none does."""
    return next((value for name in names if (value := number(options.get(name))) > 0), 0)


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Return True when a flag is given and not switched off by its value."""
    return name in options and options[name].lower() not in ("false", "0", "no", "none", "off")


def host_port(text: str) -> tuple[str, int]:
    """Return address and port of "host:port" or "[v6]:port"; port 0 when there is none."""
    host, colon, port = text.rpartition(":")
    if not colon or number(port) < 0 or number(port) > 65535:
        return text.strip("[]"), 0
    return host.strip("[]"), number(port)
