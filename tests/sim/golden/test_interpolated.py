"""TFLite Micro's interpolated logistic and tanh: the table, its ends, and the distance from the functions."""

import numpy as np

from tq_hw.sim.golden.interpolated import interpolated_logistic, interpolated_tanh, logistic_table

EVERY = np.arange(-32768, 32768)


def test_table() -> None:
    table = logistic_table()
    assert table[[0, 1, 2, 4, 24, 254, 255]].tolist() == [32768, 33451, 34133, 35493, 47911, 65534, 65535]
    assert (np.diff(table) >= 0).all() and np.diff(table).max() < 1 << 10


def test_distance_from_the_functions() -> None:
    real = EVERY / 4096
    assert np.abs(interpolated_logistic(EVERY) - 32768 / (1 + np.exp(-real))).max() < 2
    for bits in range(9, 16):
        assert np.abs(interpolated_tanh(EVERY, bits) - 32768 * np.tanh(EVERY / (1 << bits))).max() < 3


def test_results_are_int16() -> None:
    assert (interpolated_logistic(EVERY).min(), interpolated_logistic(EVERY).max()) == (11, 32757)
    assert (interpolated_tanh(EVERY, 9).min(), interpolated_tanh(EVERY, 9).max()) == (-32767, 32767)
