"""What an operation must keep to: one table of rules for the executor, the RTL and the serial machine's microprogram.

A rule is a comparison of fields with numbers and with sizes of the configuration, joined by `and` and `or`. `when` says
where it counts. Names without a dot are fields of the unit's registers, or of the micro-operation, and these:

* `open_buffers`: accumulator buffers that the array operation before left open (0, 1 or config.acc_open);
* `use_acc`, `use_params` in rules of micro-operations: those of the vector operation;
* `chunk_registers`: vector registers that the operation's longest chunk fills, rounded up.

An operation that breaks a rule is refused with BAD_OPERATION when its turn has come: its tokens are there, and all
operations of the unit before it are done. What is marked "running" is found while the operation runs: micro-operations
when the program comes to them, rows of a depthwise tile where they end.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Activation, Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source

__all__ = ["ARITHMETIC", "COMPARE", "RULES", "TABLE_BYTES", "TABLE_ENTRIES", "UOP_RULES", "AllOf", "AnyOf", "Bound",
           "Compare", "Name", "Operation", "Rule", "Term", "Test", "bound", "chunk_registers", "names", "value"]

#: Entries of a lane's table, int32: both halves, of which an operand of 8 bits looks up one; and their bytes.
TABLE_ENTRIES = 512
TABLE_BYTES = 4 * TABLE_ENTRIES


@dataclass(frozen=True)
class Rule:
    """One rule.

    Members
    -------
    text : what must hold
    when : where the rule counts; empty: always
    running : found while the operation runs, not before it starts
    """

    text: str
    when: str = ""
    running: bool = False


@dataclass(frozen=True)
class Name:
    """A field's value."""

    name: str


@dataclass(frozen=True)
class Operation:
    """`left` + `right`, or another arithmetic operation."""

    symbol: str
    left: "Term"
    right: "Term"


@dataclass(frozen=True)
class Compare:
    """`left` compared with `right`."""

    symbol: str
    left: "Term"
    right: "Term"


@dataclass(frozen=True)
class AllOf:
    """Every one of the tests; true without any."""

    tests: tuple["Test", ...]


@dataclass(frozen=True)
class AnyOf:
    """One of the tests at least; false without any."""

    tests: tuple["Test", ...]


Term = int | Name | Operation
Test = Compare | AllOf | AnyOf
#: A rule with the sizes of one configuration put in.
Bound = tuple[Rule, Test]

#: By symbol, for numbers and for values of the RTL.
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "*": operator.mul, "%": operator.mod}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Mult: "*", ast.Mod: "%", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">="}
_ENUMS = {enum.__name__: enum for enum in (ArrayMode, VectorKind, Activation, Alu, Destination, Multiply, Reduce,
                                           Rounding, ShiftSource, Source)}

_MOVES = ("count0 >= 1", "count1 >= 1", "count2 >= 1", "count3 >= 1")
_OPEN = "out_blocks == 1 and slots <= tile_slots"
_SPREAD = "config.acc_open >= 1 and out_blocks == config.acc_open and slots <= tile_slots"
_CODED = "config.compressed_weights == 1 and coded == 1"
_DEPTHWISE, _PROGRAM = "mode == ArrayMode.DEPTHWISE", "kind == VectorKind.PROGRAM"


def _own(unit: Unit) -> tuple[Rule, ...]:
    """A unit gives no tokens to itself."""
    name = unit.name.lower()
    return Rule(f"wait_{name} == 0"), Rule(f"post_{name} == 0")


