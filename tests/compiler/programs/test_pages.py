"""compiler.programs.pages: a function of one int16 in passes, for all 65,536 codes."""

import numpy as np
import pytest

from tests.compiler.programs.evaluated import evaluated
from tq_hw.compiler.programs.pages import line, line_program, page_program, pages, wrapped

CODES = np.arange(-(1 << 15), 1 << 15)
X = CODES * 8 / (1 << 15)


def _int16(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -(1 << 15), (1 << 15) - 1).astype(np.int64)


def _in_passes(table: np.ndarray, bits: int, with_line: bool) -> tuple[np.ndarray, list[int]]:
    """Return the results of the programs for all codes, and the bits of each page."""
    made = None
    if with_line:
        entries, values = line(table, bits)
        made = wrapped(evaluated(list(line_program()), CODES.astype(np.int32), tables=entries, int16=True).astype(
            np.int64), bits)
        np.testing.assert_array_equal(made, values)
    found = pages(wrapped(table - (0 if made is None else made), bits))
    for page in found:
        streams = (CODES,) if made is None else (CODES, made)
        program = page_program(page, is_first=made is None)
        made = wrapped(evaluated(list(program), *(each.astype(np.int32) for each in streams), tables=page.words,
                                 int16=True).astype(np.int64), bits)
    return np.zeros_like(table) if made is None else made, [page.bits for page in found]


FUNCTIONS = {
    "hard swish": _int16(X * np.clip(X + 3, 0, 6) / 6 * 4096), "sine": _int16(32767 * np.sin(X)),
    "root": _int16(1000 / np.sqrt(np.maximum(X, 1e-4))), "steps": CODES // 4000 * 4000,
    "falls": _int16(-1.5 * CODES), "least and most": np.where(CODES % 3 == 0, -(1 << 15), (1 << 15) - 1),
    "random": np.random.default_rng(1).integers(-(1 << 15), 1 << 15, 1 << 16)}


@pytest.mark.parametrize("with_line", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_codes(name: str, with_line: bool) -> None:
    for bits in (16, 8):
        table = wrapped(FUNCTIONS[name], bits)
        np.testing.assert_array_equal(_in_passes(table, bits, with_line)[0], table)


@pytest.mark.parametrize(("name", "most"), [("hard swish", 4), ("sine", 20), ("root", 12), ("falls", 8)])
def test_smooth_functions_take_few_pages(name: str, most: int) -> None:
    assert len(_in_passes(FUNCTIONS[name], 16, with_line=True)[1]) <= most
    assert len(_in_passes(FUNCTIONS[name], 16, with_line=False)[1]) > 30


def test_fields_are_as_narrow_as_the_differences_of_a_page() -> None:
    """Bits of the pages: from 16,384 codes of differences of 0 and -1 down to 1,024 codes of any."""
    differences = np.zeros(1 << 16, np.int64)
    differences[5] = -1
    differences[16384 + 3] = 1
    differences[32768 + 8192] = 7
    differences[49152 + 4096 + 1] = -128
    differences[65535] = 129
    assert [(page.number, page.bits) for page in pages(differences)] == [
        (-2, 1), (-2, 2), (2, 4), (10, 8), (31, 16)]
