"""Whether a pattern is one that JavaScript compiles, in the strict reading validators there use.

Clients written in JavaScript compile `pattern` with the `u` flag, and one that does not compile
costs them the whole list of tools. Modifiers (`(?i:…)`) and the `v` flag are too new to count on.
"""

from string import hexdigits

_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CONTROLS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASSES = frozenset("dDsSwW")
_PROPERTIES = {
    "General_Category": frozenset(
        (
            *(
                "L",
                "LC",
                "Lu",
                "Ll",
                "Lt",
                "Lm",
                "Lo",
                "M",
                "Mn",
                "Mc",
                "Me",
                "N",
                "Nd",
                "Nl",
                "No",
            ),
            *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So"),
            *("Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co", "Cn"),
            *("Letter", "Lowercase_Letter", "Uppercase_Letter", "Mark", "Number", "Punctuation"),
            *("Symbol", "Separator", "Decimal_Number", "Other"),
        )
    ),
    "Script": frozenset(
        (
            *("Latin", "Greek", "Cyrillic", "Han", "Hiragana", "Katakana", "Hangul", "Arabic"),
            *("Hebrew", "Thai", "Devanagari", "Armenian", "Georgian", "Common", "Inherited"),
        )
    ),
}
_ALIASES = {
    "gc": "General_Category",
    "sc": "Script",
    "scx": "Script",
    "Script_Extensions": "Script",
}
_BINARY = frozenset(
    (
        *("ASCII", "Any", "Assigned", "Alphabetic", "Lowercase", "Uppercase", "White_Space"),
        *("ASCII_Hex_Digit", "Hex_Digit", "ID_Start", "ID_Continue", "Emoji", "XID_Start"),
        *("XID_Continue", "Emoji_Presentation", "Extended_Pictographic"),
    )
)
_DEEPEST = 100


class NotJavaScript(ValueError):
    """What is wrong with the pattern, and where."""


