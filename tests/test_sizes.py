"""What a reader takes in at once: functions to 80 lines, classes to 250, files to 300, those of tests to 400."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("api", "benches", "boards", "cli", "compiler", "docs", "examples", "hdl", "isa", "model", "scripts", "sim")
FUNCTION_LINES, CLASS_LINES, FILE_LINES, TEST_LINES = 80, 250, 300, 400


def long_parts(source: str, path: str) -> Iterator[str]:
    """Yield what of a file is over a limit, by name."""
    if len(source.splitlines()) > FILE_LINES:
        yield path

    def visit(node: ast.AST, outer: str) -> Iterator[str]:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{inner.name}".removeprefix(".")
                limit = CLASS_LINES if isinstance(inner, ast.ClassDef) else FUNCTION_LINES
                if (inner.end_lineno or 0) - inner.lineno >= limit:
                    yield f"{path}:{name}"
                yield from visit(inner, name)
            elif isinstance(inner, ast.stmt | ast.ExceptHandler | ast.match_case):  # expressions define nothing
                yield from visit(inner, outer)

    yield from visit(ast.parse(source), "")


def test_nothing_is_over_the_limits() -> None:
    found = [name for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
             for name in long_parts(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())]
    assert found == [], "too long: split it by concern"


def test_no_file_of_tests_is_over_its_limit() -> None:
    """They are lists of cases, and may be longer than what has to be understood as a whole."""
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("*.py"))
             if len(path.read_text(encoding="utf-8").splitlines()) > TEST_LINES]
    assert found == [], "too long: split it by concern"


def test_long_parts_are_found() -> None:
    body = "\n".join(f"        a{line} = 0" for line in range(FUNCTION_LINES - 1))
    fits = f"class Long:\n    def at_limit(self):\n{body}\n"
    assert list(long_parts(fits, "a.py")) == []
    assert list(long_parts(fits + "        b = 0\n", "a.py")) == ["a.py:Long.at_limit"]
    wide = "class Long:\n" + "    a = 0\n" * (CLASS_LINES - 1)
    assert list(long_parts(wide, "a.py")) == []
    assert list(long_parts(wide + "    b = 0\n", "a.py")) == ["a.py:Long"]
    assert list(long_parts("a = 0\n" * FILE_LINES, "a.py")) == []
    assert list(long_parts("a = 0\n" * (FILE_LINES + 1), "a.py")) == ["a.py"]
