"""Examples of dispatch sites, one per form in which SGLang writes them."""

from __future__ import annotations

from inventory.model import Case

_HOME = "sglang/srt/speculative/spec_info.py"
_SPEC = """\
class SpeculativeAlgorithm(Enum):
    DFLASH = auto()
    EAGLE = auto()
    EAGLE3 = auto()
    NONE = auto()

    def is_none(self) -> bool: return self == SpeculativeAlgorithm.NONE
    def is_dflash(self) -> bool: return self == SpeculativeAlgorithm.DFLASH
    def is_eagle(self) -> bool: return self in (cls.EAGLE, cls.EAGLE3)
    def supports_tree(self) -> bool: return self.is_eagle() or self.is_dflash()

class SpecInputType(IntEnum):
    DFLASH_VERIFY = auto()

class SpecInput:
    def is_verify_input(self) -> bool: ...

class EagleVerifyInput(SpecInput): ...
class Relayed(EagleVerifyInput): ...
class DFlashWorker: ...
"""
_ELSEWHERE = "sglang/srt/x.py"


def _plain(title: str, code: str, *rows: dict[str, str | int | tuple[str, ...]]) -> Case:
    """A case whose code has no other word of the query than its own."""
    return Case(title, {_HOME: _SPEC, _ELSEWHERE: code}, rows)


def _case(title: str, code: str, *rows: dict[str, str | int | tuple[str, ...]]) -> Case:
    """A case whose code stands beside the definitions above; only its own rows are given."""
    return Case(title, {_HOME: _SPEC, _ELSEWHERE: "# speculative\n" + code}, rows)


