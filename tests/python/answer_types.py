"""Types of the API's answers, for Python and TypeScript, from the schema that the controller publishes."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "crates/maple-controller/src/control/answers.json"
STUB = ROOT / "python/maple/client/types.pyi"
DECLARATIONS = ROOT / "web/src/api/answers.ts"
Schema = dict[str, Any]

# The types of answers of `maple.client`: their names, and where the schema has them. A list is its rows here, and a row
# of a list of a switch has the switch with it.
TYPES = {
    "SwitchRow": "answer to show.switches",
    "PortRow": "answer to show.ports/ports",
    "HostRow": "host",
    "GroupRow": "answer to show.groups",
    "LeaseRow": "answer to show.leases",
    "MapAnswer": "answer to show.map",
    "NamesAnswer": "answer to show.names",
    "TimeAnswer": "answer to show.time",
    "TimeAt": "answer to show.time_at",
    "TimeChanges": "answer to show.time_changes",
    "RuleRow": "answer to show.rules/rules",
    "TablesRow": "answer to show.tables",
    "TreeRow": "answer to show.tree",
    "LabelRow": "answer to show.labels/labels",
    "FlowRow": "answer to show.flows",
    "DropRow": "answer to show.dropped",
    "AccessListRow": "answer to show.access_lists",
    "PolicyAnswer": "answer to show.policy",
    "Explanation": "answer to explain.packet",
    "ClusterAnswer": "cluster of a controller",
    "StepDownAnswer": "answer to cluster.step_down",
    "ControllerAnswer": "answer to show.controller",
    "StatsAnswer": "answer to show.stats",
    "VersionAnswer": "answer to show.version",
    "DoctorAnswer": "answer to show.doctor",
    "ErrorRow": "answer to show.errors",
    "LogRow": "log line",
    "HistoryRow": "answer to show.history",
    "StateRow": "answer to state.list",
    "ValueRow": "value with writer",
    "WriteAnswer": "answer to state.set",
    "LoadAnswer": "answer to state.load",
    "ReloadAnswer": "answer to reload.policy",
    "PlanAnswer": "answer to reload.plan",
}
# Other definitions that these name, with names of their own.
PARTS = {"location": "Place", "written": "Written", "source line": "SourceLine", "gaps": "Gap"}


def definitions() -> dict[str, Schema]:
    """The definitions of the schema, by name."""
    found: dict[str, Schema] = json.loads(SCHEMA.read_text())["$defs"]
    return found


def camel(text: str) -> str:
    """Words as one name: `port then` becomes `PortThen`."""
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", text) if word)


def answer(place: str) -> Schema:
    """What the schema has at a place: of a list its row, of a nested one the inner row with its switch."""
    name, _, inner = place.partition("/")
    schema = definitions()[name]
    if schema.get("type") == "array":
        schema = schema["items"]
    if not inner:
        return schema
    row = schema["properties"][inner]["items"]
    properties = {"switch": schema["properties"]["switch"], **row["properties"]}
    return {**row, "properties": properties, "required": ["switch", *row["required"]]}


def types_of(schema: Schema) -> list[str]:
    """The kinds of values that a schema lets in, if it says so."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


@dataclass
class Language:
    """Writes types of one language, each object as a type of its own. An object is written after what it names."""

    # What is written of each type, and the expression of each definition.
    done: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def all(self) -> str:
        """All types."""
        for name, place in TYPES.items():
            self.named(name, answer(place))
        return "\n".join(self.done.values())

    def named(self, name: str, schema: Schema) -> None:
        """Writes a type with this name, unless it is there already."""
        if name not in self.done:
            written = self.alias(name, self.expression(schema, name))
            self.done.setdefault(name, written)

    def expression(self, schema: Schema, name: str) -> str:
        """Writes what a schema lets in. Objects in it get names that begin with this one."""
        if "$ref" in schema:
            return self.reference(schema["$ref"].removeprefix("#/$defs/"))
        if "const" in schema:
            return self.literal([schema["const"]])
        if "enum" in schema:
            return self.literal(schema["enum"])
        if "anyOf" in schema:
            count = sum("properties" in one for one in schema["anyOf"])
            numbered = [f"{name}{at}" if count > 1 else name for at, one in enumerate(schema["anyOf"], 1)]
            parts = zip(schema["anyOf"], numbered, strict=True)
            return self.union([self.expression(one, own) for one, own in parts])
        kinds = types_of(schema)
        if not kinds:
            return self.anything()
        return self.union([self.kind(kind, schema, name) for kind in kinds])

    def kind(self, kind: str, schema: Schema, name: str) -> str:
        """Writes one kind of values that a schema lets in."""
        if kind == "array":
            return self.array(schema, name)
        if kind == "object" and "properties" in schema:
            own = {key: self.expression(value, name + camel(key)) for key, value in schema["properties"].items()}
            self.done[name] = self.record(name, schema, own)
            return name
        if kind == "object":
            values = schema.get("additionalProperties", True)
            return self.mapping(self.expression(values, name) if isinstance(values, dict) else self.anything())
        return self.plain(kind)

    def reference(self, of: str) -> str:
        """Writes a definition that another names."""
        if of == "value":
            return self.value()
        if of not in self.known:
            names = {place: name for name, place in TYPES.items()} | PARTS
            self.known[of] = self.expression(definitions()[of], names.get(of, camel(of)))
        return self.known[of]

    def union(self, parts: list[str]) -> str:
        """Writes that any of these is let in; nothing comes last."""
        nothing = self.plain("null")
        some = [part.removesuffix(f" | {nothing}") for part in parts if part != nothing]
        return " | ".join(dict.fromkeys(some if some == parts else [*some, nothing]))

    def alias(self, name: str, expression: str) -> str:
        raise NotImplementedError

    def record(self, name: str, schema: Schema, own: dict[str, str]) -> str:
        raise NotImplementedError

    def literal(self, values: list[object]) -> str:
        raise NotImplementedError

    def array(self, schema: Schema, name: str) -> str:
        raise NotImplementedError

    def mapping(self, value: str) -> str:
        raise NotImplementedError

    def plain(self, kind: str) -> str:
        raise NotImplementedError

    def anything(self) -> str:
        raise NotImplementedError

    def value(self) -> str:
        raise NotImplementedError


