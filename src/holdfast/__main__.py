"""``python -m holdfast``: the same as the command ``holdfast``."""

import sys

from holdfast.cli import main

if __name__ == "__main__":  # processes that `holdfast conform` starts import this module again
    sys.exit(main())
