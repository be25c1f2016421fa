"""Every command of the guides and of the README is one that there is, and those that need no board run as they stand.

The fast walk lets the executor run what names no engine; the slow one takes every line as it is.
"""

import ast
import importlib
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Run
from tq_hw.cli.main import tq_hw as group

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs" / "guide").glob("*.md"), ROOT / "README.md", ROOT / "docs" / "index.md"])
LINE = re.compile(r"^(?: {3,}|(?=tq-hw))(?:\.venv/bin/)?(tq-hw [a-z]+ .*)$")
#: Commands that the walk leaves out, and why.
LEFT_OUT = {
    "build": "places and routes for minutes; tests/boards/build and tests/cli/commands/test_build.py",
    "program": "needs a board at the end of a cable",
    "run": "needs a board; tests/cli/emulation runs on emulated ones",
    "emulate": "runs until it is stopped; tests/cli/emulation",
    "explore": "searches for minutes; tests/cli/commands/test_explore.py",
    "generate": "writes a folder whose test takes minutes; tests/cli/package",
}
#: Words of a line that stand for a reader's own, and what the walk puts there.
STANDS_FOR = {"TENSOR": "conv_0", "FILE.py": "patterns.py", "../shared/cases": "cases"}
ENGINES = ("sim", "verify", "report")


def lines_of(page: Path) -> list[str]:
    """Return the commands of a page's blocks."""
    inside, found = False, []
    for line in page.read_text(encoding="utf-8").splitlines():
        inside ^= line.lstrip().startswith("```")
        match = LINE.match(line)
        if match and (inside or line.startswith("   ")):
            found.append(re.split(r" +#| &$| \|", match[1])[0])
    return found


COMMANDS = [(page, line) for page in PAGES for line in lines_of(page)]


def arguments_of(line: str) -> list[str]:
    return [STANDS_FOR.get(word, word) for word in shlex.split(line)[1:]]


def is_left_out(line: str) -> bool:
    """Whether the walk leaves a command out; tests/api/test_cluster.py has a scheduler of its own."""
    return arguments_of(line)[0] in LEFT_OUT or "--scheduler" in line


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 35
    assert {arguments_of(line)[0] for _, line in COMMANDS} >= {"compile", "sim", "verify", "report", *LEFT_OUT}


#: What stands for several options in the usage of docs/reference/cli.md.
SHORT = {"[PROFILE]": "--profile", "[SHAPES]": "--batch --shape --signature", "[DRAWN]": "--seed --sets",
         "[MEMORY]": "--latency --bytes-per-cycle --stalls", "[as above]": "--inputs --outputs --bench --json",
         "[WAVES]": "--waves --waves-scope --waves-from --waves-to"}


def test_the_usage_has_every_option() -> None:
    """But for those that the page has for several commands at once, and long forms of what has a short one."""
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8").partition("    PROFILE ")[0]
    named: dict[str, set[str]] = {}
    for name, usage in re.findall(r"^    tq-hw ([a-z]+)((?:.*\n)(?:     .*\n)*)", text, re.M):
        for short, options in SHORT.items():
            usage = usage.replace(short, options)
        named.setdefault(name, set()).update(re.findall(r"--?[a-z][a-z-]*", usage))
    context = click.Context(group)
    assert set(named) == set(group.list_commands(context))
    for name, words in named.items():
        command = group.get_command(context, name)
        assert command is not None
        options = [{*each.opts, *each.secondary_opts} for each in command.params if isinstance(each, click.Option)]
        assert [each for each in options if not each & {*words, "--board", "--patterns", "--debug"}] == [], name
        assert {word for word in words if word.startswith("--")} <= set().union(*options), name


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page.name}: {line}" for page, line in COMMANDS])
def test_command_and_options_exist(page: Path, line: str) -> None:
    name, *arguments = arguments_of(line)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    with command.make_context(name, arguments):
        pass


@pytest.fixture
def folder(tq: Run, tmp_path: Path) -> Path:
    """The reader's folder: a model under the names of the guides, inputs, a picture, a machine."""
    digits = ROOT / "examples" / "digits" / "digits.tflite"
    for name in ("model", "kws", "vww", "keras", "cases/one", "examples/digits/digits"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(digits, tmp_path / f"{name}.tflite")
    np.savez(tmp_path / "in.npz", input_0=np.zeros((1, 8, 8, 1), np.int8))
    Image.new("L", (20, 20)).save(tmp_path / "photo.png")
    (tmp_path / "my_board.toml").write_text("rows = 8\ncols = 8\nrequantize_lanes = 2\nscratchpad_bytes = '32 KiB'\n")
    shutil.copy(tmp_path / "my_board.toml", tmp_path / "machine.toml")
    shutil.copy(tmp_path / "my_board.toml", tmp_path / "npu.toml")
    guide = (ROOT / "docs" / "guide" / "write-a-pattern.md").read_text(encoding="utf-8")
    (tmp_path / "patterns.py").write_text(re.findall(r"^```python\n(.*?)^```$", guide, re.M | re.S)[0])
    return tmp_path


def walk(tq: Run, page: Path, quick: bool) -> int:
    """Run the commands of a page in order; return how many ran."""
    ran = 0
    for line in lines_of(page):
        name, *arguments = arguments_of(line)
        needs_rtl = "--waves" in arguments or "--trace" in arguments or "--stalls" in arguments or "--soc" in arguments
        if is_left_out(line) or (quick and needs_rtl):
            continue
        if quick and name in ENGINES:
            if "rtl" in arguments:
                continue
            arguments += [] if "--engine" in arguments else ["--engine", "executor"]
        outcome = tq(name, *arguments)
        assert outcome.code == 0, f"{line}: {outcome.err}"
        ran += 1
    return ran


WALKED = [page for page in PAGES if not all(map(is_left_out, lines_of(page)))]


@pytest.mark.parametrize("page", WALKED, ids=lambda page: page.name)
def test_quick_walk(tq: Run, folder: Path, page: Path) -> None:
    assert folder.is_dir()
    walk(tq, page, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", WALKED, ids=lambda page: page.name)
def test_literal_walk(tq: Run, folder: Path, page: Path) -> None:
    assert folder.is_dir()
    assert walk(tq, page, quick=False)


SNIPPETS = [(page, block) for page in PAGES
            for block in re.findall(r"^ *```python\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.M | re.S)]


@pytest.mark.parametrize(("page", "block"), SNIPPETS, ids=[f"{page.name}-{n}" for n, (page, _) in enumerate(SNIPPETS)])
def test_what_snippets_import_exists(page: Path, block: str) -> None:
    """Most snippets run in tests of their own pages; here each is Python, and what it takes from tq_hw is there."""
    for node in ast.walk(ast.parse(textwrap.dedent(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tq_hw"):
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
