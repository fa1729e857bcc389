"""For each kind of fault a spelling that has it, and one that says the same and that every client takes.

The reference page is made of them, and a test holds that the first has its fault and the second has none.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXAMPLES", "schema_of"]

# kind -> what to avoid, what to write; a parameter's schema, or all arguments where it begins with ROOT
ROOT = "arguments: "
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "root-composition": (
        ROOT
        + '{"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}, '
        + '"anyOf": [{"required": ["id"]}, {"required": ["name"]}]}',
        ROOT + '{"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}}',
    ),
    "root-type": (
        ROOT + '{"properties": {"q": {"type": "string"}}}',
        ROOT + '{"type": "object", "properties": {"q": {"type": "string"}}}',
    ),
    "root-ref": (
        ROOT
        + '{"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"q": {"type": "string"}}}}}',
        ROOT + '{"type": "object", "properties": {"q": {"type": "string"}}}',
    ),
    "root-properties": (ROOT + '{"type": "object"}', ROOT + '{"type": "object", "properties": {}}'),
    "array-items": ('{"type": "array"}', '{"type": "array", "items": {"type": "string"}}'),
    "prefix-items-alone": (
        '{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]}',
        '{"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}',
    ),
    "tuple-items": (
        '{"type": "array", "items": [{"type": "integer"}, {"type": "integer"}]}',
        '{"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}',
    ),
    "prefix-items": (
        '{"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}',
        '{"type": "array", "items": {"type": "string"}, "minItems": 1}',
    ),
    "type-union": ('{"type": ["string", "null"]}', '{"anyOf": [{"type": "string"}, {"type": "null"}]}'),
    "type-union-array": (
        '{"type": ["string", "array"]}',
        '{"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}',
    ),
    "untyped": (
        '{"description": "any value"}',
        '{"anyOf": [{"type": "string"}, {"type": "number"}], "description": "any value"}',
    ),
    "untyped-additional": (
        '{"type": "object", "additionalProperties": {}}',
        '{"type": "object", "additionalProperties": true}',
    ),
    "missing-type": ('{"minLength": 1}', '{"type": "string", "minLength": 1}'),
    "boolean": (
        '{"type": "array", "items": true}',
        '{"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}',
    ),
    "enum-not-strings": ('{"type": "integer", "enum": [0, 1, 2]}', '{"type": "integer", "minimum": 0, "maximum": 2}'),
    "enum-null": (
        '{"enum": ["asc", "desc", null], "type": "string"}',
        '{"anyOf": [{"type": "string", "enum": ["asc", "desc"]}, {"type": "null"}]}',
    ),
    "enum-type": ('{"type": "integer", "enum": ["1", "2"]}', '{"type": "string", "enum": ["1", "2"]}'),
    "enum-empty-string": ('{"type": "string", "enum": ["", "asc"]}', '{"type": "string", "enum": ["asc"]}'),
    "enum-empty": ('{"type": "string", "enum": []}', '{"type": "string"}'),
    "enum-twice": ('{"type": "string", "enum": ["a", "a"]}', '{"type": "string", "enum": ["a"]}'),
    "const": ('{"type": "string", "const": "file"}', '{"type": "string", "enum": ["file"]}'),
    "format": ('{"type": "string", "format": "uri"}', '{"type": "string", "description": "a URL"}'),
    "required-unknown": (
        '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}',
        '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}',
    ),
    "items-elsewhere": ('{"type": "string", "items": {"type": "string"}}', '{"type": "string"}'),
    "properties-elsewhere": (
        '{"type": "string", "properties": {"a": {"type": "string"}}}',
        '{"type": "object", "properties": {"a": {"type": "string"}}}',
    ),
    "key-characters": (
        '{"type": "object", "properties": {"$top": {"type": "integer"}}}',
        '{"type": "object", "properties": {"top": {"type": "integer"}}}',
    ),
    "key-length": (
        '{"type": "object", "properties": {"' + "very_" * 13 + 'long": {"type": "string"}}}',
        '{"type": "object", "properties": {"long": {"type": "string"}}}',
    ),
    "key-empty": (
        '{"type": "object", "properties": {"": {"type": "string"}}}',
        '{"type": "object", "properties": {"value": {"type": "string"}}}',
    ),
    "pattern-looking": (
        '{"type": "string", "pattern": "^(?!none$)[a-z]+$"}',
        '{"type": "string", "pattern": "^[a-z]+$"}',
    ),
    "pattern-back": (
        '{"type": "string", "pattern": "^([a-z])\\\\1$"}',
        '{"type": "string", "pattern": "^[a-z][a-z]$"}',
    ),
    "pattern-foreign": ('{"type": "string", "pattern": "^(?i)yes$"}', '{"type": "string", "pattern": "^[Yy]es$"}'),
    "pattern-unicode": (
        '{"type": "string", "pattern": "^\\\\p{L}+$"}',
        '{"type": "string", "description": "letters"}',
    ),
    "pattern-loose": (
        '{"type": "string", "pattern": "^[\\\\w-.]+$"}',
        '{"type": "string", "pattern": "^[\\\\w.-]+$"}',
    ),
    "pattern-anchors": ('{"type": "string", "pattern": "[a-z]+"}', '{"type": "string", "pattern": "^.*[a-z]+.*$"}'),
    "one-of": (
        '{"oneOf": [{"type": "string"}, {"type": "integer"}]}',
        '{"anyOf": [{"type": "string"}, {"type": "integer"}]}',
    ),
    "all-of": ('{"allOf": [{"type": "string"}]}', '{"type": "string"}'),
    "keyword": ('{"type": "integer", "multipleOf": 5}', '{"type": "integer", "description": "a multiple of 5"}'),
    "exclusive-bound": ('{"type": "integer", "exclusiveMinimum": 0}', '{"type": "integer", "minimum": 1}'),
    "local-ref": (
        ROOT
        + '{"type": "object", "properties": {"kind": {"$ref": "#/$defs/Kind"}}, '
        + '"$defs": {"Kind": {"type": "string", "enum": ["a", "b"]}}}',
        ROOT + '{"type": "object", "properties": {"kind": {"type": "string", "enum": ["a", "b"]}}}',
    ),
    "ref-elsewhere": (
        ROOT + '{"type": "object", "properties": {"start": {"type": "string"}, "end": {"$ref": "#/properties/start"}}}',
        ROOT + '{"type": "object", "properties": {"start": {"type": "string"}, "end": {"type": "string"}}}',
    ),
    "recursive": (
        ROOT
        + '{"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": {"type": "object", '
        + '"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}}',
        ROOT
        + '{"type": "object", "properties": {"nodes": {"type": "array", "items": {"type": "object", '
        + '"properties": {"id": {"type": "string"}, "parent": {"type": "string"}}}}}}',
    ),
    "endless": (
        ROOT + '{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}',
        ROOT + '{"type": "object", "properties": {"a": {"type": "string"}}}',
    ),
    "dangling": ('{"$ref": "#/$defs/Missing"}', '{"type": "string"}'),
    "remote": ('{"$ref": "https://example.com/kinds.json"}', '{"type": "string", "enum": ["a", "b"]}'),
    "default-type": ('{"type": "string", "default": null}', '{"type": "string"}'),
    "dialect-unknown": (
        ROOT + '{"$schema": "https://example.com/own", "type": "object", "properties": {}}',
        ROOT + '{"type": "object", "properties": {}}',
    ),
    "dialect-ignored": (
        '{"type": "array", "items": {"type": "string"}, "additionalItems": false}',
        '{"type": "array", "items": {"type": "string"}}',
    ),
    "dialect-refused": (
        ROOT
        + '{"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", '
        + '"properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}}}',
        ROOT + '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}',
    ),
}


def schema_of(example: str) -> str:
    """An example as the text of a whole input schema."""
    if example.startswith(ROOT):
        return example.removeprefix(ROOT)
    return f'{{"type": "object", "properties": {{"x": {example}}}}}'
