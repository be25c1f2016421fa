"""Users' patterns: Python files, whose errors become messages that name the file."""

import functools
import importlib.util
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from tq_hw.compiler.rewrite.rewrite import Pattern, Rewrite, Subject
from tq_hw.model.errors import OptionError, TqError
from tq_hw.model.graph import Operator
from tq_hw.model.tflite.schema import OPERATORS

__all__ = ["load_patterns"]

_MODULE = "tq_hw_user_patterns"
#: Operators that a pattern may end with: those of the format, and TABLE, which the library makes.
_NAMES = (*OPERATORS, "TABLE")


def load_patterns(path: str | Path) -> tuple[Pattern, ...]:
    """Return the patterns of a Python file in the order of their definition.

    Raises OptionError if the file cannot be run, has no pattern, or has one for an unknown operator. The patterns raise
    it, too, when they fail or return something other than a `Rewrite`.
    """
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise OptionError(f"{path} is not a Python file; give one with patterns")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise OptionError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    found = [value for value in vars(module).values() if isinstance(value, Pattern)]
    if not found:
        raise OptionError(f"{path} has no patterns; decorate functions with @pattern of tq_hw.compiler.rewrite.rewrite")
    return tuple(_guarded(each, path) for each in found)


def _guarded(each: Pattern, path: str | Path) -> Pattern:
    """Return the pattern with its own errors reported as such, not as errors of tq-hw."""
    where = f"{path}: pattern {each.name}"
    for name in each.ends_with:
        if name not in _NAMES:
            near = get_close_matches(str(name).upper(), _NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"{where}: there is no operator {name!r}{hint}")
    if not each.ends_with:
        raise OptionError(f"{where}: names no operator, so it is never called; for example @pattern(\"ADD\")")

    @functools.wraps(each.function)
    def call(graph: Subject, op: Operator) -> Rewrite | None:
        try:
            made = each.function(graph, op)
        except TqError:
            raise
        except Exception as error:
            raise OptionError(f"{where} at operator {op.index} ({op.op}): {type(error).__name__}: {error}") from error
        if made is not None and not isinstance(made, Rewrite):
            raise OptionError(f"{where} at operator {op.index} ({op.op}): expected a Rewrite or None, found "
                              f"{type(made).__name__}")
        return made

    return replace(each, function=call)
