"""Posting JSON and reading the answer, for robots and hooks. Addresses are secrets: no error text contains one."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

TIMEOUT_S = 15.0  # report 157: receivers that take 15 s exist
_MOST_ANSWER_BYTES = 65_536
_NOT_SENT = (OSError, http.client.HTTPException, ValueError)  # ValueError: an address that is none
# Without the handler of redirects: a redirected POST would become a GET, and reach somebody else.
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service said. `problem` is set instead when nothing came back."""

    status: int = 0
    body: bytes = b""
    problem: str = ""

    def field(self, *names: str) -> object:
        """Return the first of these fields of a JSON answer, None where there is none."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return None
        if not isinstance(document, dict):
            return None
        return next((document[name] for name in names if name in document), None)


def post_json(url: str, document: object) -> Answer:
    """Return the answer to a POST, whatever its status."""
    body = json.dumps(document, ensure_ascii=False).encode("utf-8")
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json; charset=utf-8"})
        if request.type not in {"http", "https"}:
            return Answer(problem="its address is not http:// or https://")
        opener = urllib.request.OpenerDirector()
        for handler in _HANDLERS:
            opener.add_handler(handler())
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return Answer(answer.status, answer.read(_MOST_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read(_MOST_ANSWER_BYTES))
    except _NOT_SENT as error:
        # The name of the error only: its text may quote the address.
        reason = getattr(error, "reason", error)
        return Answer(problem=f"no answer ({type(reason).__name__})")


def code_problem(answer: Answer, *code_names: str) -> str:
    """Return "" if the answer's own code is 0, else why not. A status of 200 says nothing here.

    Args:
        code_names: fields that hold the code, the first that exists counts.
    """
    if answer.problem:
        return answer.problem
    code = answer.field(*code_names)
    if code == 0 and not isinstance(code, bool):
        return ""
    if code is None:
        return f"status {answer.status} and no {code_names[0]} in the answer"
    said = answer.field("errmsg", "msg", "StatusMessage")
    return f"refused with {code_names[0]} {code!s:.20}: {' '.join(str(said).split())[:200]}"
