"""Speed, as ratios within one run: this machine is not yours, but the ratio is."""

import os

os.environ["RALPH_TRUST"] = "1"  # benchmarks write the settings of their own projects
