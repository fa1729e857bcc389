"""Whether a reason is one: words that tell a reader something, or a placeholder for them."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["MIN_LETTERS", "MIN_WORDS", "placeholder"]

MIN_WORDS = 3
MIN_LETTERS = 10  # in scripts that put no spaces between words
MIN_DIFFERENT_LETTERS = 4

_MARKERS = frozenset({"todo", "fixme", "tbd", "tba", "tbc", "xxx", "wip", "hack"})
_FILLER_WORDS = """
    a an and add asap be bug by case cases do does doing done fix fixed for from gap given going goes here ignore
    ignored in is issue it its just known later lorem ipsum dolor me missing n na nil no none not now nothing null of or
    pending placeholder problem reason reasons see skip skipped skipping soon something still temp temporarily temporary
    test tested testing tests that the then this to tool unknown untested us valid we whatever will with write yet
    asdf foo bar baz blah bla etc excuse excused exempt exempted
"""
_FILLERS = _MARKERS | frozenset(_FILLER_WORDS.split())
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)


def placeholder(reason: str, subject: str) -> str:
    """Why a reason is none, as half a sentence; "" if it is one.

    Args:
        subject: What is excused; its own name is no reason.
    """
    plain = unicodedata.normalize("NFKC", reason).casefold()
    words = [word for raw in _URL.sub(" ", plain).split() if (word := _trimmed(raw))]
    if not words:
        return "the reason is empty" if not reason.strip() else "the reason has no words"
    if words[0] in _MARKERS or re.split(r"[\W_]+", words[0])[0] in _MARKERS:
        return "the reason is a note to do something"
    parts = {part for word in words for part in _parts(word)}
    named = _parts(unicodedata.normalize("NFKC", subject).casefold())
    if not parts - named - {"the", "tool", "a", "this"}:
        return "the reason only repeats the name"
    if not parts - named - _FILLERS:
        return "the reason is a placeholder"
    letters = _SPACELESS.findall(plain)
    if letters:
        if len(letters) >= MIN_LETTERS and len(set(letters)) >= MIN_DIFFERENT_LETTERS:
            return ""
        if len([word for word in words if not _SPACELESS.search(word)]) < MIN_WORDS:
            return f"the reason has fewer than {MIN_LETTERS} letters"
    if len(words) < MIN_WORDS:
        return f"the reason has fewer than {MIN_WORDS} words"
    if len(set(words)) < MIN_WORDS:
        return "the reason repeats one word"
    return ""


def _trimmed(word: str) -> str:
    """A word without what is no letter or digit around it; "" if it has no letter."""
    inner = re.sub(r"\A[\W_]+|[\W_]+\Z", "", word)
    return inner if any(char.isalpha() for char in inner) else ""


def _parts(word: str) -> set[str]:
    """The words in a name: `list_all-events` has three."""
    return {part for part in re.split(r"[\W_]+", word) if part}
