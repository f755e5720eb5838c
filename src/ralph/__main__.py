"""Entry point for `python -m ralph`."""

import sys

from ralph.entry import main

sys.exit(main())
