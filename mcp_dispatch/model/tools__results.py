"""What became of a result that could not be delivered as it was."""

from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.json import JsonObject


class Why(Enum):
    """Why a part of a result was replaced."""

    SIZE = "over the limit of its tool"
    BATCH = "over the budget of its batch"
    MEDIA = "too large to be shown"
    STREAM = "too large for memory"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One part: what it was, its size in bytes, and the file that holds it; without a file, the
    problem is why there is none, and its middle was left out."""

    why: Why
    what: str
    size: int
    file: str | None = None
    problem: str | None = None

    def record(self) -> JsonObject:
        record: JsonObject = {"reason": self.why.value, "what": self.what, "bytes": self.size}
        if self.file is not None:
            record["file"] = self.file
        if self.problem is not None:
            record["problem"] = self.problem
        return record
