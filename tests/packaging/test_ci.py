"""``.ci/run``: the commands that it runs, and their environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

CI_RUN = Path(__file__).parents[2] / ".ci" / "run"
RECORDER = f"""#!{sys.executable}
import json, os, pathlib, sys
call = [sys.argv[1:], dict(os.environ), os.listdir(os.environ["HOME"])]
with pathlib.Path(__file__).with_name("calls").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
"""
PROXY = {
    "PIP_INDEX_URL": "https://mirror.example/simple",
    "HTTPS_PROXY": "http://proxy.example:3128",
    "no_proxy": "localhost, 127.0.0.1",
    "SSL_CERT_FILE": "/etc/ssl/certs/company.pem",
}


def test_ci_checks_and_tests_in_the_environment_of_a_new_machine(tmp_path):
    python3 = tmp_path / "python3"
    python3.write_text(RECORDER)
    python3.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    inherited = {"PYTHONUNBUFFERED": "1", "HOLDFAST_URL": "memory:", "HOME": str(tmp_path), "PATH": path, **PROXY}
    subprocess.run([CI_RUN], env=inherited, check=True)
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [arguments for arguments, _, _ in calls] == [["run", "check"], ["run", "test", "--all"]]
    for _, variables, files_at_home in calls:
        home = variables.pop("HOME")
        assert variables == {"PATH": path, "TERM": "xterm", "LANG": "C.UTF-8", "CI": "true", **PROXY}
        assert files_at_home == []
        assert not Path(home).exists()
