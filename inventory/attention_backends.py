"""Which attention backends read the tree mask of a verify input.

The verdict is read off the code, so it comes with its evidence. A backend that computes a mask and
does not hand it on reads none; neither does one that inherits from a reader and replaces both the
preparation and the attention.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from inventory._syntax import bases, classes, descendants, last_name, methods, shown
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

ROOT = "AttentionBackend"
_PREPARATION = "init_forward_metadata"
_READ = Pattern(
    "$INPUT.$WHAT",
    where={"INPUT": r"(?:.*\.)?spec_info", "WHAT": "custom_mask|retrieve_next_token"},
)
_COMPUTED = Pattern("$...BEFORE, custom_mask = $INPUT.generate_attn_arg_prefill($...ARGS)")
_HANDED_ON = Pattern("$CALL($..., custom_mask=$MASK)", where={"MASK": r"\w*mask\w*"})
_MADE = Pattern("$CLASS($...ARGS)", where={"CLASS": r"[A-Z]\w+"})
_CALLED = Pattern(
    "$HOLDER.$METHOD($...ARGS)", where={"METHOD": rf"_\w+|{_PREPARATION}\w*|forward_extend"}
)
_LEAVES = (ast.Return, ast.Raise)
_WIDTH = re.compile(r"\btopk\b|eagle_topk")
YES, NARROW, NO, DELEGATES = "yes", "only if topk > 1", "no", "delegates"


def visit(source: Source) -> Iterator[Row]:
    """Every class that may be a backend: its own evidence, and what it does itself."""
    local = {node.name: node for node in classes(source)}
    reads = _reads(source)
    made = [(m.node, m.text("CLASS")) for m in _MADE.find(source)]
    calls = [(m.node, last_name(m.bound("HOLDER")), m.text("METHOD")) for m in _CALLED.find(source)]
    for node in local.values():
        if not (bases(node) or node.name == ROOT):
            continue
        parts = {node.name, *(n for at, n in made if n in local and _inside(source, at, node))}
        whole = [local[n] for n in sorted(parts) if n == node.name or not _backend(local[n])]
        own = [(at, wide) for at, wide in reads if any(_inside(source, at, p) for p in whole)]
        called = {(holder, name) for at, holder, name in calls if _inside(source, at, node)}
        evidence = (
            f"{source.site(at).line}: {shown(source, source.statement(at))}" for at, _ in own
        )
        methods_with = {source.scope_of(at).partition(".")[2].partition(".")[0] for at, _ in own}
        fields: dict[str, Value] = {
            "name": node.name,
            "bases": bases(node),
            "reads_mask": _verdict([wide for _, wide in own], called),
            "from": "",
            "evidence": tuple(evidence),
            "methods": tuple(m.name for m in methods(node)),
            "reads_in": tuple(sorted(methods_with)),
            "leans_on": tuple(sorted(n for holder, n in called if holder in ("self", "super"))),
        }
        yield Row(source.site(node), fields)


def _verdict(wide: list[bool], called: set[tuple[str, str]]) -> str:
    """What a class shows by itself; empty where its base may know more."""
    if wide:
        return NARROW if all(wide) else YES
    passed_on = {holder for holder, name in called if name == "forward_extend"}
    return DELEGATES if passed_on - {"self", "super"} else ""


def _backend(node: ast.ClassDef) -> bool:
    return bool(re.search(rf"{ROOT}|AttnBackend", " ".join((node.name, *bases(node)))))


def _inside(source: Source, node: ast.AST, around: ast.AST) -> bool:
    return any(a is around for a in source.ancestors(node))


def _reads(source: Source) -> list[tuple[ast.AST, bool]]:
    """Where a tree is read, and whether only a wide one; a computed mask must be handed on."""
    found = [m.node for m in _READ.find(source) if not _only_asked(source, m.node)]
    handed_on = [m.node for m in _HANDED_ON.find(source)]
    for match in _COMPUTED.find(source):
        home = next((a for a in source.ancestors(match.node) if isinstance(a, ast.ClassDef)), None)
        if home and any(_inside(source, node, home) for node in handed_on):
            found.append(match.node)
    return [(node, _needs_width(source, node)) for node in sorted(found, key=source.span)]


def _only_asked(source: Source, node: ast.AST) -> bool:
    """``x.custom_mask is not None`` and ``x.custom_mask.shape`` read no mask."""
    around = source.parent(node)
    shape = isinstance(around, ast.Attribute) and around.attr in ("shape", "device", "dtype")
    return shape or isinstance(around, ast.Compare)


def _needs_width(source: Source, node: ast.AST) -> bool:
    """Whether a condition on the width, around or with a way out before, decides on a read."""
    inner = node
    for around in source.ancestors(node):
        if isinstance(around, ast.If | ast.IfExp) and _WIDTH.search(source.text(around.test)):
            return True
        body = getattr(around, "body", [])
        if isinstance(body, list) and inner in body:
            for earlier in body[: body.index(inner)]:
                if not isinstance(earlier, ast.If) or not isinstance(earlier.body[-1], _LEAVES):
                    continue
                if _WIDTH.search(source.text(earlier.test)):
                    return True
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        inner = around
    return False


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Keep the backends of the serving runtime; one that shows nothing answers as its base."""
    homes = {_home(r) for r in rows if r.fields["name"] == ROOT and _prepares(r)}
    named = {str(r.fields["name"]): r for r in rows if _home(r) in homes}
    above = {name: _texts(r.fields["bases"]) for name, r in named.items()}
    for name in (descendants(above, [ROOT]) & named.keys()) - {ROOT}:
        row = named[name]
        deciding = _deciding(row, named)
        fields = {column: row.fields[column] for column in QUERY.columns}
        verdict = deciding.fields["reads_mask"] or NO
        yield Row(row.site, {**fields, "reads_mask": verdict, "from": deciding.fields["name"]})


