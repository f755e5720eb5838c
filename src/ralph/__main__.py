"""Lets `python -m ralph` stand for `ralph`."""

import sys

from ralph.entry import main

sys.exit(main())
