"""The completion of the shell, in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture
def complete(folder):
    """Returns the completions of a command line, as bash finds them with the script that the command prints."""
    command = folder / "holdfast"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    command.chmod(0o755)

    def complete(line: str) -> list[str]:
        words = line.split(" ")
        script = (
            'eval "$(_HOLDFAST_COMPLETE=bash_source holdfast)"\n'
            f"COMP_WORDS=({' '.join(word or repr('') for word in words)})\n"
            f"COMP_CWORD={len(words) - 1}\n"
            '_holdfast_completion holdfast\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return complete


def test_bash_completes_commands_options_and_values(complete):
    assert complete("holdfast wor") == ["work", "worker"]
    assert complete("holdfast job li") == ["list"]
    assert complete("holdfast init --template ") == ["script", "fastapi", "spark"]
    assert "--newest" in complete("holdfast job list --ne")