class Python(Language):
    """A stub with a `TypedDict` for each object."""

    def alias(self, name: str, expression: str) -> str:
        return f"{name}: TypeAlias = {expression}\n"

    def record(self, name: str, schema: Schema, own: dict[str, str]) -> str:
        needs = set(schema.get("required", []))
        typed = {key: value if key in needs else f"NotRequired[{value}]" for key, value in own.items()}
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in own):
            return f"class {name}(TypedDict):\n" + "".join(f"    {key}: {value}\n" for key, value in typed.items())
        rows = "".join(f"        {json.dumps(key)}: {value},\n" for key, value in typed.items())
        return f"{name} = TypedDict(\n    {json.dumps(name)},\n    {{\n{rows}    }},\n)\n"

    def literal(self, values: list[object]) -> str:
        return f"Literal[{', '.join('None' if one is None else repr(one) for one in values)}]".replace("'", '"')

    def array(self, schema: Schema, name: str) -> str:
        items = schema.get("prefixItems", [schema.get("items", {})])
        return f"list[{self.union([self.expression(one, name) for one in items])}]"

    def mapping(self, value: str) -> str:
        return f"dict[str, {value}]"

    def plain(self, kind: str) -> str:
        return {"null": "None", "boolean": "bool", "integer": "int", "number": "float", "string": "str"}[kind]

    def anything(self) -> str:
        return "Any"

    def value(self) -> str:
        return "Any"


class TypeScript(Language):
    """A type for each object."""

    def alias(self, name: str, expression: str) -> str:
        return f"export type {name} = {expression};\n"

    def record(self, name: str, schema: Schema, own: dict[str, str]) -> str:
        needs = set(schema.get("required", []))
        rows = [f"  readonly {key}{'' if key in needs else '?'}: {value};\n" for key, value in own.items()]
        return f"export type {name} = {{\n{''.join(rows)}}};\n"

    def literal(self, values: list[object]) -> str:
        return " | ".join(json.dumps(one) for one in values)

    def array(self, schema: Schema, name: str) -> str:
        if "prefixItems" in schema:
            return f"readonly [{', '.join(self.expression(one, name) for one in schema['prefixItems'])}]"
        item = self.expression(schema.get("items", {}), name)
        if schema.get("minItems") == schema.get("maxItems") == 2:
            return f"readonly [{item}, {item}]"
        return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"

    def mapping(self, value: str) -> str:
        return f"Readonly<Record<string, {value}>>"

    def plain(self, kind: str) -> str:
        return {"null": "null", "boolean": "boolean", "integer": "number", "number": "number", "string": "string"}[kind]

    def anything(self) -> str:
        return "unknown"

    def value(self) -> str:
        return "Json"


def stub() -> str:
    """The types for Python."""
    head = (
        '"""The types of answers, made of the schema of answers by tests/python/answer_types.py.\n\n'
        "Only for checkers of types: `if TYPE_CHECKING: from maple.client.types import SwitchRow`.\n"
        '"""\n\nfrom typing import Any, Literal, TypeAlias\n\nfrom typing_extensions import NotRequired, TypedDict\n\n'
    )
    return head + Python().all()


def declarations() -> str:
    """The types for TypeScript."""
    head = (
        "// The answers of the API, made of the schema of answers by tests/python/answer_types.py.\n\n"
        "export type Json = null | boolean | number | string | readonly Json[] | {readonly [name: string]: Json};\n\n"
    )
    return head + TypeScript().all()