#: Rules by unit.
RULES: dict[Unit, tuple[Rule, ...]] = {
    Unit.LOAD: (
        *_own(Unit.LOAD), *map(Rule, _MOVES),
        Rule("1 <= last_emit_bytes <= config.word_bytes"), Rule("last_advance_bytes <= config.word_bytes"),
        Rule("1 <= emit_bytes <= config.word_bytes", "count0 != 1"),
        Rule("advance_bytes <= config.word_bytes", "count0 != 1"),
        Rule("run_bytes >= 1", _CODED), Rule("run_bytes % config.bus_bytes == 0", _CODED),
        Rule("memory_offset_bytes % config.bus_bytes == 0", _CODED), Rule("count2 == 1 and count3 == 1", _CODED),
    ),
    Unit.STORE: (
        *_own(Unit.STORE), *map(Rule, _MOVES),
        Rule("last_take_bytes >= 1"), Rule("lane + last_take_bytes <= config.word_bytes"),
        Rule("take_bytes >= 1", "count0 != 1"), Rule("lane + take_bytes <= config.word_bytes", "count0 != 1"),
    ),
    Unit.ARRAY: (
        *_own(Unit.ARRAY),
        Rule("mode <= ArrayMode.FOLDED"), Rule("slots >= 1"), Rule("out_cols >= 1"), Rule("out_blocks >= 1"),
        Rule("1 <= tile_slots <= config.acc_words"), Rule("1 <= weight_rows <= config.rows"),
        Rule("kernel_rows >= 1", "mode != ArrayMode.FOLDED"), Rule("kernel_cols >= 1", "mode != ArrayMode.FOLDED"),
        Rule("kernel_blocks >= 1", "mode != ArrayMode.DEPTHWISE"),
        Rule("weight_rows <= config.gemm_rows", "mode == ArrayMode.GEMM"),
        Rule("1 <= slices <= config.slices", "mode == ArrayMode.GEMM"),
        Rule("kernel_blocks <= config.fold_steps", "mode == ArrayMode.FOLDED"),
        Rule("weight_rows <= 3 * config.groups", _DEPTHWISE),
        Rule("col_stride >= 1", _DEPTHWISE), Rule("period >= 1", _DEPTHWISE),
        Rule("sub_first < config.sub_blocks", _DEPTHWISE),
        Rule(f"acc_first == 1 and acc_last == 1 or {_OPEN} or {_SPREAD}"),
        Rule(_OPEN, "open_buffers == 1"), Rule(_SPREAD, "open_buffers >= 2"),
        Rule("slots % out_cols == 0", _DEPTHWISE, running=True),
        Rule("tile_slots % out_cols == 0", f"{_DEPTHWISE} and slots > tile_slots", running=True),
        Rule("(out_cols + -1) * col_stride < period or (out_cols + -1) * col_stride + col_first < 1", _DEPTHWISE,
             running=True),
    ),
    Unit.VECTOR: (
        *_own(Unit.VECTOR),
        Rule("kind <= VectorKind.LOAD_TABLE"), Rule("slots >= 1"),
        Rule(f"slots + table_first <= {TABLE_ENTRIES}", "kind == VectorKind.LOAD_TABLE"),
        *(Rule(f"{name} >= 1", _PROGRAM)
          for name in ("cols", "out_blocks", "tile_slots", "chunk_slots", "repeat1", "repeat2")),
        Rule("out_type <= 2", _PROGRAM),
        Rule("first <= body_first", _PROGRAM), Rule("body_first <= body_last + 1", _PROGRAM),
        Rule("body_last <= last", _PROGRAM), Rule("first <= last", _PROGRAM), Rule("last < config.uops", _PROGRAM),
        Rule("repeat1 == 1 and repeat2 == 1", f"{_PROGRAM} and body_first > body_last"),
        Rule("tile_slots <= config.acc_words", f"{_PROGRAM} and use_acc == 1"),
        Rule("sub_first < config.sub_blocks", f"{_PROGRAM} and use_acc == 1"),
        Rule("sub_first == 0", f"{_PROGRAM} and use_acc == 0"),
        Rule("use_params == 0 or config.block == config.cols", f"{_PROGRAM} and use_acc == 0"),
    ),
}

#: Rules of each micro-operation that a vector operation runs.
UOP_RULES: tuple[Rule, ...] = tuple(Rule(text, when, running=True) for text, when in (
    ("use_acc == 1", "a_source == Source.ACC_OR_BIAS"),
    ("use_params == 1", "b_source == Source.ACC_OR_BIAS"),
    ("b_table <= 2", ""),
    ("config.requantize_lanes % 2 == 0", "alu == Alu.PAIR_DIFFERENCE"),
    ("config.activation_lanes >= 1 and reduce <= Activation.TANH", "destination == Destination.ACTIVATION"),
    ("reduce <= Reduce.MIN", "destination == Destination.REDUCE"),
    ("a_hold == 1 or once == 1 or a_register + chunk_registers <= 8", "a_source == Source.REGISTER"),
    ("b_hold == 1 or once == 1 or b_register + chunk_registers <= 8", "b_source == Source.REGISTER"),
    ("once == 1 or d_register + chunk_registers <= 8", "destination == Destination.REGISTER"),
    ("alu <= Alu.PAIR_DIFFERENCE", ""),
    ("use_params == 1", "multiply == Multiply.HIGH_PARAM"),
    ("use_params == 1", "shift_source == ShiftSource.PARAM"),
    ("shift != -32", "shift_source == ShiftSource.IMMEDIATE"),
    ("shift <= 0", "shift_source == ShiftSource.IMMEDIATE and multiply != Multiply.SHL"),
    ("rounding <= Rounding.FLOOR", ""),
))


