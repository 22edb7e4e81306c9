"""Checks whether JavaScript compiles a pattern in strict mode (with the `u` flag).

Clients written in JavaScript compile `pattern` with that flag; if one pattern does not compile, they
lose the whole list of tools. Modifiers (`(?i:…)`) and the `v` flag are too new to rely on.
"""

from string import hexdigits

_SYNTAX_CHARACTERS = frozenset("^$\\.*+?()[]{}|/")
_CONTROL_ESCAPES = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASS_ESCAPES = frozenset("dDsSwW")
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
_PROPERTY_ALIASES = {
    "gc": "General_Category",
    "sc": "Script",
    "scx": "Script",
    "Script_Extensions": "Script",
}
_BINARY_PROPERTIES = frozenset(
    (
        *("ASCII", "Any", "Assigned", "Alphabetic", "Lowercase", "Uppercase", "White_Space"),
        *("ASCII_Hex_Digit", "Hex_Digit", "ID_Start", "ID_Continue", "Emoji", "XID_Start"),
        *("XID_Continue", "Emoji_Presentation", "Extended_Pictographic"),
    )
)
_MAX_GROUP_DEPTH = 100


class InvalidJavaScriptPattern(ValueError):
    """The message is the problem and its position in the pattern."""


def check_pattern(pattern: str) -> None:
    """Raise `InvalidJavaScriptPattern` unless the pattern compiles.

    Some patterns that JavaScript accepts are refused too.
    """
    _PatternParser(pattern).parse()


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._group_count = 0
        self._group_names: set[str] = set()
        self._highest_reference = 0
        self._referenced_names: set[str] = set()

    def parse(self) -> None:
        self._parse_alternatives(0)
        if self._position < len(self._pattern):
            self._fail("a ) that closes nothing")
        if (
            self._highest_reference > self._group_count
            or not self._referenced_names <= self._group_names
        ):
            self._fail("a reference to a group that is not there")

    def _fail(self, problem: str) -> None:
        raise InvalidJavaScriptPattern(f"{problem} at position {self._position}")

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _accept(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _parse_alternatives(self, depth: int) -> None:
        if depth > _MAX_GROUP_DEPTH:
            self._fail("too many groups inside each other")
        while self._peek() not in ("", ")"):
            if not self._accept("|"):
                self._parse_term(depth)

    def _parse_term(self, depth: int) -> None:
        if self._accept("^") or self._accept("$"):
            return
        if self._accept("\\"):
            if self._peek() in ("b", "B"):
                self._position += 1
                return
            self._parse_escape(in_class=False)
        elif self._accept("("):
            if self._parse_group(depth):
                return
        elif self._accept("["):
            self._parse_class()
        elif self._peek() in tuple("*+?{}]"):
            self._fail(f"a bare {self._peek()}")
        else:
            self._position += 1
        self._parse_quantifier()

    def _parse_group(self, depth: int) -> bool:
        """Return whether the group is an assertion, which cannot be repeated."""
        assertion = any(map(self._accept, ("?=", "?!", "?<=", "?<!")))
        if not assertion and not self._accept("?:"):
            self._group_count += 1
            if self._accept("?<"):
                self._register_group_name()
            elif self._peek() == "?":
                self._fail("an unknown kind of group")
        self._parse_alternatives(depth + 1)
        if not self._accept(")"):
            self._fail("a ( that is not closed")
        return assertion

    def _register_group_name(self) -> None:
        name = self._parse_name()
        if name in self._group_names:
            self._fail(f"a second group named {name}")
        self._group_names.add(name)

    def _parse_name(self) -> str:
        end = self._pattern.find(">", self._position)
        name = self._pattern[self._position : end] if end > 0 else ""
        if not (name.isascii() and name.isidentifier()):
            self._fail("a group name that is none")
        self._position = end + 1
        return name

    def _parse_quantifier(self) -> None:
        if self._accept("{"):
            self._parse_counts()
        elif self._peek() in ("*", "+", "?"):
            self._position += 1
        else:
            return
        self._accept("?")

    def _parse_counts(self) -> None:
        end = self._pattern.find("}", self._position)
        least, comma, most = self._pattern[self._position : max(end, self._position)].partition(",")
        numbers = [least, *([most] if most else [])]
        if end < 0 or not all(each.isascii() and each.isdigit() for each in numbers):
            self._fail("a { that counts nothing")
        if comma and most and int(least[:9]) > int(most[:9]):
            self._fail("a count that goes down")
        if any(len(each) > 9 for each in numbers):
            self._fail("a count that is too large")
        self._position = end + 1

    def _parse_class(self) -> None:
        self._accept("^")
        while not self._accept("]"):
            low = self._parse_class_atom()
            if self._peek() != "-" or self._pattern[self._position + 1 : self._position + 2] in (
                "",
                "]",
            ):
                continue
            self._position += 1
            high = self._parse_class_atom()
            if low is None or high is None:
                self._fail("a range with a class at its end")
            elif low > high:
                self._fail("a range that goes down")

    def _parse_class_atom(self) -> int | None:
        """Return the code point of the atom; None for a class such as `\\d`."""
        if not self._peek():
            self._fail("a [ that is not closed")
        if self._accept("\\"):
            return self._parse_escape(in_class=True)
        self._position += 1
        return ord(self._pattern[self._position - 1])

    def _parse_escape(self, *, in_class: bool) -> int | None:
        character = self._peek()
        if not character:
            self._fail("a backslash at the end")
        self._position += 1
        if character in _CLASS_ESCAPES:
            return None
        if character in _SYNTAX_CHARACTERS or (in_class and character == "-"):
            return ord(character)
        if character in _CONTROL_ESCAPES:
            return ord(_CONTROL_ESCAPES[character])
        if in_class and character == "b":
            return 8
        if character == "0" and not self._peek().isdigit():
            return 0
        if character in ("p", "P"):
            self._parse_property()
            return None
        if character == "c" and self._peek().isascii() and self._peek().isalpha():
            self._position += 1
            return ord(self._pattern[self._position - 1]) % 32
        if character == "x":
            return self._parse_hex(2)
        if character == "u":
            return self._parse_unicode()
        if not in_class and character.isascii() and character.isdigit() and character != "0":
            self._parse_back_reference(character)
            return None
        if not in_class and character == "k" and self._accept("<"):
            self._referenced_names.add(self._parse_name())
            return None
        self._fail(f"an escape that is none: \\{character}")
        return None

    def _parse_back_reference(self, first: str) -> None:
        number = first
        while self._peek().isascii() and self._peek().isdigit():
            number += self._peek()
            self._position += 1
        self._highest_reference = max(self._highest_reference, int(number[:9]))

    def _parse_hex(self, digits: int) -> int:
        text = self._pattern[self._position : self._position + digits]
        if len(text) < digits or not all(each in hexdigits for each in text):
            self._fail("a hexadecimal escape that is none")
        self._position += digits
        return int(text, 16)

    def _parse_unicode(self) -> int:
        if not self._accept("{"):
            return self._parse_hex(4)
        end = self._pattern.find("}", self._position)
        text = self._pattern[self._position : max(end, self._position)]
        if not 0 < len(text) <= 6 or not all(each in hexdigits for each in text):
            self._fail("a hexadecimal escape that is none")
        if int(text, 16) > 0x10FFFF:
            self._fail("a character beyond the last")
        self._position = end + 1
        return int(text, 16)

    def _parse_property(self) -> None:
        end = self._pattern.find("}", self._position)
        if not self._accept("{") or end < 0:
            self._fail("a property without a name")
        name, equals, value = self._pattern[self._position : end].partition("=")
        if equals:
            known = value in _PROPERTIES.get(_PROPERTY_ALIASES.get(name, name), ())
        else:
            known = name in _BINARY_PROPERTIES or name in _PROPERTIES["General_Category"]
        if not known:
            self._fail("a property that is not known to be one")
        self._position = end + 1
