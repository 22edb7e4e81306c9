"""Directories and scripts that tests refer to."""

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
UPSTREAMS = SUPPORT / "upstreams"
