"""Who may see what: basic auth, and tokens that open one tenant's jobs.

One bcrypt check costs 59 to 234 ms of CPU, so a pair that was right is remembered under a keyed digest, and unknown
pairs are checked at a bounded rate: a client that guesses costs the node no more than that, whatever it sends.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

import bcrypt

from gpumon.export.request import Request
from gpumon.export.scope import EVERYTHING, Scope

_REMEMBERED = 256  # pairs, right ones and wrong ones each
# Checks of unknown pairs: each costs about 0.1 s, so one client in two seconds and one in a second overall keeps
# guessing below a tenth of a core.
_PER_CLIENT_S = 2.0
_OVERALL_S = 1.0
_BURST = 3.0
_CLIENTS = 1024
# Compared against when the user does not exist, so that the answer takes as long as for one who does.
_NOBODY = b"$2b$10$gWPiWyB4yVBn5qcCRoDGIO6F75hW.Ru1TJFBCrfg4t5jVEg.HULoS"
_SHORTEST_TOKEN = 16


class Access:
    """Judges requests by the web-config file's users and the tenants' tokens. Safe to use from any thread."""

    def __init__(self, users: Mapping[str, bytes], tokens: Mapping[str, bytes], mono_s: Callable[[], float]) -> None:
        """
        Args:
            users: name -> bcrypt hash; without any the page is open.
            tokens: tenant -> token.
            mono_s: clock for the rate limits.
        """
        self._users = users
        self._key = secrets.token_bytes(32)  # of this process: a digest from a memory dump cannot be tried elsewhere
        self._tokens = {self._digest(token): Scope(frozenset({tenant})) for tenant, token in tokens.items()}
        self._mono_s = mono_s
        self._lock = threading.Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._clients: OrderedDict[str, _Bucket] = OrderedDict()
        self._overall = _Bucket(_OVERALL_S, mono_s())
        self.checks = 0  # bcrypt checks made, for the tests that count them

    def authorize(self, request: Request) -> Scope | None:
        """Return what the request may see; None when it may see nothing."""
        kind, _, rest = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._tokens.get(self._digest(rest.strip().encode("utf-8", "surrogateescape")))
        if not self._users:
            return EVERYTHING
        if kind.lower() != "basic":
            return None
        return EVERYTHING if self._is_user(rest, request.client) else None

    def _is_user(self, encoded: str, client: str) -> bool:
        try:
            pair = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return False
        name, colon, password = pair.partition(b":")
        # bcrypt reads no more than 72 bytes; longer ones are refused rather than cut.
        if not colon or len(password) > 72 or b"\0" in password:
            return False
        digest = self._digest(pair)
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return True
            if digest in self._wrong or not self._may_check(client):
                return False
            self.checks += 1
        known = self._users.get(name.decode("utf-8", "replace"))
        right = bcrypt.checkpw(password, known or _NOBODY) and known is not None
        with self._lock:
            remembered = self._right if right else self._wrong
            remembered[digest] = None
            if len(remembered) > _REMEMBERED:
                remembered.popitem(last=False)
        return right

    def _may_check(self, client: str) -> bool:
        now_s = self._mono_s()
        bucket = self._clients.get(client)
        if bucket is None:
            bucket = self._clients[client] = _Bucket(_PER_CLIENT_S, now_s)
            if len(self._clients) > _CLIENTS:
                self._clients.popitem(last=False)
        return bucket.take(now_s) and self._overall.take(now_s)

    def _digest(self, secret: bytes) -> bytes:
        return hmac.digest(self._key, secret, "sha256")


class _Bucket:
    """A token bucket: a burst, then one every so many seconds."""

    def __init__(self, every_s: float, now_s: float) -> None:
        self._every_s = every_s
        self._left = _BURST
        self._last_s = now_s

    def take(self, now_s: float) -> bool:
        """Return True and use one up when there is one."""
        self._left = min(_BURST, self._left + (now_s - self._last_s) / self._every_s)
        self._last_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def read_tokens(files: Mapping[str, str]) -> tuple[dict[str, bytes], list[str]]:
    """Return tenant -> token, and a sentence for each file that holds no usable one."""
    tokens: dict[str, bytes] = {}
    problems = []
    for tenant, file in files.items():
        try:
            token = Path(file).read_bytes().strip()
        except OSError as error:
            problems.append(f"tenant {tenant}: token_file {file}: cannot be read: {error.strerror or error}")
            continue
        if len(token) < _SHORTEST_TOKEN or b"\n" in token:
            problems.append(
                f"tenant {tenant}: token_file {file}: must hold one line of {_SHORTEST_TOKEN} or more bytes"
            )
        elif token in tokens.values():
            problems.append(f"tenant {tenant}: token_file {file}: holds another tenant's token")
        else:
            tokens[tenant] = token
    return tokens, problems
