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
_READ = Pattern(
    "$INPUT.$WHAT",
    where={"INPUT": r"(?:.*\.)?spec_info", "WHAT": "custom_mask|retrieve_next_token"},
)
_COMPUTED = Pattern("$...BEFORE, custom_mask = $INPUT.generate_attn_arg_prefill($...ARGS)")
_HANDED_ON = Pattern("$CALL($..., custom_mask=$MASK)", where={"MASK": r"\w*mask\w*"})
_MADE = Pattern("$CLASS($...ARGS)", where={"CLASS": r"[A-Z]\w+"})
_DELEGATED = Pattern("$BACKEND.forward_extend($...ARGS)")
_WIDTH = re.compile(r"\btopk\b|eagle_topk")
YES, NARROW, NO, DELEGATES = "yes", "only if topk > 1", "no", "delegates"


def visit(source: Source) -> Iterator[Row]:
    """Every class that may be a backend, with its own evidence and how it overrides its base."""
    local = {node.name: node for node in classes(source)}
    reads = _reads(source)
    made = [(m.node, m.text("CLASS")) for m in _MADE.find(source)]
    delegated = [(m.node, last_name(m.bound("BACKEND"))) for m in _DELEGATED.find(source)]
    for node in local.values():
        if not (bases(node) or node.name == ROOT):
            continue
        own = {m.name for m in methods(node)}
        prepares = any(name.startswith("init_forward_metadata") for name in own)
        attends = "forward_extend" in own
        parts = {
            node.name,
            *(name for at, name in made if name in local and _inside(source, at, node)),
        }
        helpers = [local[n] for n in sorted(parts) if n == node.name or not _backend(local[n])]
        evidence = [
            (f"{source.site(at).line}: {shown(source, source.statement(at))}", narrow)
            for at, narrow in reads
            if any(_inside(source, at, part) for part in helpers)
        ]
        narrow = bool(evidence) and all(guarded for _, guarded in evidence)
        verdict = (NARROW if narrow else YES) if evidence else NO
        passed_to = {name for at, name in delegated if _inside(source, at, node)}
        if not evidence and passed_to - {"super"}:
            verdict = DELEGATES
        elif not evidence and not (prepares and attends and not passed_to):
            verdict = ""
        fields: dict[str, Value] = {
            "name": node.name,
            "bases": bases(node),
            "reads_mask": verdict,
            "from": node.name if verdict else "",
            "evidence": tuple(text for text, _ in evidence),
        }
        yield Row(source.site(node), fields)


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
    for around in source.ancestors(node):
        if isinstance(around, ast.If | ast.IfExp) and _WIDTH.search(source.text(around.test)):
            return True
    return False


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Keep the backends; one that decides nothing itself answers as its base does."""
    named = {str(r.fields["name"]): r for r in rows}
    above = {name: _texts(r.fields["bases"]) for name, r in named.items()}
    for name in descendants(above, [ROOT]) & named.keys():
        row = named[name]
        if name == ROOT:
            continue
        deciding = _deciding(name, named, above)
        verdict = named[deciding].fields["reads_mask"] if deciding else NO
        fields = {"reads_mask": verdict, "from": deciding or name}
        yield Row(row.site, {**row.fields, **fields})


def _deciding(name: str, named: dict[str, Row], above: dict[str, tuple[str, ...]]) -> str:
    if name not in named or name == ROOT:
        return ""
    if named[name].fields["reads_mask"]:
        return name
    return next(filter(None, (_deciding(b, named, above) for b in above[name])), "")


def _texts(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


_CASE = Case(
    "a reader, a narrow one, one that drops what it computes, a heir that replaces all, a wrapper",
    {
        "sglang/srt/layers/attention/all.py": """\
class AttentionBackend(ABC): ...

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

class HybridAttnBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch): ...
    def forward_extend(self, q):
        return self.decode_backend.forward_extend(q)
""",
    },
    (
        {"name": "TritonAttnBackend", "reads_mask": "yes", "line": 3},
        {
            "name": "FlashAttentionBackend",
            "reads_mask": "only if topk > 1",
            "evidence": ("13: mask = forward_batch.spec_info.custom_mask[0]",),
        },
        {"name": "MlaBackend", "reads_mask": "no", "evidence": ()},
        {"name": "PlannedBackend", "reads_mask": "yes"},
        {"name": "MhaBackend", "reads_mask": "no", "from": "MhaBackend"},
        {
            "name": "OwnKernelBackend",
            "reads_mask": "only if topk > 1",
            "from": "FlashAttentionBackend",
        },
        {"name": "HybridAttnBackend", "reads_mask": "delegates"},
    ),
)

QUERY = Query(
    id="attention_backends",
    title="Attention backends",
    why="A backend that does not read the mask verifies a tree as a chain, without an error.",
    columns={
        "name": "the class",
        "bases": "its bases",
        "reads_mask": "yes, only if topk > 1, no, or delegates (to the backend it wraps)",
        "from": "the class whose code decides that",
        "evidence": "the lines that read it, each with its number",
    },
    prefilter=(b"AttnBackend", b"base_attn_backend", b"(AttentionBackend", b"MLABackend("),
    visit=visit,
    resolve=resolve,
    cases=(_CASE,),
)