CASES: tuple[Case, ...] = (
    Case(
        "definitions of predicates stand in their own scope; members inside are compared",
        {_HOME: _SPEC},
        (
            {
                "symbol": "is_none",
                "kind": "definition",
                "scope": "SpeculativeAlgorithm.is_none",
                "family": "none",
                "test": "self == SpeculativeAlgorithm.NONE",
                "line": 7,
            },
            {"symbol": "is_dflash", "kind": "definition", "on": ("DFLASH",), "line": 8},
            {"symbol": "is_eagle", "kind": "definition", "on": ("EAGLE", "EAGLE3")},
            {
                "symbol": "supports_tree",
                "kind": "definition",
                "family": "several",
                "on": ("DFLASH", "EAGLE", "EAGLE3"),
            },
            {"symbol": "is_verify_input", "kind": "definition", "family": "input-type"},
            {"symbol": "NONE", "kind": "comparison", "scope": "SpeculativeAlgorithm.is_none"},
            {"symbol": "DFLASH", "kind": "comparison", "subject": "self", "context": "return"},
            {"symbol": "EAGLE", "kind": "membership", "family": "eagle"},
            {"symbol": "EAGLE3", "kind": "membership", "family": "eagle"},
            {"symbol": "is_eagle", "kind": "predicate-call"},
            {"symbol": "is_dflash", "kind": "predicate-call", "family": "dflash"},
        ),
    ),
    _case(
        "a predicate in a condition is one site, with the whole condition",
        """\
class Runner:
    def replay(self, batch):
        if batch and self.spec_algorithm.is_dflash(  # the drafter
        ):
            pass
""",
        {
            "symbol": "is_dflash",
            "kind": "predicate-call",
            "family": "dflash",
            "on": ("DFLASH",),
            "context": "if",
            "scope": "Runner.replay",
            "subject": "self.spec_algorithm",
            "test": "batch and self.spec_algorithm.is_dflash( )",
            "line": 4,
            "column": 22,
            "end_line": 5,
        },
    ),
    _case(
        "a predicate kept in a variable, or asked for by name",
        """\
is_dflash = algo.is_dflash()
width = 2 if is_dflash else 1
assert getattr(algo, "supports_tree")()
""",
        {"symbol": "is_dflash", "kind": "predicate-call", "context": "assignment", "line": 2},
        {"symbol": "is_dflash", "kind": "predicate-value", "context": "ternary", "line": 3},
        {"symbol": "supports_tree", "kind": "predicate-call", "context": "assert"},
    ),
    _case(
        "strings: compared, one of several, offered, listed, looked up, matched",
        """\
if args.speculative_algorithm == "DFLASH": ...
x = args.speculative_algorithm not in ("EAGLE", None)
parser.add_argument("--speculative-algorithm", choices=["DFLASH"])
RESERVED = frozenset({"EAGLE3"})
WORKERS: dict = {"DFLASH": 1}
match speculative_algorithm:
    case "EAGLE": ...
""",
        {"symbol": "DFLASH", "kind": "comparison", "subject": "args.speculative_algorithm"},
        {"symbol": "EAGLE", "kind": "membership", "context": "assignment", "line": 3},
        {"symbol": "DFLASH", "kind": "choices", "subject": "--speculative-algorithm"},
        {"symbol": "EAGLE3", "kind": "collection", "subject": "RESERVED"},
        {"symbol": "DFLASH", "kind": "mapping", "subject": "WORKERS"},
        {"symbol": "EAGLE", "kind": "comparison", "subject": "speculative_algorithm"},
    ),
    _case(
        "a name handed to what speaks of algorithms counts, one in a message does not",
        """\
speculative_algorithm = "EAGLE"
ok = platform.supports_speculative_algorithm("DFLASH")
resolve(speculative_algorithm="EAGLE3")
logger.warning("DFLASH")
""",
        {"symbol": "EAGLE", "kind": "assignment", "line": 2},
        {"symbol": "DFLASH", "kind": "argument", "line": 3},
        {"symbol": "EAGLE3", "kind": "assignment", "line": 4},
    ),
    _case(
        "an enum member handed on, and one compared by identity",
        """\
def f(algo=SpeculativeAlgorithm.NONE): ...
while algo is not SpeculativeAlgorithm.DFLASH: ...
""",
        {"symbol": "NONE", "kind": "reference", "context": "default", "family": "none"},
        {"symbol": "DFLASH", "kind": "comparison", "context": "while", "family": "dflash"},
    ),
    _case(
        "what other things are called too counts only where algorithms are asked",
        """\
if get_moe_a2a_backend().is_none(): ...
if self.mode == "NONE": ...
if self.spec_algorithm.is_none(): ...
if self.tree.is_leaf(): ...
""",
        {"symbol": "is_none", "line": 4, "family": "none", "on": ("NONE",)},
    ),
    _case(
        "inputs: by class, by type, by predicate, and made",
        """\
if isinstance(spec_info, (EagleVerifyInput, list)): ...
if spec_info.spec_input_type == SpecInputType.DFLASH_VERIFY: ...
assert spec_info.is_verify_input()
spec_info = EagleVerifyInput(topk=1)
""",
        {"symbol": "EagleVerifyInput", "kind": "isinstance", "on": ("EAGLE",)},
        {
            "symbol": "SpecInputType.DFLASH_VERIFY",
            "kind": "comparison",
            "family": "input-type",
            "on": ("DFLASH",),
        },
        {"symbol": "is_verify_input", "kind": "predicate-call", "family": "input-type", "on": ()},
        {"symbol": "EagleVerifyInput", "kind": "construction", "family": "input-type"},
    ),
    _case(
        "the class of a worker that a function chooses",
        "def create_worker():\n    return DFlashWorker\n",
        {"symbol": "DFlashWorker", "kind": "selection", "family": "dflash", "line": 3},
    ),
    _case(
        "the width of the tree: compared through int and or, taken as a truth, not merely used",
        """\
if args.speculative_eagle_topk > 1: ...
if int(self.topk or 0) == 1: ...
if not self.eagle_topk: ...
x = [t for t in ts if spec_info.topk]
y = torch.topk(scores, k=topk)
z = bs * self.topk
""",
        {
            "symbol": "eagle_topk",
            "kind": "comparison",
            "family": "topk",
            "subject": "args.speculative_eagle_topk",
        },
        {"symbol": "topk", "kind": "comparison", "test": "int(self.topk or 0) == 1"},
        {"symbol": "eagle_topk", "kind": "truth", "context": "if"},
        {"symbol": "topk", "kind": "truth", "context": "comprehension"},
    ),
    _plain(
        "a worker's class in a file that says nothing else of speculation",
        "if isinstance(worker, DFlashWorker): ...\n",
        {"symbol": "DFlashWorker", "kind": "isinstance", "family": "dflash", "line": 1},
    ),
    _plain(
        "names that only this tree gives: an input without a usual name, an ordinary predicate",
        """\
class Relay(Stage): ...
if isinstance(x, Relayed): ...
if x.supports_tree(): ...
""",
        {"symbol": "Relayed", "kind": "isinstance", "family": "input-type", "line": 2},
        {"symbol": "supports_tree", "kind": "predicate-call", "line": 3},
    ),
    _case(
        "classes: of a class, of a type, by name, by pattern, in a union, in a table",
        """\
if issubclass(cls, DFlashWorker): ...
if type(x) is EagleVerifyInput: ...
if x.__class__.__name__ == "DFlashWorker": ...
if type(x).__name__ in ("EagleVerifyInput", "Other"): ...
match x:
    case EagleVerifyInput(): ...
    case spec.DFlashWorker: ...
if isinstance(x, str | EagleVerifyInput): ...
TABLE = {EagleVerifyInput: 1, str: 2}
INPUTS = (EagleVerifyInput, str)
if type(x) in (DFlashWorker, str): ...
kind: Union[EagleVerifyInput, str] = None
f((EagleVerifyInput, 1))
""",
        {"symbol": "DFlashWorker", "kind": "isinstance", "line": 2, "subject": "cls"},
        {"symbol": "EagleVerifyInput", "kind": "comparison", "line": 3, "subject": "type(x)"},
        {"symbol": "DFlashWorker", "kind": "comparison", "line": 4, "on": ("DFLASH",)},
        {"symbol": "EagleVerifyInput", "kind": "membership", "line": 5},
        {"symbol": "EagleVerifyInput", "kind": "isinstance", "line": 7, "subject": "x"},
        {"symbol": "DFlashWorker", "kind": "comparison", "line": 8, "subject": "x"},
        {"symbol": "EagleVerifyInput", "kind": "isinstance", "line": 9},
        {"symbol": "EagleVerifyInput", "kind": "mapping", "line": 10, "subject": "TABLE"},
        {"symbol": "EagleVerifyInput", "kind": "collection", "line": 11, "subject": "INPUTS"},
        {"symbol": "DFlashWorker", "kind": "membership", "line": 12},
    ),
    _case(
        "an enum, a class and a member under names of their own",
        """\
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm as SA
from sglang.srt.speculative.dflash_worker import DFlashWorker as W
D = SA.DFLASH
def f(x):
    if x is SA.EAGLE: ...
    if x is D: ...
    if isinstance(x, W): ...
    if x == SA.from_string("DFLASH"): ...
    Algo = SA
    return x in (Algo.EAGLE3, D)
""",
        {"symbol": "DFLASH", "kind": "reference", "line": 4},
        {"symbol": "EAGLE", "kind": "comparison", "line": 6, "subject": "x"},
        {"symbol": "DFLASH", "kind": "comparison", "line": 7, "subject": "x"},
        {"symbol": "DFlashWorker", "kind": "isinstance", "line": 8},
        {"symbol": "DFLASH", "kind": "comparison", "line": 9, "subject": "x"},
        {"symbol": "EAGLE3", "kind": "membership", "line": 11},
        {"symbol": "DFLASH", "kind": "membership", "line": 11},
    ),
    _case(
        "a member imported by itself",
        "if kind is DFLASH or mode == NONE: ...\n",
        {"symbol": "DFLASH", "kind": "comparison", "line": 2, "subject": "kind"},
    ),
    _case(
        "a predicate as a value: kept and called, handed on, asked for by name; a field is none",
        """\
g = algo.is_dflash
if g(): ...
flag = any(map(SpeculativeAlgorithm.is_dflash, xs))
ask = methodcaller("is_eagle")
page = self.is_eagle
""",
        {"symbol": "is_dflash", "kind": "reference", "line": 2, "subject": "algo"},
        {"symbol": "is_dflash", "kind": "predicate-call", "line": 3, "subject": "g"},
        {"symbol": "is_dflash", "kind": "reference", "line": 4},
        {"symbol": "is_eagle", "kind": "predicate-call", "line": 5},
    ),
    _case(
        "strings in other letters, by their beginning and within others",
        """\
if str(algo).lower() == "dflash": ...
if name.startswith("DFLASH"): ...
if "dflash" in name: ...
if name.lower() in ("eagle", "Eagle3"): ...
match str(algo).lower():
    case "dflash": ...
if mode == "none": ...
if self.speculative_moe_backend == "none": ...
if algo.lower() == "none": ...
x = {"eagle": 1}
if k == "topk": ...
""",
        {"symbol": "DFLASH", "kind": "comparison", "line": 2, "subject": "str(algo).lower()"},
        {"symbol": "DFLASH", "kind": "comparison", "line": 3, "subject": "name"},
        {"symbol": "DFLASH", "kind": "membership", "line": 4, "on": ("DFLASH",)},
        {"symbol": "EAGLE", "kind": "membership", "line": 5},
        {"symbol": "EAGLE3", "kind": "membership", "line": 5},
        {"symbol": "DFLASH", "kind": "comparison", "line": 7},
        {"symbol": "NONE", "kind": "comparison", "line": 10},
    ),
    _case(
        "the width in a variable, asked for by name, and set within a test",
        """\
def f(x):
    k = int(x.speculative_eagle_topk or 1)
    if k == 1: ...
    a, w = 1, x.topk
    def g():
        return w > 1
def h(k, x):
    if k == 1: ...
    if (n := x.speculative_eagle_topk) > 1 and n < 9: ...
if getattr(args, "speculative_eagle_topk") == 1: ...
if int(getattr(spec_info, "topk", 1) or 1) != 1: ...
z = getattr(args, "speculative_eagle_topk")
""",
        {"symbol": "eagle_topk", "kind": "comparison", "line": 4, "scope": "f", "subject": "k"},
        {"symbol": "topk", "kind": "comparison", "line": 7, "scope": "f.g", "subject": "w"},
        {"symbol": "eagle_topk", "kind": "comparison", "line": 10, "scope": "h"},
        {"symbol": "eagle_topk", "kind": "comparison", "line": 10, "subject": "n"},
        {"symbol": "eagle_topk", "kind": "comparison", "line": 11, "subject": "args"},
        {"symbol": "topk", "kind": "comparison", "line": 12, "subject": "spec_info"},
    ),
    _plain(
        "the width by its own name, in a file that says nothing else of speculation",
        "if spec_topk > 1 and topk > 1: ...\n",
        {"symbol": "spec_topk", "kind": "comparison", "line": 1},
    ),
)
