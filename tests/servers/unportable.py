"""Fault: arguments that are legal JSON Schema, and that some client refuses or strips; a tool for every rule."""

from raw import ECHO, serve, tool

TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}}}
DOUBLED = {
    **{
        f"a{n}": {"type": "object", "properties": dict.fromkeys("lr", {"$ref": f"#/$defs/a{n + 1}"})} for n in range(13)
    },
    "a13": TEXT,
}

# rule -> what stands in the schema of the parameter "x"; where "root" is a key, what stands at the root instead
RULES = {
    "root-composition": {"root": {"properties": {"x": TEXT}, "anyOf": [{"required": ["x"]}]}},
    "root-type": {"root": {"type": None, "properties": {"x": TEXT}}},
    "root-properties": {"root": {"properties": None}},
    "array-items": {"type": "array"},
    "tuple-items": {"type": "array", "prefixItems": [TEXT], "items": TEXT},
    "type-union": {"type": ["string", "null"]},
    "untyped-schema": {"description": "any JSON value"},
    "missing-type": {"minLength": 1},
    "boolean-schema": {"type": "array", "items": True},
    "enum-values": {"type": "integer", "enum": [0, 2, 4]},
    "const-keyword": {"type": "string", "const": "file"},
    "string-format": {"type": "string", "format": "uri"},
    "required-unknown": {"type": "object", "properties": {"a": TEXT}, "required": ["b"]},
    "keyword-mismatch": {"type": "string", "items": TEXT},
    "property-key": {"type": "object", "properties": {"$top": TEXT}},
    "pattern-lookaround": {"type": "string", "pattern": "^(?!none$).+$"},
    "pattern-syntax": {"type": "string", "pattern": "^(?i)abc$"},
    "pattern-anchors": {"type": "string", "pattern": "[a-z]+"},
    "nested-composition": {"oneOf": [TEXT, {"type": "integer"}]},
    "unsupported-keyword": {"type": "integer", "exclusiveMinimum": 0},
    "local-ref": {"$ref": "#/$defs/Text"},
    "ref-target": {"$ref": "#/properties/text"},
    "recursive-ref": {"root": {"properties": {"x": NODE}, "$defs": {"Node": NODE}}},
    "dangling-ref": {"$ref": "#/$defs/Missing"},
    "remote-ref": {"$ref": "https://example.com/schema.json"},
    "ref-expansion": {"root": {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": DOUBLED}},
    "default-value": {"type": "string", "default": None},
    "dialect": {"type": "array", "items": TEXT, "additionalItems": False},
}


def made(rule):
    kind = RULES[rule]
    schema = {"type": "object", "properties": {"x": kind, "text": TEXT}, "$defs": {"Text": TEXT}}
    if "root" in kind:
        schema.update(kind["root"])
    return {**tool(rule), "inputSchema": {key: value for key, value in schema.items() if value is not None}}


if __name__ == "__main__":
    serve(tools=[ECHO, *map(made, RULES)])
