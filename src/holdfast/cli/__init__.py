"""The command ``holdfast``: a door for people and scripts. One file per group of commands.

Exit codes: 0 it is done, 1 something is wrong, 2 bad usage, 3 the store is unavailable, 4 not found, 5 timed out,
130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from holdfast.cli import early_signals

NEEDED = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit code. Without the extra ``cli`` it says what to install.

    Without ``arguments`` it is the command of this process, and listens to its signals from here on.
    """
    if arguments is None:
        early_signals.listen(sys.argv[1:])
    try:
        from holdfast.cli.root import root  # noqa: PLC0415 - what it needs is an extra, and may not be there
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.stderr.write("the command needs click and rich: pip install 'holdfast[cli]'\n")
        return 2
    return root.run(arguments)
