"""Speed, as ratios within one run: this machine is not yours, but the ratio is."""
