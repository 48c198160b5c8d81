"""Every place that decides by algorithm, by speculative input, or by the width of a draft tree.

``visit`` collects what may be one, from its form alone; ``resolve`` keeps those whose symbol this
release knows, because which names are algorithms, predicates or inputs is a fact of the release.

Out of reach, as nothing but running the code would tell:

* names that are put together (``getattr(x, "is_" + name)``, f-strings, ``re``), or written with
  escapes or in letters that Python takes for others;
* values that leave their function: a width or member kept in an attribute (``self.k = x.topk``),
  handed to another function, or imported as a constant of another name;
* a variable of a variable (``k = topk; n = k``), and what a loop or a ``with`` names;
* a predicate that is handed on from something whose name does not speak of algorithms
  (``f(x.is_eagle)``: most are fields of that name), unless a variable keeps it and asks it;
* words that other things are called too (``none``, ``ngram``, ``standalone``, in small letters)
  where what they are held against does not speak of speculation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from inventory import _dispatch_cases
from inventory._dispatch_sites import (
    PREDICATE,
    WIDTHS,
    WORDS,
    WORDS_IN_ANY_CASE,
    visit,
)
from inventory._dispatch_uses import ALGORITHMIC
from inventory.algorithms import ENUM, PLUGIN_CLASS, Algorithms, known
from inventory.model import Inventory, Query, Row
from inventory.spec_inputs import ROOT, TYPES, input_classes
from inventory.workers import worker_classes

_ALGORITHM = re.compile("algo", re.IGNORECASE)
_ORDINARY = ("NONE", "STANDALONE", "NGRAM")
_CLASS_KINDS = ("selection", "isinstance", "comparison", "membership", "mapping", "collection")
_TEXT_KINDS = ("comparison", "membership", "mapping", "collection", "choices", "assignment")


@dataclass(frozen=True)
class _Release:
    """The names that decide in this release."""

    algorithms: Algorithms
    inputs: frozenset[str]
    input_predicates: frozenset[str]
    workers: frozenset[str]

    def asks(self, row: Row) -> tuple[str, tuple[str, ...]] | None:
        """Family and algorithms of a candidate, or None where it does not dispatch."""
        symbol, kind = str(row.fields["symbol"]), row.fields["kind"]
        if WIDTHS.fullmatch(symbol):
            return "topk", ()
        if symbol.startswith(f"{TYPES}.") or symbol in self.inputs:
            on = self.algorithms.of_class(symbol.removeprefix(f"{TYPES}."))
            return "input-type", on
        if symbol in (ENUM, PLUGIN_CLASS) and kind == "isinstance":
            return "registry", ()
        if symbol in self.workers and kind in _CLASS_KINDS:
            on = self.algorithms.of_class(symbol)
            return _family(on), on
        if symbol in self.algorithms.aliases:
            return ("alias", ()) if self._about_algorithms(row) else None
        if symbol in self.algorithms.members:
            return (_family((symbol,)), (symbol,)) if self._about_algorithms(row) else None
        return self._predicate(row, symbol, str(kind))

    def spelt(self, row: Row) -> Row:
        """The row with the algorithm's own name where a text has it in other letters."""
        symbol, kind = str(row.fields["symbol"]), row.fields["kind"]
        name = symbol.upper()
        if name == symbol or kind not in _TEXT_KINDS or name not in self.named:
            return row
        about = {"NONE": _ALGORITHM}.get(name, ALGORITHMIC)
        plain = name in _ORDINARY and not about.search(str(row.fields["subject"]))
        return row if plain else Row(row.site, {**row.fields, "symbol": name})

    @cached_property
    def named(self) -> frozenset[str]:
        """All names of algorithms."""
        return self.algorithms.aliases | {*self.algorithms.members}

    def _predicate(self, row: Row, symbol: str, kind: str) -> tuple[str, tuple[str, ...]] | None:
        if kind not in ("predicate-call", "predicate-value", "definition", "reference"):
            return None
        owner = str(row.fields["subject"])
        on = self.algorithms.predicates.get(symbol)
        of_input = symbol in self.input_predicates
        if kind == "definition":
            on, of_input = (None, of_input) if owner == ROOT else (on, False)
        if of_input:
            spoken = kind != "reference" or ALGORITHMIC.search(owner)
            return ("input-type", ()) if spoken else None
        if on is None or (kind == "reference" and not ALGORITHMIC.search(owner)):
            return None  # a field of that name that somebody else has, most likely
        particular = set(on) - {"NONE"}
        return (_family(on), on) if particular or self._about_algorithms(row) else None

    def _about_algorithms(self, row: Row) -> bool:
        """Names that other things have too (``NONE``, ``is_none``) count by what is asked."""
        symbol, subject = str(row.fields["symbol"]), str(row.fields["subject"])
        if row.fields["kind"] in ("reference", "definition") or symbol not in ("NONE", "is_none"):
            return True
        return subject in ("self", "cls", PLUGIN_CLASS) or bool(ALGORITHMIC.search(subject))


