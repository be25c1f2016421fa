"""The C driver at the limits of numbers (the last address, a counter that wraps), and with a model that is not open."""

import ctypes
from typing import Any

import pytest
from native import MEMORY, MEMORY_BYTES, MEMORY_SPACE, NAMES, BenchBus, Driver, machine
from networks import compiled, stored

from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.rtl.bench import Bench


@pytest.fixture(scope="module")
def small() -> Program:
    return compiled(write_model(typical("ADD")), "add")


def test_memory_may_end_at_the_last_address(tq: Any, small: Program) -> None:
    memory = (1 << 32) - MEMORY_BYTES
    with machine(memory) as bench:
        driver = Driver(tq, BenchBus(bench).bus)
        assert driver.open(to_bytes(small), memory, MEMORY_BYTES + 1) == "bad argument"
        assert driver.open(to_bytes(small), memory, MEMORY_BYTES) == "done"
        inputs = random_inputs(small, 5)
        assert driver.run(stored(small, inputs)) == [array.tobytes() for array in execute(small, inputs).outputs]


def test_a_model_that_did_not_open_is_a_bad_argument(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
    tensor, model = ctypes.byref(driver.model.inputs[0]), ctypes.byref(driver.model)
    assert driver.open(to_bytes(small)[:60], MEMORY, MEMORY_BYTES) == "not a compiled model"
    data, value = ctypes.create_string_buffer(1 << 10), ctypes.c_uint32()
    for one in (model, None):
        for status in (tq.tq_write(one, tensor, data, driver.model.inputs[0].bytes), tq.tq_run(one, 1000),
                       tq.tq_read(one, tensor, data, driver.model.inputs[0].bytes), tq.tq_reset_state(one),
                       tq.tq_counter(one, 0x80, ctypes.byref(value))):
            assert driver.text(status) == "bad argument"


class Endless(BenchBus):
    """A machine that is busy until it is stopped, and whose counter wraps every four reads."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.looks, self.runs = 0, False

    def _read(self, context: Any, space: int, address: int, data: int, size: int) -> int:
        if self.runs and space != MEMORY_SPACE and NAMES[address] in ("status", "counter_cycles"):
            self.looks += NAMES[address] != "status"
            value = 1 if NAMES[address] == "status" else self.looks << 30 & 0xFFFFFFFF
            ctypes.memmove(data, value.to_bytes(4, "little"), size)
            return 0
        return super()._read(context, space, address, data, size)

    def _write(self, context: Any, space: int, address: int, data: int, size: int) -> int:
        if space != MEMORY_SPACE and NAMES[address] == "control":
            self.runs = ctypes.string_at(data, 1) == b"\1"
        return super()._write(context, space, address, data, size)


@pytest.mark.parametrize(("most_cycles", "looks"), [(1 << 30, 2), (0xC0000000, 4), (0xFFFFFFFF, 4)])
def test_a_counter_that_wraps_ends_a_run(tq: Any, small: Program, most_cycles: int, looks: int) -> None:
    with machine() as bench:
        endless = Endless(bench)
        driver = Driver(tq, endless.bus)
        assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
        run = ctypes.byref(driver.model), ctypes.c_uint32(most_cycles)
        assert driver.text(tq.tq_run(*run)) == "the accelerator did not end in time"
        assert endless.looks == looks
