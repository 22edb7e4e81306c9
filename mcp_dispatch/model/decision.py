"""Decisions: every source casts a vote, votes fall into tiers, the first tier that speaks decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Effect(IntEnum):
    """Ordered, so that combining is `max`."""

    ALLOW = 0
    ASK = 1
    DENY = 2


class Tier(IntEnum):
    """Who is heard first. The first tier with a vote decides."""

    DENY = 1
    HARD_ASK = 2
    ALLOW = 3
    TOOL_ASK = 4
    UNDECIDED = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a vote comes from: a rule in a file, a hook's command, or a built-in check."""

    source: str
    line: int | None = None
    rule: str | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return place if self.rule is None else f"{self.rule} in {place}"


@dataclass(frozen=True, slots=True)
class Vote:
    tier: Tier
    effect: Effect
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Decision:
    """What the votes add up to. `by` is the vote that decided."""

    effect: Effect
    by: Vote
    votes: tuple[Vote, ...]

    @property
    def undecided(self) -> bool:
        """Nobody asked for the question: it is only that nobody answered it beforehand."""
        return self.by.tier is Tier.UNDECIDED


def decide(votes: Iterable[Vote]) -> Decision:
    """The strictest vote of the first tier that has one. At least one vote is needed."""
    every = tuple(votes)
    by = min(every, key=lambda vote: (vote.tier, -vote.effect))
    return Decision(by.effect, by, every)
