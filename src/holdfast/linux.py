"""Whether this is Linux, and may use what only Linux has: pidfd, prctl, /proc, inotify, waitid and clocks of processes.

Whoever asks reads ``linux.IS_LINUX`` when it is called. So tests on Linux can show that the portable path, which macOS
takes, works too: they set it to False before a worker forks its processes.
"""

from __future__ import annotations

import sys

IS_LINUX = sys.platform == "linux"
