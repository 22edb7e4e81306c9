"""What hooks are told about the world around a call."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Circumstances:
    session_id: str
    transcript_path: Path
    cwd: Path
    permission_mode: str
