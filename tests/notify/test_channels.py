"""What each service is sent, and that sent means that its answer says so."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gpumon.model.errors import GpumonError
from gpumon.notify.channels import CHANNELS, apprise_urls
from gpumon.notify.message import Message, cut
from gpumon.notify.target import Secret, Target
from tests.notify.servers import Robot, serving

MESSAGE = Message("firing", "任务 a 卡住了", "怎么办：看日志。", "critical")
TAKEN = {"dingtalk": {"errcode": 0, "errmsg": "ok"}, "wecom": {"errcode": 0}, "feishu": {"code": 0, "data": {}}}
REFUSED = {
    "dingtalk": {"errcode": 310000, "errmsg": "keywords not in content"},
    "wecom": {"errcode": 45033, "errmsg": "api freq out of limit"},
    "feishu": {"code": 19021, "msg": "sign match fail"},
}


def target(folder: Path, kind: str, url: str, *, sign: str = "", keyword: str = "") -> Target:
    """Return a target whose secrets lie in files."""
    (folder / "url").write_text(f"{url}\n", "utf-8")
    (folder / "sign").write_text(sign, "utf-8")
    signature = Secret(file=str(folder / "sign")) if sign else None
    return Target("acme-1", "acme", kind, Secret(file=str(folder / "url")), signature=signature, keyword=keyword)


@pytest.mark.parametrize("kind", TAKEN)
def test_robot_that_takes_it(tmp_path: Path, kind: str) -> None:
    """Code 0 in the answer means sent, and the text arrives whole."""
    with serving(Robot(200, TAKEN[kind])) as robot:
        assert CHANNELS[kind](target(tmp_path, kind, robot.url), MESSAGE) == ""
    assert "任务 a 卡住了" in robot.texts[0] and "看日志" in robot.texts[0]


@pytest.mark.parametrize("kind", REFUSED)
def test_robot_that_refuses_with_status_200(tmp_path: Path, kind: str) -> None:
    """Status 200 with another code is not sent, and the reason is the service's own."""
    with serving(Robot(200, REFUSED[kind])) as robot:
        problem = CHANNELS[kind](target(tmp_path, kind, robot.url), MESSAGE)
    code = next(iter(REFUSED[kind].values()))
    assert str(code) in problem and "s3cret" not in problem


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("answer", [None, "ok", {"status": "fine"}, {"errcode": False, "code": False}, [0]])
def test_robot_with_an_answer_of_another_kind(tmp_path: Path, kind: str, answer: object) -> None:
    """An answer without the code, such as a proxy's page, is not sent."""
    with serving(Robot(200, answer)) as robot:
        assert CHANNELS[kind](target(tmp_path, kind, robot.url), MESSAGE) != ""


def test_webhook(tmp_path: Path) -> None:
    """A hook gets one JSON object; any 2xx means sent."""
    with serving(Robot(204)) as robot:
        assert CHANNELS["webhook"](target(tmp_path, "webhook", robot.url), MESSAGE) == ""
    (got,) = robot.got
    assert got == {
        "version": 1,
        "owner": "acme",
        "status": "firing",
        "severity": "critical",
        "title": MESSAGE.title,
        "text": MESSAGE.text,
    }


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 500, 503])
def test_webhook_that_does_not_take_it(tmp_path: Path, status: int) -> None:
    """Every other status is a failure, and no redirect is followed."""
    with serving(Robot(status)) as robot:
        problem = CHANNELS["webhook"](target(tmp_path, "webhook", robot.url), MESSAGE)
    assert problem == f"status {status}"
    assert len(robot.paths) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x?key=s3cret", "file:///etc/passwd", "no address", "ftp://h/s3cret"]
)
def test_nobody_answers(tmp_path: Path, url: str) -> None:
    """A wrong or dead address is a failure in words that do not quote it."""
    problem = CHANNELS["webhook"](target(tmp_path, "webhook", url), MESSAGE)
    assert problem and "s3cret" not in problem and "passwd" not in problem


