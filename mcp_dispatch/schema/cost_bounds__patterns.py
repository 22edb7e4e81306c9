"""What a pattern can cost, read off its text without running it."""

_UNICODE_CLASS_COST = 40


def pattern_cost(pattern: str) -> int:
    """The pattern's length with every counted repetition written out.

    A linear-time engine takes time proportional to this, times the length of the text. It is an
    estimate from above: an unusual spelling may cost less, never much more.
    """
    totals = [0]
    last = 0
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "(":
            totals.append(0)
            last, position = 0, position + 1
        elif character == ")" and len(totals) > 1:
            last, position = totals.pop(), position + 1
            totals[-1] += last
        elif character == "{" and (repeat := _repetition(pattern, position)):
            times, position = repeat
            totals[-1] += last * (times - 1)
            last *= times
        else:
            last, position = _atom(pattern, position)
            totals[-1] += last
    return max(1, sum(totals))


def _repetition(pattern: str, start: int) -> tuple[int, int] | None:
    """`{3}`, `{3,}` or `{3,5}` at `start`: the largest count it writes, and where it ends."""
    end = pattern.find("}", start, start + 24)
    parts = pattern[start + 1 : end].split(",") if end > 0 else []
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if not numbers or len(parts) > 2:
        return None
    return max(1, *numbers) + (parts[-1] == ""), end + 1


def _atom(pattern: str, start: int) -> tuple[int, int]:
    """One character, escape or class: what it costs, and where it ends."""
    if pattern[start] == "[":
        return _character_class(pattern, start)
    if pattern[start] != "\\":
        return 1, start + 1
    wide = pattern[start + 1 : start + 2] in ("p", "P")
    if wide and pattern[start + 2 : start + 3] == "{":
        end = pattern.find("}", start)
        return _UNICODE_CLASS_COST, (end if end > 0 else len(pattern)) + 1
    return _UNICODE_CLASS_COST if wide else 1, start + 2


def _character_class(pattern: str, start: int) -> tuple[int, int]:
    cost, position = 1, start + 1
    while position < len(pattern) and pattern[position] != "]":
        if pattern[position] == "\\":
            wide = pattern[position + 1 : position + 2] in ("p", "P")
            cost += _UNICODE_CLASS_COST if wide else 0
            position += 1
        position += 1
    return cost, position + 1
