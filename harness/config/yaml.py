"""A YAML file -> values that know their lines. Of YAML it takes what compose files are written in, and little more.

Scalars stay text, but for `true`, `false` and nothing at all: what a number means is for the reader of the key to say
(YAML 1.1 takes 22:22 for 1342).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.config.problems import Path, Problem, printable, quoted, where_of
from harness.model.plan import Place

__all__ = ["MAX_NODES", "YamlDocument", "parse_yaml"]

MAX_NODES = 20_000  # after anchors were followed: a few lines can stand for a million million nodes
MAX_DEPTH = 50

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_UNFIT = re.compile("[\\0\ud800-\udfff]")
_NOTHING = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A YAML file that was read: its values are dict, list, str, bool and None."""

    file: str
    data: Any
    lines: Mapping[Path, int]

    def problem(self, path: Path, message: str, hint: str = "", *, table: bool = False) -> Problem:
        """A problem of one value, or (`table`) of a mapping as a whole."""
        at = path
        while at not in self.lines and at:
            at = at[:-1]
        return Problem(Place(file=self.file, line=self.lines.get(at)), where_of(path, table=table), message, hint)


class _Wrong(Exception):
    def __init__(self, message: str, line: int | None, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.line, self.hint = message, line, hint


def parse_yaml(data: bytes, *, file: str) -> YamlDocument | Problem:
    """The document, or the one problem that keeps it from being read."""
    import yaml

    try:
        loader = yaml.SafeLoader(data.decode("utf-8-sig"))
        node = loader.get_single_node()
        lines: dict[Path, int] = {}
        value = _Walk(loader, lines).value(node, (), 0) if node is not None else None
    except UnicodeDecodeError as error:
        return Problem(Place(file=file), "", f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        return Problem(Place(file=file, line=line), "", f"not YAML: {printable(error.problem or str(error))}")
    except (yaml.YAMLError, ValueError) as error:
        return Problem(Place(file=file), "", f"not YAML: {printable(str(error).splitlines()[0])}")
    except RecursionError:
        return Problem(Place(file=file), "", f"nested deeper than {MAX_DEPTH} levels")
    except _Wrong as error:
        return Problem(Place(file=file, line=error.line), "", error.message, error.hint)
    return YamlDocument(file, value, lines)


class _Walk:
    def __init__(self, loader: Any, lines: dict[Path, int]) -> None:
        self.loader, self.lines, self.nodes = loader, lines, 0
        self.flat: set[int] = set()

    def value(self, node: Any, path: Path, depth: int) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            much = f"nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"more than {MAX_NODES:,} values"
            raise _Wrong(much, line)
        if not node.tag.startswith("tag:yaml.org,2002:"):
            raise _Wrong(f"the tag {quoted(node.tag)} is not taken over", line, "write the values themselves")
        match node:
            case yaml.ScalarNode():
                if _UNFIT.search(node.value):
                    raise _Wrong("a character that no program can be given", line)
                plain = node.style is None
                if plain and node.value in _NOTHING:
                    return None
                return _WORDS[node.value] if plain and node.value in _WORDS else node.value
            case yaml.SequenceNode():
                return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
            case _:
                return self.mapping(node, path, depth)

    def mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        import yaml

        own: set[str] = set()
        for key, _ in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _Wrong("a key that is no text", at)
            if key.tag == "tag:yaml.org,2002:merge" or id(node) in self.flat:
                continue  # a mapping that an alias repeats was looked at before its merge keys were filled in
            if key.value in own:
                raise _Wrong(f"the key {quoted(key.value)} stands twice", at, "remove one of them")
            own.add(key.value)
        self.flat.add(id(node))
        self.loader.flatten_mapping(node)  # merge keys (<<); what is given here comes after what is merged
        out: dict[str, Any] = {}
        for key, value in node.value:
            where = (*path, key.value)
            self.lines[where] = key.start_mark.line + 1
            out[key.value] = self.value(value, where, depth + 1)
        return out