def test_dingtalk_signature_and_keyword(tmp_path: Path) -> None:
    """A signed message carries time and HMAC of the documented form, and a missing keyword is put before it."""
    with serving(Robot(200, TAKEN["dingtalk"])) as robot:
        CHANNELS["dingtalk"](target(tmp_path, "dingtalk", robot.url, sign="SECabc", keyword="GPU告警"), MESSAGE)
    query = parse_qs(urlsplit(robot.paths[0]).query)
    stamp = query["timestamp"][0]
    digest = hmac.new(b"SECabc", f"{stamp}\nSECabc".encode(), hashlib.sha256).digest()
    assert base64.b64decode(query["sign"][0]) == digest
    assert robot.got[0]["text"]["content"].startswith("GPU告警\n")


def test_feishu_signature(tmp_path: Path) -> None:
    """A signed message carries time and HMAC of the documented form in its body."""
    with serving(Robot(200, TAKEN["feishu"])) as robot:
        CHANNELS["feishu"](target(tmp_path, "feishu", robot.url, sign="abc"), MESSAGE)
    got = robot.got[0]
    digest = hmac.new(f"{got['timestamp']}\nabc".encode(), b"", hashlib.sha256).digest()
    assert base64.b64decode(got["sign"]) == digest


def test_wecom_limit_is_in_bytes(tmp_path: Path) -> None:
    """A long Chinese text is cut to 2,048 bytes between two characters, its beginning kept."""
    long = Message("firing", "标题", "显卡" * 2000)
    with serving(Robot(200, TAKEN["wecom"])) as robot:
        CHANNELS["wecom"](target(tmp_path, "wecom", robot.url), long)
    content = robot.got[0]["text"]["content"]
    assert 2040 < len(content.encode()) <= 2048
    assert content.startswith("标题\n\n显卡") and content.endswith("…")


def test_short_text_is_not_cut() -> None:
    """What fits stays as it is."""
    assert cut("显卡", 6) == "显卡"
    assert cut("显卡", 5) == "…"


@pytest.mark.parametrize(
    "url",
    [
        "dingtalk://abcdefghijkl",
        "wecombot://abcdefghijkl",
        "feishu://abcdefghijkl",
        "lark://abcdefghijkl",
    ],
)
def test_apprise_is_not_trusted_with_robots(tmp_path: Path, url: str) -> None:
    """Robots whose refusals Apprise does not see are sent by their own kind, which the sentence names."""
    with pytest.raises(GpumonError, match="use kind ="):
        apprise_urls.send(target(tmp_path, "apprise", url), MESSAGE)


@pytest.mark.parametrize(("status", "sent"), [(200, True), (500, False)])
def test_apprise(tmp_path: Path, status: int, sent: bool) -> None:
    """What Apprise speaks goes through it, and its answer counts."""
    with serving(Robot(status)) as robot:
        url = robot.url.replace("http://", "json://")
        problem = CHANNELS["apprise"](target(tmp_path, "apprise", url), MESSAGE)
    assert (problem == "") == sent
    assert robot.got[0]["title"] == MESSAGE.title
    with pytest.raises(GpumonError, match="does not understand"):
        CHANNELS["apprise"](target(tmp_path, "apprise", "nonsense"), MESSAGE)


def test_secret_that_is_missing(tmp_path: Path) -> None:
    """A secret that cannot be read is told by its place."""
    with pytest.raises(GpumonError, match="none: cannot be read"):
        CHANNELS["webhook"](Target("acme-1", "acme", "webhook", Secret(file=str(tmp_path / "none"))), MESSAGE)
    with pytest.raises(GpumonError, match="NO_SUCH_ROBOT is empty"):
        CHANNELS["webhook"](Target("acme-1", "acme", "webhook", Secret(variable="NO_SUCH_ROBOT")), MESSAGE)
