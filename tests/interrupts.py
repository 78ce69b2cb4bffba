"""For tests that interrupt a child process."""

from __future__ import annotations

import signal


def default_interrupt() -> None:
    """Give the calling process the default action of SIGINT; for ``preexec_fn`` of ``subprocess.Popen``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
