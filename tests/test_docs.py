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
