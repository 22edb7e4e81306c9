"""One slip of the keyboard, put right: only words that tools really use are guessed."""

from collections.abc import Iterator, Mapping

_SHORTEST = 5
_LONGEST = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def corrected(word: str, spellings: Mapping[str, float]) -> str:
    """The most used of the known words one edit away (two letters swapped, one missing, wrong or too
    many), else the word itself. The first letter is taken as right."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()):
        return word
    guesses = filter(spellings.__contains__, _one_edit_away(word))
    return max(guesses, key=spellings.__getitem__, default=word)


def _one_edit_away(word: str) -> Iterator[str]:
    places = range(1, len(word))
    for at in places[:-1]:
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(1, len(word) + 1):
        for letter in _LETTERS:
            yield word[:at] + letter + word[at:]
    for at in places:
        for letter in _LETTERS:
            yield word[:at] + letter + word[at + 1 :]
    for at in places:
        yield word[:at] + word[at + 1 :]
