"""Where outside code may add something, what that reaches, and whether an algorithm can use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from inventory._syntax import last_name, shown
from inventory.algorithms import ENUM
from inventory.model import Case, Inventory, Query, Row, Value
from patcher.pattern import Pattern
from patcher.source import Source

_ADDER = r"add_\w+_choices"
_FUNCTION = Pattern("def $NAME($ITEMS): $LIST.extend($ITEMS)", where={"NAME": _ADDER})
_ALIAS = Pattern("$NAME = $LIST.extend", where={"NAME": _ADDER})
_OPTION = Pattern("$PARSER.add_argument($FLAG, choices=$LIST, $...REST)")
_SAME = Pattern("$NAME = $LIST", where={"NAME": "[A-Z0-9_]+", "LIST": "[A-Z0-9_]+"})
_FIELD_CHOICES = Pattern("Arg(choices=$LIST, $...REST)")
_GROUP = Pattern("$NAME = $GROUP", where={"NAME": r"\w*PLUGINS?_GROUP", "GROUP": r"""["'].*["']"""})
_LOADER = Pattern("def $NAME($...PARAMS): $...BODY", where={"NAME": r"load_(?:\w+_)?plugins"})
_HOOKS = Pattern("class HookRegistry: $...BODY")
_REGISTER = Pattern("def register($...PARAMS): $...BODY")
_PLATFORM = Pattern(
    "def $NAME($...PARAMS): $...BODY", where={"NAME": r"get_speculative_worker_cls"}
)
_OPTION_OF_ALGORITHM = "--speculative-algorithm"


def visit(source: Source) -> Iterator[Row]:
    """The points themselves; what refers to them, and which options use which list."""
    for pattern in (_FUNCTION, _ALIAS):
        for match in pattern.find(source):
            name, extends = match.text("NAME"), match.text("LIST")
            yield _row(source, match.node, "choices", name, extends)
    for match in _GROUP.find(source):
        group = str(ast.literal_eval(match.text("GROUP")))
        yield _row(source, match.node, "entry-points", match.text("NAME"), group)
    for match in _LOADER.find(source, ""):
        yield _row(source, match.node, "plugin-loader", match.text("NAME"), "")
    for match in _HOOKS.find(source):
        yield _row(source, match.node, "hooks", "HookRegistry", "any function, method or class")
    for match in _REGISTER.find(source, ENUM):
        yield _row(source, match.node, "registry", f"{ENUM}.register", ENUM)
    for match in _PLATFORM.find(source):
        extends = f"the worker of every {ENUM} member"
        yield _row(source, match.node, "platform", match.text("NAME"), extends)
    yield from _references(source)
    yield from _lists(source)


def _references(source: Source) -> Iterator[Row]:
    for node in source.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        name = last_name(node)
        if name == "register" and isinstance(node.func, ast.Attribute):
            name = f"{last_name(node.func.value)}.register"
        elif name == "apply_hooks":
            name = "HookRegistry"
        if _called(name):
            yield _row(source, node, "call", name, "")
        for item in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(item, ast.Name) and item.id.endswith("_GROUP"):
                yield _row(source, item, "call", item.id, "")


def _called(name: str) -> bool:
    adds = name.startswith("add_") and name.endswith("_choices")
    loads = name.startswith("load_") and "plugins" in name
    return adds or loads or name in ("HookRegistry", f"{ENUM}.register", _PLATFORM.where["NAME"])


def _lists(source: Source) -> Iterator[Row]:
    """Options and the lists of their choices; a second name for a list is the same list."""
    for match in _SAME.find(source, ""):
        yield _row(source, match.node, "same", match.text("NAME"), match.text("LIST"))
    for match in _OPTION.find(source):
        flag = match.bound("FLAG")
        if isinstance(flag, ast.Constant):
            yield _row(source, match.node, "used", str(flag.value), match.text("LIST"))
    for match in _FIELD_CHOICES.find(source):
        field = source.statement(match.node)
        if isinstance(field, ast.AnnAssign):
            assert isinstance(match.node, ast.Call)
            named = [k.value for k in match.node.keywords if k.arg == "cli_name"]
            flags = [ast.literal_eval(value) for value in named]
            flags += ["--" + shown(source, field.target).replace("_", "-")]
            yield _row(source, match.node, "used", flags[0], match.text("LIST"))


def _row(source: Source, node: ast.AST, kind: str, name: str, extends: str) -> Row:
    fields: dict[str, Value] = {
        "kind": kind,
        "name": name,
        "extends": extends,
        "options": (),
        "callers": (),
        "carries": "",
        "because": "",
    }
    return Row(source.site(node), fields)


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Tie the points to their callers and options, and judge each."""
    for row in rows:
        kind, name = row.fields["kind"], row.fields["name"]
        if not _is_point(row):
            continue
        extends = str(row.fields["extends"])
        homes = {_home(r) for r in rows if _is_point(r) and r.fields["name"] == name} - {_home(row)}
        called = [
            r.site
            for r in rows
            if r.fields["kind"] == "call" and r.fields["name"] == name and _home(r) not in homes
        ]
        lists = {extends} | {
            r.fields["name"]
            for r in rows
            if r.fields["kind"] == "same" and r.fields["extends"] == extends
        }
        used = [r for r in rows if r.fields["kind"] == "used" and r.fields["extends"] in lists]
        options = tuple(sorted({str(r.fields["name"]) for r in used}))
        carries, because = _judge(str(kind), extends, options)
        fields: dict[str, Value] = {
            **row.fields,
            "options": options,
            "callers": tuple(dict.fromkeys(f"{site.path}:{site.line}" for site in called)),
            "carries": carries,
            "because": because,
        }
        yield Row(row.site, fields)


def _is_point(row: Row) -> bool:
    return row.fields["kind"] not in ("call", "used", "same")


def names(inventory: Inventory) -> Iterator[bytes]:
    """The lists that may grow, under all their names: options elsewhere may use them."""
    rows = inventory.of(QUERY.id)
    lists = {str(row.fields["extends"]) for row in rows if row.fields["kind"] == "choices"}
    for row in rows:
        if row.fields["kind"] == "same" and row.fields["extends"] in lists:
            yield str(row.fields["name"]).encode()
    for name in lists:
        yield name.encode()


def _home(row: Row) -> str:
    """The runtime that a file belongs to: another one may have points of the same name."""
    return "/".join(row.site.path.split("/")[:2])


def _judge(kind: str, extends: str, options: Sequence[str]) -> tuple[str, str]:
    if kind == "registry":
        return "yes", f"a name registered here is found by {ENUM}.from_string"
    if kind == "platform":
        return "indirectly", "replaces the worker of an algorithm that exists, names no new one"
    if kind in ("hooks", "entry-points", "plugin-loader"):
        return "indirectly", "runs outside code, which may wrap or replace functions"
    if _OPTION_OF_ALGORITHM in options:
        return "yes", f"{extends} holds the choices of {_OPTION_OF_ALGORITHM}"
    used = ", ".join(options) or "no option"
    return "no", f"{extends} holds the choices of {used}, not of {_OPTION_OF_ALGORITHM}"


_FUNCTIONS = Case(
    "functions that extend lists of choices: one of another option, one of the algorithm's",
    {
        "sglang/srt/server_args.py": """\
def add_load_format_choices(choices):
    LOAD_FORMATS.extend(choices)

def add_algorithm_choices(choices):
    ALGORITHMS.extend(choices)

DRAFT_FORMATS = LOAD_FORMATS

def add_cli_args(parser):
    parser.add_argument("--load-format", type=str, choices=LOAD_FORMATS)
    parser.add_argument("--draft-format", type=str, choices=DRAFT_FORMATS)
    parser.add_argument("--speculative-algorithm", choices=ALGORITHMS)
""",
        "sglang/srt/other.py": "add_load_format_choices(['x'])\n",
    },
    (
        {"name": "add_algorithm_choices", "callers": (), "carries": "yes", "line": 4},
        {
            "name": "add_load_format_choices",
            "extends": "LOAD_FORMATS",
            "options": ("--draft-format", "--load-format"),
            "callers": ("sglang/srt/other.py:1",),
            "carries": "no",
            "line": 1,
        },
    ),
)
_ALIASES = Case(
    "assignments that extend lists, with options declared by annotations",
    {
        "sglang/srt/choices.py": "add_backend_choices = BACKEND_CHOICES.extend\n",
        "sglang/srt/args.py": """\
class ServerArgs:
    attention_backend: A[str, Arg(choices=BACKEND_CHOICES, help="which")] = "a"
    fp8_backend: A[str, Arg(choices=BACKEND_CHOICES, cli_name="--fp8-gemm-backend")] = "a"
""",
    },
    (
        {
            "name": "add_backend_choices",
            "options": ("--attention-backend", "--fp8-gemm-backend"),
            "carries": "no",
            "because": "BACKEND_CHOICES holds the choices of --attention-backend,"
            " --fp8-gemm-backend, not of --speculative-algorithm",
        },
    ),
)
_PLUGINS = Case(
    "entry points, their loader, hooks, and the registry of algorithms",
    {
        "sglang/srt/plugins.py": """\
PLUGINS_GROUP = "sglang.srt.plugins"

class HookRegistry:
    def apply_hooks(cls): ...

def load_plugins():
    load_plugins_by_group(PLUGINS_GROUP)
    HookRegistry.apply_hooks()
""",
        "sglang/srt/spec.py": """\
class SpeculativeAlgorithm(Enum):
    @classmethod
    def register(cls, name): ...
""",
        "sglang/srt/engine.py": "load_plugins()\n",
        "sglang/other/plugins.py": "def load_plugins(): ...\nload_plugins()\n",
    },
    (
        {"kind": "registry", "name": "SpeculativeAlgorithm.register", "carries": "yes"},
        {
            "kind": "entry-points",
            "extends": "sglang.srt.plugins",
            "callers": ("sglang/srt/plugins.py:7",),
        },
        {"kind": "hooks", "carries": "indirectly", "callers": ("sglang/srt/plugins.py:8",)},
        {"kind": "plugin-loader", "callers": ("sglang/srt/engine.py:1",)},
        {"kind": "plugin-loader", "callers": ("sglang/other/plugins.py:2",)},
    ),
)

QUERY = Query(
    id="extension_points",
    title="Extension points",
    why="Most hooks for outside code extend a list that has nothing to do with speculative"
    " algorithms; only what carries one can replace an edit.",
    columns={
        "name": "what outside code calls or provides",
        "carries": "whether it can carry a speculative algorithm: yes, no or indirectly",
        "because": "the fact behind that",
        "extends": "the list, group or class that grows",
        "kind": "choices, entry-points, plugin-loader, hooks, registry or platform",
        "options": "the command line options whose choices that list is",
        "callers": "places in this tree that use it",
    },
    prefilter=(
        b"_choices",
        b"_CHOICES",
        b"speculative_algorithm",
        b"--speculative-algorithm",
        b"_plugins",
        b"plugins_by_group",
        b"PLUGIN",
        b"_DETERMINISTIC_ATTENTION_BACKEND",
        b"HookRegistry",
        b"apply_hooks",
        ENUM.encode(),
        b"speculative_worker_cls",
    ),
    names=names,
    visit=visit,
    resolve=resolve,
    cases=(_FUNCTIONS, _ALIASES, _PLUGINS),
    order=(("carries", ("yes", "indirectly", "no")),),
    expects={"add_attention_backend_choices": {"name": "add_attention_backend_choices"}},
)
