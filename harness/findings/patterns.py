"""What a regular expression in a schema asks of the engine that reads it; nothing is compiled or matched here.

JSON Schema means ECMA-262 expressions. A pattern travels to engines that know more, less or other things: RE2, Rust's
`regex`, Python's `re`, grammar converters. One scan tells which constructs stand in it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_PATTERN", "PatternFacts", "scan"]

MAX_PATTERN = 20_000  # characters that are looked at

_LOOK = {"(?=": "a lookahead", "(?!": "a lookahead", "(?<=": "a lookbehind", "(?<!": "a lookbehind"}
_FOREIGN_ESCAPES = {
    "A": "start of the text in Python and PCRE; in ECMA-262 the letter A, or an error",
    "Z": "end of the text in Python and PCRE; in ECMA-262 the letter Z, or an error",
    "z": "end of the text in PCRE; in ECMA-262 the letter z, or an error",
    "G": "a PCRE anchor; in ECMA-262 the letter G, or an error",
    "Q": "a PCRE quotation; in ECMA-262 the letter Q, or an error",
    "h": "a blank in PCRE; in ECMA-262 the letter h, or an error",
    "R": "a line break in PCRE; in ECMA-262 the letter R, or an error",
    "K": "a PCRE reset; in ECMA-262 the letter K, or an error",
    "X": "a grapheme in PCRE; in ECMA-262 the letter X, or an error",
}
_SETS = "dDsSwWpP"  # escapes that stand for many characters
_KNOWN_ESCAPES = frozenset(_SETS + "fnrtv" + "^$\\.*+?()[]{}|/")  # with the flag u
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFacts:
    """What stands in a pattern; each text quotes the construct, "" where there is none.

    Attributes:
        broken: Why no engine reads it.
        looking: A lookahead or lookbehind; `looking_is` says which.
        back: A back-reference.
        foreign: A construct of another engine than ECMA-262's; `foreign_is` says what it is.
        unicode: A Unicode property class.
        loose: What ECMA-262 reads without its flag u and refuses with it; `loose_is` says what it is.
        anchored: It begins with ^ and ends with $.
    """

    broken: str = ""
    looking: str = ""
    looking_is: str = ""
    back: str = ""
    foreign: str = ""
    foreign_is: str = ""
    unicode: str = ""
    loose: str = ""
    loose_is: str = ""
    anchored: bool = False


class _Scan:
    """One pass over a pattern, with what it met so far."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: dict[str, str] = {}
        self.open = 0
        self.repeatable = False  # whether a quantifier may come now
        self.dollar = -1  # where the last anchor $ stood

    def note(self, what: str, quote: str, about: str = "") -> None:
        if what not in self.found:
            self.found[what] = quote
            if about:
                self.found[f"{what}_is"] = about

    def run(self) -> None:
        text = self.text
        while self.at < len(text) and "broken" not in self.found:
            char = text[self.at]
            if char == "\\":
                self.escape(in_class=False)
            elif char == "[":
                self.character_class()
                self.repeatable = True
            elif char == "(":
                self.group()
            elif char == ")":
                if not self.open:
                    self.note("broken", f"a ) at {self.at} closes no group")
                self.open -= 1
                self.repeatable = True
                self.at += 1
            elif char in "*+?":
                self.quantifier(1)
            elif char == "{" and (end := self.counted()):
                self.quantifier(end - self.at)
            else:
                if char == "$":
                    self.dollar = self.at
                elif char in "{}]":
                    self.note("loose", char, "a bracket that opens or closes nothing, and is not escaped")
                self.repeatable = char not in "^$|"
                self.at += 1
        if self.open > 0:
            self.note("broken", "a ( is never closed")

    def escape(self, *, in_class: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        quote = self.text[self.at : self.at + 2]
        length = 2
        if following and following in "pPu" and self.text[self.at + 2 : self.at + 3] == "{":
            end = self.text.find("}", self.at, self.at + 64)
            length = end + 1 - self.at if end > 0 else 2
        if not self.is_strict(following, in_class=in_class):
            self.note("loose", quote, f"an escape of {following}, which needs none or means something else elsewhere")
        if not following:
            self.note("broken", "it ends in a lone backslash")
        elif following in "pP" and self.text[self.at + 2 : self.at + 3] == "{":
            self.note("unicode", self.text[self.at : self.at + length])
        elif not in_class and following.isascii() and following.isdigit() and following != "0":
            self.note("back", quote)
        elif not in_class and following == "k" and self.text[self.at + 2 : self.at + 3] in ("<", "'", "{"):
            self.note("back", self.text[self.at : self.at + 12])
        elif not in_class and following in _FOREIGN_ESCAPES:
            self.note("foreign", quote, _FOREIGN_ESCAPES[following])
        self.repeatable = following not in ("b", "B")
        self.at += length

    def is_strict(self, following: str, *, in_class: bool) -> bool:
        """Whether the escape that begins here is one with the flag u too."""
        rest = self.text[self.at + 2 : self.at + 6]
        match following:
            case "p" | "P":
                return rest.startswith("{")
            case "b":
                return True
            case "-":
                return in_class
            case "B" | "k":
                return not in_class
            case "c":
                return rest[:1].isascii() and rest[:1].isalpha()
            case "x":
                return len(rest) > 1 and _HEX.issuperset(rest[:2])
            case "u":
                return rest.startswith("{") or (len(rest) == 4 and _HEX.issuperset(rest))
            case "0":
                return not (rest[:1].isascii() and rest[:1].isdigit())
            case _ if following.isascii() and following.isdigit():
                return not in_class  # a reference, of which more is said elsewhere
            case _:
                return not following or following in _KNOWN_ESCAPES

    def sets_in_range(self, begin: int) -> None:
        """Notes a range of which an end is a set, such as that of `[\\w-.]`; the first stands from `begin` to here."""
        first, rest = self.text[begin : self.at], self.text[self.at : self.at + 4]
        if rest[:1] != "-" or rest[1:2] in ("", "]"):
            return
        length = 3 if rest[1] == "\\" else 2
        if (first[0] == "\\" and first[1:2] in _SETS) or (length == 3 and rest[2:3] and rest[2] in _SETS):
            self.note("loose", first + rest[:length], "a range from or to a set of characters")

    def character_class(self) -> None:
        begin = self.at
        self.at += 1
        if self.text[self.at : self.at + 1] == "^":
            self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "]":
                self.at += 1
                return
            if char == "\\":
                start = self.at
                self.escape(in_class=True)
                self.sets_in_range(start)
                continue
            if char == "[" and self.text[self.at + 1 : self.at + 2] == ":":
                end = self.text.find(":]", self.at, self.at + 16)
                if end > 0:
                    about = "a POSIX class; in ECMA-262 the characters themselves"
                    self.note("foreign", self.text[self.at : end + 2], about)
            elif self.text[self.at + 1 : self.at + 2] == "-" and self.text[self.at + 2 : self.at + 3] not in (
                "",
                "]",
                "\\",
            ):
                if self.text[self.at + 2] < char:
                    self.note("broken", f"the range {self.text[self.at : self.at + 3]} runs backwards")
                self.at += 3
                continue
            self.at += 1
            self.sets_in_range(self.at - 1)
        self.note("broken", f"the [ at {begin} is never closed")

    def group(self) -> None:
        rest = self.text[self.at : self.at + 4]
        for start in ("(?<=", "(?<!", "(?=", "(?!"):
            if rest.startswith(start):
                self.note("looking", start, _LOOK[start])
                break
        else:
            if rest.startswith("(?P"):
                self.note("foreign", rest[:4], "a named group as Python spells it")
                if rest == "(?P=":
                    self.note("back", "(?P=")
            elif rest.startswith("(?") and not rest.startswith(("(?:", "(?<")):
                self.note("foreign", rest[:3], "a group that ECMA-262 does not know, or only lately")
            elif rest.startswith("(*"):
                self.note("foreign", rest[:2], "a PCRE verb")
        self.open += 1
        self.repeatable = False
        self.at += 1
        if self.text[self.at : self.at + 1] == "?":
            self.at += 1
            while self.at < len(self.text) and self.text[self.at] in "<=!:P>#|imsxaLu-(R&'":
                char = self.text[self.at]
                if char == "(":
                    break
                self.at += 1
                if char in "=!:>#|":
                    break

    def counted(self) -> int:
        """Where a quantifier such as {2,5} ends, 0 where the brace is none."""
        end = self.text.find("}", self.at, self.at + 24)
        if end < 0:
            return 0
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit()) or (comma and high and not (high.isascii() and high.isdigit())):
            return 0
        if comma and high and int(high) < int(low):
            self.note("broken", f"{self.text[self.at : end + 1]} counts backwards")
        return end + 1

    def quantifier(self, length: int) -> None:
        if not self.repeatable:
            self.note("broken", f"nothing stands before the {self.text[self.at]} at {self.at}")
        self.at += length
        following = self.text[self.at : self.at + 1]
        if following == "?":
            self.at += 1
        elif following == "+":
            self.note("foreign", self.text[self.at - 1 : self.at + 1], "a possessive quantifier")
            self.at += 1
        self.repeatable = False


def scan(pattern: str) -> PatternFacts:
    """What a pattern asks of its reader; linear in its length."""
    text = pattern[:MAX_PATTERN]
    work = _Scan(text)
    work.run()
    if len(pattern) > MAX_PATTERN:
        work.found.pop("broken", None)
    anchored = (
        pattern.startswith("^")
        and pattern.endswith("$")
        and (len(pattern) > MAX_PATTERN or "broken" in work.found or work.dollar == len(pattern) - 1)
    )
    return PatternFacts(anchored=anchored, **work.found)