def chunk_registers(config: Config, use_acc: bool, slots: int) -> int:
    """Return the vector registers that a chunk of `slots` slots fills."""
    beats = slots * (config.beats_per_acc_word if use_acc else config.beats_per_word)
    return ceil_div(beats, config.vector_register_words)


def value(test: Test, values: Mapping[str, Any]) -> Any:
    """Return whether a test holds, for fields that are numbers; for values of the RTL, the value that says so."""
    if isinstance(test, Compare):
        return COMPARE[test.symbol](_term(test.left, values), _term(test.right, values))
    parts = [value(part, values) for part in test.tests]
    if isinstance(test, AllOf):
        return reduce(operator.and_, parts) if parts else True
    return reduce(operator.or_, parts) if parts else False


def _term(term: Term, values: Mapping[str, Any]) -> Any:
    if isinstance(term, int):
        return term
    if isinstance(term, Name):
        return values[term.name]
    return ARITHMETIC[term.symbol](_term(term.left, values), _term(term.right, values))


def names(test: Test | Term) -> frozenset[str]:
    """Return the fields that a test looks at."""
    if isinstance(test, int):
        return frozenset()
    if isinstance(test, Name):
        return frozenset((test.name,))
    parts = test.tests if isinstance(test, AllOf | AnyOf) else (test.left, test.right)
    return frozenset().union(*(names(part) for part in parts))


@cache
def bound(rules: tuple[Rule, ...], config: Config) -> tuple[Bound, ...]:
    """Return the rules that an operation of this configuration can break, with its sizes put in."""
    found = []
    for rule in rules:
        test = _read(ast.parse(rule.text, mode="eval").body, config)
        if rule.when:
            test = _any((_inverted(_read(ast.parse(rule.when, mode="eval").body, config)), test))
        if test != AllOf(()):
            found.append((rule, test))
    return tuple(found)


def _read(node: ast.AST, config: Config) -> Test:
    """Read a test, with what is the same for all operations put in."""
    if isinstance(node, ast.BoolOp):
        join = _all if isinstance(node.op, ast.And) else _any
        return join(tuple(_read(part, config) for part in node.values))
    assert isinstance(node, ast.Compare), ast.dump(node)
    terms = [_read_term(part, config) for part in (node.left, *node.comparators)]
    tests: list[Test] = []
    for kind, left, right in zip(node.ops, terms, terms[1:], strict=False):
        symbol = _SYMBOLS[type(kind)]
        if isinstance(left, int) and isinstance(right, int):
            tests.append(AllOf(()) if COMPARE[symbol](left, right) else AnyOf(()))
        else:
            tests.append(Compare(symbol, left, right))
    return _all(tuple(tests))


def _read_term(node: ast.AST, config: Config) -> Term:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.UnaryOp):
        assert isinstance(node.op, ast.USub)
        number = _read_term(node.operand, config)
        assert isinstance(number, int)
        return -number
    if isinstance(node, ast.Name):
        return Name(node.id)
    if isinstance(node, ast.Attribute):
        assert isinstance(node.value, ast.Name)
        return int(getattr(config if node.value.id == "config" else _ENUMS[node.value.id], node.attr))
    assert isinstance(node, ast.BinOp), ast.dump(node)
    left, right = _read_term(node.left, config), _read_term(node.right, config)
    symbol = _SYMBOLS[type(node.op)]
    if isinstance(left, int) and isinstance(right, int):
        return int(ARITHMETIC[symbol](left, right))
    return Operation(symbol, left, right)


def _all(tests: tuple[Test, ...]) -> Test:
    if AnyOf(()) in tests:
        return AnyOf(())
    left = tuple(test for test in tests if test != AllOf(()))
    return left[0] if len(left) == 1 else AllOf(left)


def _any(tests: tuple[Test, ...]) -> Test:
    if AllOf(()) in tests:
        return AllOf(())
    left = tuple(test for test in tests if test != AnyOf(()))
    return left[0] if len(left) == 1 else AnyOf(left)


def _inverted(test: Test) -> Test:
    if isinstance(test, Compare):
        return Compare(_OPPOSITE[test.symbol], test.left, test.right)
    parts = tuple(_inverted(part) for part in test.tests)
    return AnyOf(parts) if isinstance(test, AllOf) else AllOf(parts)

