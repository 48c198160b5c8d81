"""Which worker classes run the draft and the verify step, with their methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from inventory._syntax import bases, classes, descendants, methods, signature
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.source import Source

HOME = "sglang/srt/speculative/"


def visit(source: Source) -> Iterator[Row]:
    """Every class that is called a worker or derives from one, with its methods."""
    for node in classes(source):
        if not any("Worker" in name for name in (node.name, *bases(node))):
            continue
        yield Row(source.site(node), _fields("class", node.name, "", "", bases(node)))
        for method in methods(node):
            fields = _fields("method", method.name, node.name, signature(method), ())
            yield Row(source.site(method), fields)


def _fields(
    role: str, name: str, owner: str, text: str, base_names: tuple[str, ...]
) -> dict[str, Value]:
    return {"role": role, "name": name, "owner": owner, "signature": text, "bases": base_names}


def worker_classes(rows: Iterable[Row]) -> set[str]:
    """Names of the classes that stand in the speculative package, or derive from one there."""
    named = [r for r in rows if r.fields["role"] == "class"]
    above = {str(r.fields["name"]): r.fields["bases"] for r in named}
    here = {str(r.fields["name"]) for r in named if r.site.path.startswith(HOME)}
    return descendants({n: b for n, b in above.items() if isinstance(b, tuple)}, here)


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterable[Row]:
    """Keep the workers of speculative algorithms: tensor-parallel workers are not among them."""
    kept = worker_classes(rows)
    return [r for r in rows if (r.fields["owner"] or r.fields["name"]) in kept]


_CASE = Case(
    "a worker of the package, one derived from it elsewhere, and one of another kind",
    {
        "sglang/srt/speculative/base.py": """\
class BaseSpecWorker(ABC):
    @abstractmethod
    def clear_cache_pool(self) -> None: ...
""",
        "sglang/srt/hardware/npu.py": """\
class NpuSpecWorker(BaseSpecWorker):
    async def forward(self, batch, *, on_publish=None): ...

class TpModelWorker:
    def speculative(self): ...
""",
    },
    (
        {"role": "class", "name": "BaseSpecWorker", "line": 1},
        {"role": "class", "name": "NpuSpecWorker", "bases": ("BaseSpecWorker",)},
        {
            "role": "method",
            "name": "clear_cache_pool",
            "owner": "BaseSpecWorker",
            "signature": "(self) -> None",
        },
        {"role": "method", "name": "forward", "signature": "(self, batch, *, on_publish=None)"},
    ),
)

QUERY = Query(
    id="workers",
    title="Speculative workers",
    why="A new algorithm needs a worker; what it may inherit depends on the methods, and their"
    " signatures, of the ones that exist.",
    columns={
        "name": "its name",
        "role": "class or method",
        "bases": "of a class",
        "signature": "of a method",
        "owner": "the class of a method",
    },
    prefilter=(b"Worker",),
    visit=visit,
    resolve=resolve,
    cases=(_CASE,),
    order=(("role", ("class",)),),
    expects={"BaseSpecWorker": {"role": "class", "name": "BaseSpecWorker"}},
)
