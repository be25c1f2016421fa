"""Links of the documentation lead somewhere, the files it names exist, and every page is to be found."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
#: `folder/file.py` in a page; a star stands for any letters.
SOURCE = re.compile(r"`((?:benches|boards|cli|compiler|examples|hdl|isa|model|scripts|sim|tests)"
                    r"/[\w/*.]+\.(?:py|cpp))`")
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


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.is_file():
            seen.add(page)
            waiting += links(page)
    assert sorted(set(DOCS.rglob("*.md")) - seen) == []


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
    assert "scratchpad constants 2 CONV_2D 296 321 " in text
    array = next(line for line in others if line.startswith("ARRAY "))
    parts = ("{<Unit.LOAD: 1>: 1, <Unit.VECTOR: 3>: 1}", "'slots': 32", "'weight_rows': 16")
    assert all(part in array for part in parts)
