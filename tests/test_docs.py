"""Links of the documentation lead somewhere, the files it names exist, and every page is to be found."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *sorted(DOCS.rglob("*.md"))]
#: `folder/file.py` in a page; a star stands for any letters.
SOURCE = re.compile(r"`((?:api|benches|boards|cli|compiler|examples|hdl|isa|model|scripts|sim|tests)"
                    r"/[\w/*.]+\.(?:py|cpp))`")
#: What a browser would fetch from elsewhere; a link is not fetched.
FETCHED = re.compile(r"""<(?:script|img|iframe)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\brel=["']?stylesheet[^>]*//""")
#: A file that a comment or docstring names.
NAMED = re.compile(r"\b(?:api|benches|boards|cli|compiler|docs|examples|firmware|hdl|isa|model|scripts|sim|tests)"
                   r"(?:/[\w-]+)+\.(?:cpp|md|py)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")


def links(page: Path) -> Iterator[Path]:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            yield (page.parent / target).resolve()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page: Path) -> None:
    assert [path for path in links(page) if not path.exists()] == []
    text = page.read_text(encoding="utf-8")
    assert [name for name in SOURCE.findall(text) if not list(ROOT.glob(name))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_reads_the_same_everywhere(page: Path) -> None:
    """Lines are short; lists and tables have an empty line before them, without which the site has none there."""
    code, before = False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        code ^= line.startswith("```")
        assert code or line.startswith(("|", "#")) or len(line) <= 120, f"line {number} has {len(line)} columns"
        begins = re.match(r"([-*]|\d+\.) |\|", line) and not re.match(r"([-*]|\d+\.) |  |[|#]|$", before)
        assert code or not begins, f"line {number}: an empty line is missing before it"
        before = line


def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    """A link or an anchor that leads nowhere is an error of the build."""
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)], cwd=ROOT,
                          env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []


def test_what_guides_say_is_generated_is() -> None:
    """Each `python -m MODULE > FILE`; those that compile models have tests of their own."""
    found = {match for page in (DOCS / "guide").glob("*.md")
             for match in re.findall(r"python -m (tq_hw[\w.]+)(?: --\w+)? > ([\w/.-]+)", page.read_text("utf-8"))}
    assert {"tq_hw.isa.reference", "tq_hw.isa.c_header", "tq_hw.cli.reference.operators"} <= {name for name, _ in found}
    for module, file in sorted(found):
        assert (ROOT / file).is_file() and find_spec(module) is not None, module
        if module.startswith("tq_hw.isa."):
            done = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, check=True)
            assert done.stdout == (ROOT / file).read_text(encoding="utf-8"), file


def test_files_named_in_sources_exist() -> None:
    folders = ("api", "benches", "boards", "cli", "compiler", "docs", "examples", "hdl", "isa", "model", "scripts",
               "sim", "tests")
    named = {(str(path.relative_to(ROOT)), name) for folder in folders for path in (ROOT / folder).rglob("*.py")
             for name in NAMED.findall(path.read_text(encoding="utf-8"))}
    assert [(path, name) for path, name in sorted(named) if not (ROOT / name).exists()] == []


def test_architecture_has_every_folder() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|", page, re.M)
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {package.removeprefix("tq_hw.").replace(".", "/") for package in packages if package != "tq_hw"} | {"api"}
    assert sorted(folders - named - {"boards"}) == []


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.is_file():
            seen.add(page)
            waiting += links(page)
    assert sorted(set(DOCS.rglob("*.md")) - seen) == []


def test_the_index_and_the_site_list_all_decisions() -> None:
    decisions = [f"decisions/{path.name}" for path in sorted((DOCS / "decisions").glob("*.md"))]
    for page in (DOCS / "index.md", ROOT / "mkdocs.yml"):
        assert re.findall(r"decisions/\d{4}-[\w-]+\.md", page.read_text(encoding="utf-8")) == decisions, page.name


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_the_layer_that_is_followed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (DOCS / "guide" / "follow-a-layer.md").read_text(encoding="utf-8")
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), "follow-a-layer.md", "exec"), {})
    first, *others = capsys.readouterr().out.splitlines()
    assert f"prints `{first}`" in page
    text = "\n".join(others)
    # The words of the input, the output and the constants, the tokens and the shape of the array's operation.
    assert "scratchpad tensor residual_1_0 72 144 " in text and "scratchpad tensor residual_1_1 145 217 " in text
    assert "scratchpad constants 2 CONV_2D 424 449 " in text
    array = next(line for line in others if line.startswith("ARRAY "))
    parts = ("{<Unit.LOAD: 1>: 1, <Unit.VECTOR: 3>: 1}", "'slots': 32", "'weight_rows': 16")
    assert all(part in array for part in parts)
