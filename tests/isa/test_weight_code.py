"""The code of compressed weights: decoding restores the rows, any bytes decode to rows, and no coding is shorter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tq_hw.isa.weight_code import BLOCK_CYCLES, MOST_ROWS, decode_rows, encode_rows, plane_bytes, view_bytes

COLS = (2, 4, 7, 8, 9, 12, 16, 24, 32)


def back(rows: np.ndarray) -> np.ndarray:
    cols = rows.shape[1]
    return decode_rows(encode_rows(rows.astype(np.int8).tobytes(), cols).data, len(rows), cols).view(np.int8)


@pytest.mark.parametrize("cols", COLS)
def test_decoding_restores_the_rows(cols: int) -> None:
    rng = np.random.default_rng(cols)
    for spread in (0, 0.2, 1, 5, 40, 200):
        for count in (1, 2, MOST_ROWS, MOST_ROWS + 1, 600):
            rows = rng.normal(0, spread, (count, cols)).clip(-128, 127).astype(np.int8)
            rows[count // 2:count // 2 + 3] = rng.integers(-128, 128, cols)
            assert np.array_equal(back(rows), rows)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.lists(st.sampled_from([0, 0, 0, 1, -1, 5, -64, 127, -128]), min_size=1, max_size=300),
       cols=st.sampled_from(COLS))
def test_decoding_restores_any_rows(data: list[int], cols: int) -> None:
    rows = np.resize(np.array(data, np.int8), (-(-len(data) // cols), cols))
    assert np.array_equal(back(rows), rows)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.binary(max_size=60), rows=st.integers(1, 400), cols=st.sampled_from(COLS))
def test_any_bytes_decode_to_rows(data: bytes, rows: int, cols: int) -> None:
    """A decoding of fewer rows is a prefix of one of more, and zeros after the bytes change nothing."""
    found = decode_rows(data, rows, cols)
    assert found.shape == (rows, cols)
    assert np.array_equal(decode_rows(data, rows // 2, cols), found[:rows // 2])
    assert np.array_equal(decode_rows(data + bytes(9), rows, cols), found)


def test_bytes_of_blocks() -> None:
    """As written by isa/weight_code.py, for eight columns."""
    assert encode_rows(bytes(8 * 256), 8) == (b"\x00\xff", 256 + BLOCK_CYCLES)
    assert encode_rows(bytes(8 * 257), 8) == (b"\x00\xff\x00\x00", 257 + 2 * BLOCK_CYCLES)
    # Fields 1, 0, 2, 0 ..: two planes; the second row has an escape, and comes with the planes of the third.
    rows = np.zeros((3, 8), np.int8)
    rows[:, 0], rows[:, 2] = -1, 1
    rows[1, 7] = 100
    assert encode_rows(rows.tobytes(), 8).data == bytes((2, 2, 0b1, 0b100, 0b10000001, 0b10000100, 0b1, 0b100, 100))
    # Seven planes and two escapes are more than the decoder sees at once: escapes come first, in a cycle of their own.
    rows = np.full((2, 8), 40, np.int8)
    rows[0, :2] = 63, 64
    rows[0, 2] = -64
    found = encode_rows(rows.tobytes(), 8)
    assert found.data[:2] == b"\x07\x01" and found.data[9:11] == bytes((64, 192)) and len(found.data) == 2 + 7 + 2 + 7
    assert found.cycles == 2 + BLOCK_CYCLES + 1


@pytest.mark.parametrize(("cols", "plane", "view"), [(2, 1, 8), (8, 1, 8), (9, 2, 16), (16, 2, 16), (17, 3, 32)])
def test_sizes(cols: int, plane: int, view: int) -> None:
    assert (plane_bytes(cols), view_bytes(cols)) == (plane, view)


def test_no_other_cut_is_shorter() -> None:
    """For adjacent rows of different kinds: a block for each kind, or fewer where another header would cost more."""
    rng = np.random.default_rng(1)
    parts = [np.zeros((40, 8)), rng.integers(-128, 128, (9, 8)), rng.integers(-3, 4, (60, 8)), np.zeros((1, 8))]
    alone = [len(encode_rows(part.astype(np.int8).tobytes(), 8).data) for part in parts]
    together = len(encode_rows(np.concatenate(parts).astype(np.int8).tobytes(), 8).data)
    assert together <= sum(alone) and alone[0] == 2 and alone[1] == 2 + 72
