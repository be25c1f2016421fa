"""A board whose DDR3 is levelled after each reset: the windows differ each time, results stay bit-exact."""

import threading

import pytest

from tq_hw.boards.link.device import Device
from tq_hw.boards.link.host import Link
from tq_hw.boards.link.port import SerialPort
from tq_hw.boards.link.protocol import DramState
from tq_hw.cli.emulation.emulator import Emulator
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.layers import sample
from tq_hw.sim import edges, golden


@pytest.mark.slow
@pytest.mark.parametrize(("phy", "widths"), [("A7DDRPHY", range(8, 16)), ("ECP5DDRPHY", range(5, 6))])
def test_network_is_exact_behind_windows_of_every_reset(phy: str, widths: range) -> None:
    emulator = Emulator(PRESETS["tiny"], 1 << 20, 100_000_000, phy=phy)
    thread = threading.Thread(target=emulator.serve)
    thread.start()
    model = sample("chain", 3)
    program = compile_model(model, PRESETS["tiny"]).program
    found = set()
    port = SerialPort(emulator.port, 1_000_000)
    try:
        for seed in range(3):
            device = Device(Link(port))
            assert device.dram.state is DramState.READY
            assert all(window.length in widths for window in device.dram.windows)
            found.add(device.dram.windows)
            inputs, = draw_inputs(model, 1, seed)
            device.load(program)
            run = device.run([edges.to_port(one, array) for one, array in zip(program.inputs, inputs, strict=True)])
            outputs = [edges.from_port(one, data) for one, data in zip(program.outputs, run.outputs, strict=True)]
            expected = golden.run(model, inputs).outputs
            assert [output.tolist() for output in outputs] == [wanted.tolist() for wanted in expected]
            emulator.reset()
    finally:
        emulator.end()
        thread.join()
        emulator.close()
        port.close()
    assert len(found) == 3
