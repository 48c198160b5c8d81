"""Which inputs the algorithms hand to attention backends and workers: types, fields, methods."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from inventory._syntax import bases, classes, descendants, methods, qualified, shown, signature
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

ROOT = "SpecInput"
TYPES = "SpecInputType"
_TYPES = Pattern(f"class {TYPES}: $...BODY")
_MEMBER = Pattern("$NAME = $VALUE", where={"NAME": "[A-Z][A-Z0-9_]*"})
_LIKELY = re.compile(r"\w*(?:Verify|Draft|DraftExtend|Spec)Input\w*")


def visit(source: Source) -> Iterator[Row]:
    """Members of the type enum, and every class that is, or is mixed into, an input."""
    for match in _TYPES.find(source):
        assert isinstance(match.node, ast.ClassDef)
        for member in _MEMBER.find(source, qualified(source, match.node)):
            yield _row(source, member.node, "type", member.text("NAME"), TYPES)
    for node in classes(source):
        if node.name == TYPES or not any(map(_LIKELY.fullmatch, (node.name, *bases(node)))):
            continue
        yield _row(source, node, "class", node.name, "", base_names=bases(node))
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield _row(
                    source,
                    statement,
                    "field",
                    statement.target.id,
                    node.name,
                    text=shown(source, statement).partition(":")[2].strip(),
                )
        for method in methods(node):
            yield _row(source, method, "method", method.name, node.name, text=signature(method))


def _row(
    source: Source,
    node: ast.AST,
    role: str,
    name: str,
    owner: str,
    *,
    text: str = "",
    base_names: tuple[str, ...] = (),
) -> Row:
    fields: dict[str, Value] = {
        "role": role,
        "name": name,
        "owner": owner,
        "signature": text,
        "bases": base_names,
    }
    return Row(source.site(node), fields)


def input_classes(rows: Iterable[Row]) -> set[str]:
    """Names of all classes that derive from ``SpecInput``, and of what is mixed into them."""
    above = {str(r.fields["name"]): _names(r) for r in rows if r.fields["role"] == "class"}
    inputs = descendants(above, [ROOT])
    mixed_in = {base for name in inputs for base in above.get(name, ()) if base in above}
    return (inputs | mixed_in) & above.keys()


def _names(row: Row) -> tuple[str, ...]:
    value = row.fields["bases"]
    return value if isinstance(value, tuple) else ()


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterable[Row]:
    """Keep what belongs to a class of the family."""
    kept = {*input_classes(rows), TYPES}
    return [r for r in rows if (r.fields["owner"] or r.fields["name"]) in kept]


_CASE = Case(
    "types, a derived input with its mixin, and a class that only sounds like one",
    {
        "sglang/spec.py": """\
class SpecInputType(IntEnum):
    DFLASH_VERIFY = auto()

class SpecInput(ABC):
    def is_verify_input(self) -> bool: ...

class EagleVerifyInputMixin:
    def prepare(self, batch): ...

@dataclass
class EagleVerifyInput(SpecInput, EagleVerifyInputMixin):
    topk: int
    positions: torch.Tensor = None

class DraftInputParser:
    def parse(self): ...
""",
    },
    (
        {"role": "type", "name": "DFLASH_VERIFY", "owner": "SpecInputType", "line": 2},
        {"role": "class", "name": "SpecInput", "line": 4},
        {"role": "class", "name": "EagleVerifyInputMixin"},
        {
            "role": "class",
            "name": "EagleVerifyInput",
            "bases": ("SpecInput", "EagleVerifyInputMixin"),
        },
        {"role": "method", "name": "is_verify_input", "signature": "(self) -> bool"},
        {"role": "method", "name": "prepare", "owner": "EagleVerifyInputMixin"},
        {"role": "field", "name": "topk", "signature": "int", "owner": "EagleVerifyInput"},
        {"role": "field", "name": "positions", "signature": "torch.Tensor = None"},
    ),
)

QUERY = Query(
    id="spec_inputs",
    title="Speculative inputs",
    why="A verify input is what attention backends read the tree from; a new one must have the"
    " fields and methods that they use.",
    columns={
        "name": "its name",
        "role": "type, class, field or method",
        "signature": "of a method; annotation and default of a field",
        "owner": "the class that it belongs to",
        "bases": "of a class",
    },
    prefilter=(b"VerifyInput", b"DraftInput", b"DraftExtendInput", b"SpecInput"),
    visit=visit,
    resolve=resolve,
    cases=(_CASE,),
    order=(("role", ("type", "class")),),
    expects={
        TYPES: {"role": "type", "owner": TYPES},
        **{
            name: {"role": "class", "name": name}
            for name in (ROOT, "EagleVerifyInput", "EagleDraftInput")
        },
    },
)
