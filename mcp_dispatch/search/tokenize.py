"""Splits text into words in lower case, and reduces words to their stems."""

import re
import unicodedata

_MAX_WORD_CHARS = 30
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUN = re.compile(rf"[{_CJK}]+|[^\W\d_{_CJK}]+|\d+")
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BRAND = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]*)+\b")
_NEEDS_FINAL_E = re.compile(r"[^aeiou][aeiouy][^aeiouwxy]")
_DERIVATION_SUFFIXES = (
    ("ization", "iz"),
    ("isation", "iz"),
    ("ation", "at"),
    ("ition", "it"),
    ("ction", "ct"),
    ("sion", "s"),
    ("ment", ""),
    ("ness", ""),
    ("ally", "al"),
    ("ly", ""),
    ("ator", "at"),
    ("izer", "iz"),
)


def split_name(text: str) -> list[str]:
    """Split an identifier at `_`, `-`, `.`, digits and changes of case."""
    return _find_words(_CASE_CHANGE.sub(" ", text))


def split_prose(text: str) -> list[str]:
    """Split a sentence into words. `GitHub` stays one word; `fileName` becomes two."""
    return split_name(_BRAND.sub(lambda brand: brand[0].lower(), text))


def _find_words(text: str) -> list[str]:
    if text.isascii():
        runs: list[str] = _RUN.findall(text.lower())
        return [run for run in runs if len(run) <= _MAX_WORD_CHARS]
    folded: list[str] = _RUN.findall(unicodedata.normalize("NFKC", text).lower())
    return [word for run in folded for word in _split_run(run)]


def _split_run(run: str) -> list[str]:
    if run.isascii() or not _is_cjk(run[0]):
        return [run] if len(run) <= _MAX_WORD_CHARS else []
    # Without a dictionary, two adjacent characters are the best guess at a word.
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


def _is_cjk(character: str) -> bool:
    return "\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7af"


def stem(word: str) -> str:
    """Return an English stem: `files`, `filing` and `file` have the same. Other scripts are kept."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _strip_derivation(_strip_inflection(_strip_plural(word)))
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    if word.endswith("y") and len(word) > 3:
        word = word[:-1] + "i"
    return word


def _strip_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "news")):
        return word[:-1]
    return word


def _strip_inflection(word: str) -> str:
    for suffix in ("ing", "ed"):
        if not word.endswith(suffix):
            continue
        base = word[: -len(suffix)]
        if len(base) < 3 or not any(letter in "aeiouy" for letter in base):
            return word
        if base[-1] == base[-2] and base[-1] not in "lsz":
            return base[:-1]
        return f"{base}e" if _NEEDS_FINAL_E.fullmatch(base) else base
    return word


def _strip_derivation(word: str) -> str:
    for suffix, rest in _DERIVATION_SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)] + rest
    return word
