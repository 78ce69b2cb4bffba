"""The command ``holdfast``, for people and scripts. ``commands/`` has one file per command group.

Exit codes: 0 success, 1 failure, 2 bad usage, 3 the store is unavailable, 4 not found, 5 timed out, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holdfast.cli import early_signals

STREAMS = (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w"))
REQUIRED_PACKAGES = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without the extra ``cli``, print what to install.

    Without ``arguments``, the command line of this process is run, and early signals are handled from here on.
    """
    _open_missing_streams()
    if arguments is None:
        early_signals.listen(sys.argv[1:])
    try:
        from holdfast.cli.root import root  # noqa: PLC0415 - needs an extra that may not be installed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in REQUIRED_PACKAGES:
            raise
        sys.stderr.write("the command needs click and rich: pip install 'holdfast[cli]'\n")
        return 2
    except RuntimeError as error:  # Python 3.11 wraps the SystemExit of a signal that arrives in ``__set_name__``
        if isinstance(error.__cause__, SystemExit):
            return 0
        raise
    return root.run(arguments)


def _open_missing_streams() -> None:
    """Open /dev/null for streams that were closed before the start, which are None in Python.

    Each gets its own number, the smallest that is free: else the next file of the store would get it, and whatever is
    written to stdout would go there.
    """
    for name, flags, mode in STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))
