"""`python -m headgate.cli`: the command `headgate` without its script."""

import sys

from headgate.cli import main

sys.exit(main())