def _family(on: tuple[str, ...]) -> str:
    """``eagle`` for EAGLE and EAGLE3, the one algorithm's name, or ``several``."""
    names = {"eagle" if re.fullmatch(r"EAGLE\d*", m) else m.lower() for m in on if m != "NONE"}
    if len(names) > 1:
        return "several"
    return next(iter(names), "none" if on else "any")


def resolve(rows: Sequence[Row], inventory: Inventory) -> Iterator[Row]:
    """Keep the candidates whose symbol this release knows, with family and algorithms."""
    release = _release(inventory)
    for candidate in rows:
        row = release.spelt(candidate)
        found = release.asks(row)
        if found is not None:
            yield Row(row.site, {**row.fields, "family": found[0], "on": found[1]})


def names(inventory: Inventory) -> Iterator[bytes]:
    """What a file must contain to decide on a name of this release, where no word tells."""
    release = _release(inventory)
    algorithms = release.algorithms
    for name in {*algorithms.members, *algorithms.aliases} - {"NONE"}:
        yield name.encode()
        yield from (f"{quote}{name.lower()}{quote}".encode() for quote in "\"'")
    for name in {*algorithms.predicates, *release.input_predicates}:
        yield name.encode()
    for name in {*release.inputs, *release.workers}:
        yield name.encode()


def _release(inventory: Inventory) -> _Release:
    inputs = inventory.of("spec_inputs")
    return _Release(
        algorithms=known(inventory),
        inputs=frozenset(input_classes(inputs)),
        input_predicates=frozenset(_input_predicates(inputs)),
        workers=frozenset(worker_classes(inventory.of("workers"))),
    )


def _input_predicates(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        name = str(row.fields["name"])
        method = row.fields["role"] == "method" and row.fields["owner"] == ROOT
        if method and PREDICATE.fullmatch(name):
            yield name


QUERY = Query(
    id="dispatch",
    title="Dispatch sites",
    why="A release that branches on an algorithm, an input type or the tree width in a place that"
    " nobody looked at is not supported, whatever else still applies.",
    columns={
        "symbol": "what is decided on: a predicate, member, class, or the width's name",
        "kind": "predicate-call, predicate-value, comparison, membership, isinstance, choices,"
        " mapping, collection, construction, selection, truth, assignment, argument, reference or"
        " definition",
        "test": "the whole condition",
        "on": "the algorithms that the symbol names, also through other predicates",
        "family": "eagle, input-type, topk, registry, alias, none, any, several, or the one"
        " algorithm's name in lower case",
        "context": "if, while, ternary, assert, comprehension, match, else the statement",
        "subject": "what is asked or compared",
    },
    prefilter=WORDS,
    prefilter_any_case=WORDS_IN_ANY_CASE,
    names=names,
    visit=visit,
    resolve=resolve,
    cases=_dispatch_cases.CASES,
    order=(("kind", ("definition",)),),
    expects={
        "is_eagle()": {"symbol": "is_eagle", "kind": "predicate-call"},
        "topk": {"family": "topk"},
    },
)
