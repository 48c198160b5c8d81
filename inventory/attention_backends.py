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
_SELF_MADE = Pattern("$CLASS($...ARGS)", where={"CLASS": r"[A-Z]\w+"})
_DELEGATED = Pattern("$BACKEND.forward_extend($...ARGS)")
_WIDTH = re.compile(r"\btopk\b|eagle_topk")
YES, NARROW, NO, DELEGATES = "yes", "only if topk > 1", "no", "delegates"


def visit(source: Source) -> Iterator[Row]:
    """Every class that may be a backend, with its own evidence and how it overrides its base."""
    local = {node.name: node for node in classes(source)}
    for node in local.values():
        if not (bases(node) or node.name == ROOT):
            continue
        own = {m.name for m in methods(node)}
        prepares = any(name.startswith("init_forward_metadata") for name in own)
        attends = "forward_extend" in own
        evidence = [e for part in _parts(source, node, local) for e in _evidence(source, part)]
        narrow = bool(evidence) and all(guarded for _, guarded in evidence)
        verdict = (NARROW if narrow else YES) if evidence else NO
        delegated, continued = _delegation(source, node)
        if not evidence and delegated:
            verdict = DELEGATES
        elif not evidence and not (prepares and attends and not continued):
            verdict = ""
        fields: dict[str, Value] = {
            "name": node.name,
            "bases": bases(node),
            "reads_mask": verdict,
            "from": node.name if verdict else "",
            "evidence": tuple(text for text, _ in evidence),
        }
        yield Row(source.site(node), fields)


def _parts(
    source: Source, node: ast.ClassDef, local: dict[str, ast.ClassDef]
) -> list[ast.ClassDef]:
    """The class, and the helper classes of its file that it makes itself."""
    parts = [node]
    for match in _SELF_MADE.find(source):
        helper = local.get(match.text("CLASS"))
        if helper and helper not in parts and _inside(source, match.node, node):
            if not re.search(rf"{ROOT}|AttnBackend", " ".join((helper.name, *bases(helper)))):
                parts.append(helper)
    return parts


def _inside(source: Source, node: ast.AST, around: ast.AST) -> bool:
    return any(a is around for a in source.ancestors(node))


def _evidence(source: Source, node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """Reads of a tree in a class: the line with its text, and whether it needs a wide tree."""
    reads = [m.node for m in _READ.find(source) if not _only_asked(source, m.node)]
    if any(_inside(source, m.node, node) for m in _HANDED_ON.find(source)):
        reads += [m.node for m in _COMPUTED.find(source)]
    for read in sorted(reads, key=lambda n: source.span(n)):
        if _inside(source, read, node):
            statement = source.statement(read)
            text = shown(source, statement)
            yield f"{source.site(read).line}: {text}", _needs_width(source, read)


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


def _delegation(source: Source, node: ast.ClassDef) -> tuple[bool, bool]:
    """Whether ``forward_extend`` is left to another backend, or to the base class."""
    delegated = continued = False
    for match in _DELEGATED.find(source):
        if _inside(source, match.node, node):
            to_base = last_name(match.bound("BACKEND")) == "super"
            delegated, continued = delegated or not to_base, continued or to_base
    return delegated, continued


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