def check_pattern(pattern: str) -> None:
    """Raises `NotJavaScript`. A pattern that this accepts compiles; some that it refuses would too."""
    _Reader(pattern).read()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._groups = 0
        self._names: set[str] = set()
        self._numbers_used = 0
        self._names_used: set[str] = set()

    def read(self) -> None:
        self._alternatives(0)
        if self._at < len(self._text):
            self._fail("a ) that closes nothing")
        if self._numbers_used > self._groups or not self._names_used <= self._names:
            self._fail("a reference to a group that is not there")

    def _fail(self, what: str) -> None:
        raise NotJavaScript(f"{what} at position {self._at}")

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _alternatives(self, depth: int) -> None:
        if depth > _DEEPEST:
            self._fail("too many groups inside each other")
        while self._next() not in ("", ")"):
            if not self._take("|"):
                self._term(depth)

    def _term(self, depth: int) -> None:
        if self._take("^") or self._take("$"):
            return
        if self._take("\\"):
            if self._next() in ("b", "B"):
                self._at += 1
                return
            self._escape(in_class=False)
        elif self._take("("):
            if self._group(depth):
                return
        elif self._take("["):
            self._class()
        elif self._next() in tuple("*+?{}]"):
            self._fail(f"a bare {self._next()}")
        else:
            self._at += 1
        self._quantifier()

    def _group(self, depth: int) -> bool:
        """Whether it was an assertion, which cannot be repeated."""
        assertion = any(map(self._take, ("?=", "?!", "?<=", "?<!")))
        if not assertion and not self._take("?:"):
            self._groups += 1
            if self._take("?<"):
                self._name_group()
            elif self._next() == "?":
                self._fail("an unknown kind of group")
        self._alternatives(depth + 1)
        if not self._take(")"):
            self._fail("a ( that is not closed")
        return assertion

    def _name_group(self) -> None:
        name = self._name()
        if name in self._names:
            self._fail(f"a second group named {name}")
        self._names.add(name)

    def _name(self) -> str:
        end = self._text.find(">", self._at)
        name = self._text[self._at : end] if end > 0 else ""
        if not (name.isascii() and name.isidentifier()):
            self._fail("a group name that is none")
        self._at = end + 1
        return name

    def _quantifier(self) -> None:
        if self._take("{"):
            self._counts()
        elif self._next() in ("*", "+", "?"):
            self._at += 1
        else:
            return
        self._take("?")

    def _counts(self) -> None:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : max(end, self._at)].partition(",")
        numbers = [least, *([most] if most else [])]
        if end < 0 or not all(each.isascii() and each.isdigit() for each in numbers):
            self._fail("a { that counts nothing")
        if comma and most and int(least[:9]) > int(most[:9]):
            self._fail("a count that goes down")
        if any(len(each) > 9 for each in numbers):
            self._fail("a count that is too large")
        self._at = end + 1

    def _class(self) -> None:
        self._take("^")
        while not self._take("]"):
            low = self._class_atom()
            if self._next() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
                continue
            self._at += 1
            high = self._class_atom()
            if low is None or high is None:
                self._fail("a range with a class at its end")
            elif low > high:
                self._fail("a range that goes down")

    def _class_atom(self) -> int | None:
        """Its code point; None for a whole class."""
        if not self._next():
            self._fail("a [ that is not closed")
        if self._take("\\"):
            return self._escape(in_class=True)
        self._at += 1
        return ord(self._text[self._at - 1])

    def _escape(self, *, in_class: bool) -> int | None:
        character = self._next()
        if not character:
            self._fail("a backslash at the end")
        self._at += 1
        if character in _CLASSES:
            return None
        if character in _SYNTAX or (in_class and character == "-"):
            return ord(character)
        if character in _CONTROLS:
            return ord(_CONTROLS[character])
        if in_class and character == "b":
            return 8
        if character == "0" and not self._next().isdigit():
            return 0
        if character in ("p", "P"):
            self._property()
            return None
        if character == "c" and self._next().isascii() and self._next().isalpha():
            self._at += 1
            return ord(self._text[self._at - 1]) % 32
        if character == "x":
            return self._hex(2)
        if character == "u":
            return self._unicode()
        if not in_class and character.isascii() and character.isdigit() and character != "0":
            self._back_reference(character)
            return None
        if not in_class and character == "k" and self._take("<"):
            self._names_used.add(self._name())
            return None
        self._fail(f"an escape that is none: \\{character}")
        return None

    def _back_reference(self, first: str) -> None:
        number = first
        while self._next().isascii() and self._next().isdigit():
            number += self._next()
            self._at += 1
        self._numbers_used = max(self._numbers_used, int(number[:9]))

    def _hex(self, digits: int) -> int:
        text = self._text[self._at : self._at + digits]
        if len(text) < digits or not all(each in hexdigits for each in text):
            self._fail("a hexadecimal escape that is none")
        self._at += digits
        return int(text, 16)

    def _unicode(self) -> int:
        if not self._take("{"):
            return self._hex(4)
        end = self._text.find("}", self._at)
        text = self._text[self._at : max(end, self._at)]
        if not 0 < len(text) <= 6 or not all(each in hexdigits for each in text):
            self._fail("a hexadecimal escape that is none")
        if int(text, 16) > 0x10FFFF:
            self._fail("a character beyond the last")
        self._at = end + 1
        return int(text, 16)

    def _property(self) -> None:
        end = self._text.find("}", self._at)
        if not self._take("{") or end < 0:
            self._fail("a property without a name")
        name, equals, value = self._text[self._at : end].partition("=")
        if equals:
            known = value in _PROPERTIES.get(_ALIASES.get(name, name), ())
        else:
            known = name in _BINARY or name in _PROPERTIES["General_Category"]
        if not known:
            self._fail("a property that is not known to be one")
        self._at = end + 1