def names(inventory: Inventory) -> Iterator[bytes]:
    """The backends that were found: another file may derive from one."""
    for row in resolve(inventory.of(QUERY.id), inventory):
        yield from _as_base(str(row.fields["name"]))


def _as_base(name: str) -> Iterator[bytes]:
    """A name with all that can follow it among the bases of a class."""
    return (f"{name}{after}".encode() for after in "),[#\\ \t\f\r\n")


def _deciding(row: Row, named: dict[str, Row]) -> Row:
    """The class whose code a backend verifies with: itself, or the nearest base."""
    if row.fields["reads_mask"]:
        return row
    leans_on = set(_texts(row.fields["leans_on"]))
    replaces = _prepares(row) and "forward_extend" in _texts(row.fields["methods"])
    continues = any(n.startswith(_PREPARATION) or n == "forward_extend" for n in leans_on)
    for base in _texts(row.fields["bases"]):
        if base not in named or base == ROOT:
            continue
        above = _deciding(named[base], named)
        uses = continues or not leans_on.isdisjoint(_texts(above.fields["reads_in"]))
        if uses or not replaces:
            return above
    return row


def _home(row: Row) -> str:
    """The runtime that a file belongs to: the diffusion one has backends of the same name."""
    return "/".join(row.site.path.split("/")[:2])


def _prepares(row: Row) -> bool:
    return any(name.startswith(_PREPARATION) for name in _texts(row.fields["methods"]))


def _texts(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


_CASE = Case(
    "a reader, a narrow one, one that drops what it computes, a heir that replaces all, a wrapper",
    {
        "sglang/srt/layers/attention/all.py": """\
class AttentionBackend(ABC):
    def init_forward_metadata(self, forward_batch): ...

class TritonAttnBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        custom_mask = spec_info.custom_mask
    def forward_extend(self, q): ...

class FlashAttentionBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        if self.topk <= 1:
            pass
        else:
            mask = forward_batch.spec_info.custom_mask[0]
    def forward_extend(self, q): ...

class EarlyBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        if self.topk <= 1 or self.capturing:
            return
        mask = forward_batch.spec_info.custom_mask

class MlaBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        a, custom_mask = spec_info.generate_attn_arg_prefill(b)
    def forward_extend(self, q): ...

class PlannedBackend(AttentionBackend):
    def __init__(self):
        self.updater = Updater(self)
    def init_forward_metadata(self, forward_batch): ...
    def forward_extend(self, q): ...

class Updater:
    def update(self):
        a, custom_mask = spec_info.generate_attn_arg_prefill(b)
        self.wrapper.begin_forward(a, custom_mask=custom_mask)

class MhaBackend(PlannedBackend):
    def init_forward_metadata(self, forward_batch): ...
    def forward_extend(self, q): ...

class OwnKernelBackend(FlashAttentionBackend):
    def forward_extend(self, q): ...

class BorrowingBackend(FlashAttentionBackend):
    def init_forward_metadata(self, forward_batch):
        super().init_forward_metadata(forward_batch)
    def forward_extend(self, q): ...

class HybridAttnBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch): ...
    def forward_extend(self, q):
        return self.decode_backend.forward_extend(q)
""",
    },
    (
        {"name": "TritonAttnBackend", "reads_mask": "yes", "line": 4},
        {"name": "PlannedBackend", "reads_mask": "yes"},
        {
            "name": "FlashAttentionBackend",
            "reads_mask": "only if topk > 1",
            "evidence": ("14: mask = forward_batch.spec_info.custom_mask[0]",),
        },
        {"name": "EarlyBackend", "reads_mask": "only if topk > 1"},
        {
            "name": "OwnKernelBackend",
            "reads_mask": "only if topk > 1",
            "from": "FlashAttentionBackend",
        },
        {"name": "BorrowingBackend", "reads_mask": "only if topk > 1"},
        {"name": "HybridAttnBackend", "reads_mask": "delegates"},
        {"name": "MlaBackend", "reads_mask": "no", "evidence": ()},
        {"name": "MhaBackend", "reads_mask": "no", "from": "MhaBackend"},
    ),
)

_OTHER_RUNTIME = Case(
    "a class of the same name in another runtime makes no backends",
    {
        "sglang/multimodal_gen/attention.py": """\
class AttentionBackend(ABC):
    def get_impl_cls(): ...

class SdpaBackend(AttentionBackend): ...
""",
        "sglang/srt/layers/attention/base_attn_backend.py": """\
class AttentionBackend(ABC):
    def init_forward_metadata(self, forward_batch): ...
""",
    },
    (),
)

QUERY = Query(
    id="attention_backends",
    title="Attention backends",
    why="A backend that does not read the mask verifies a tree as a chain, without an error.",
    columns={
        "name": "the class",
        "reads_mask": "yes, only if topk > 1, no, or delegates (to the backend it wraps)",
        "from": "the class whose code decides that",
        "evidence": "the lines that read it, each with its number",
        "bases": "its bases",
    },
    prefilter=(
        b"AttnBackend",
        b"base_attn_backend",
        b"class AttentionBackend",
        *_as_base("AttentionBackend"),
        *_as_base("MLABackend"),
        *_as_base("MultiStepBackend"),
        *_as_base("RadixBackend"),
    ),
    names=names,
    visit=visit,
    resolve=resolve,
    cases=(_CASE, _OTHER_RUNTIME),
    paths=("base_attn_backend",),
    order=(("reads_mask", (YES, NARROW, DELEGATES, NO)),),
    expects={
        name: {"name": name}
        for name in ("TritonAttnBackend", "FlashInferAttnBackend", "FlashAttentionBackend")
    },
)
