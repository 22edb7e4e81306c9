"""Decisions: rules, hooks and tools cast votes; each vote has a tier; the first tier with a vote
decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Effect(IntEnum):
    """Ordered by strictness, so that effects are combined with `max`."""

    ALLOW = 0
    ASK = 1
    DENY = 2


class Tier(IntEnum):
    """The precedence of votes. The first tier with a vote decides."""

    DENY = 1
    HARD_ASK = 2
    ALLOW = 3
    TOOL_ASK = 4
    UNDECIDED = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a vote: a rule in a file, a hook's command, or a built-in check."""

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
    """The result of all votes. `by` is the deciding vote."""

    effect: Effect
    by: Vote
    votes: tuple[Vote, ...]

    @property
    def undecided(self) -> bool:
        """Whether no rule, hook or tool has voted, so that the default applies."""
        return self.by.tier is Tier.UNDECIDED


def decide(votes: Iterable[Vote]) -> Decision:
    """Return the strictest vote of the first tier that has votes. There must be at least one
    vote."""
    every = tuple(votes)
    by = min(every, key=lambda vote: (vote.tier, -vote.effect))
    return Decision(by.effect, by, every)
