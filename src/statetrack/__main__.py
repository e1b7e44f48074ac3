"""``python -m statetrack``, also for ``torchrun -m statetrack``."""

import sys

from statetrack.cli import main

if __name__ == "__main__":
    sys.exit(main())
