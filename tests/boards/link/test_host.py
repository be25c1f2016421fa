"""Link and device with a board in Python, over good, noisy and dead lines."""

import time
from dataclasses import replace

import numpy as np
import pytest
from line import AcceleratorBoard, BadLine, Clock
from networks import compiled, stateful_program, stored

from tq_hw.boards.link.device import Device, MachineError
from tq_hw.boards.link.host import Link
from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.protocol import MOST_BYTES, REQUEST_SYNC, Answer, Identity, Receiver, Request, Result
from tq_hw.boards.link.room import memory_bytes
from tq_hw.isa.control import NO_RUN, Status
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError, OptionError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim import edges
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute


@pytest.fixture(scope="module")
def program() -> Program:
    """A convolution of a 6 x 5 x 3 input."""
    rng = np.random.default_rng(7)
    b = ModelBuilder("small")
    image = b.input((1, 6, 5, 3), scale=0.5, zero_point=-3)
    weights = b.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), scale=[0.01, 0.02, 0.03, 0.04])
    bias = b.bias(image, weights, [5, -7, 900, 0])
    return compiled(b.build(b.add("CONV_2D", [image, weights, bias], scale=0.9, zero_point=4, padding="SAME")), "small")


@pytest.fixture(scope="module")
def stateful() -> Program:
    return stateful_program()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and line have a clock of their own."""
    clock = Clock()
    for module in ("line", "tq_hw.boards.link.host", "tq_hw.boards.link.device"):
        monkeypatch.setattr(f"{module}.time", clock)


def device(board: AcceleratorBoard, *, seed: int = 0, one_in: int = 0) -> tuple[Device, Link, BadLine]:
    line = BadLine(board, seed=seed, one_in=one_in)
    link = Link(line, patience_seconds=5)
    return Device(link, time_limit_seconds=0.2), link, line


def check(board: AcceleratorBoard, one: Device, sets: int) -> None:
    """Run several input sets and compare every byte with the executor's."""
    program = board.program
    for number in range(sets):
        inputs = random_inputs(program, number)
        expected = [edges.to_port(port, np.asarray(array)) for port, array in
                    zip(program.outputs, execute(program, inputs).outputs, strict=True)]
        result = one.run(stored(program, inputs))
        assert list(result.outputs) == expected
        assert result.counters["fetch_stall"] == 1001


def test_a_good_line_needs_no_repeats(program: Program) -> None:
    board = AcceleratorBoard(program)
    one, link, _ = device(board)
    seen: list[int] = []
    one.load(program, seen.append)
    assert seen == [*range(256, len(program.image), 256), len(program.image)]
    check(board, one, 2)
    assert (link.repeats, one.resets, board.runs) == (0, 0, 2)
    assert one.identity == Identity(1, program.fingerprint, 0x10000, 1 << 20, 256, 100_000_000)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(4))
def test_a_bad_line_changes_no_tensor_and_starts_nothing_twice(program: Program, seed: int) -> None:
    """Bytes are dropped, flipped, doubled or delayed, 1 in 400 each: together 1 in 100."""
    board = AcceleratorBoard(program)
    one, link, line = device(board, seed=seed, one_in=100)
    one.load(program)
    check(board, one, 3)
    assert line.damaged > 20
    assert link.repeats > 5
    assert board.runs == 3
    assert one.resets == 0


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(2))
def test_state_is_kept_over_a_bad_line(stateful: Program, seed: int) -> None:
    board = AcceleratorBoard(stateful)
    one, _, _ = device(board, seed=seed, one_in=100)
    one.load(stateful)
    one.run(stored(stateful, random_inputs(stateful, 90)))
    state = execute(stateful, random_inputs(stateful, 90)).state
    for number in range(4):
        inputs = random_inputs(stateful, number)
        expected = execute(stateful, inputs, state=state)
        assert one.run(stored(stateful, inputs), keep_state=True).outputs[0] == expected.outputs[0].tobytes()
        state = expected.state
    fresh = execute(stateful, inputs)
    assert one.run(stored(stateful, inputs)).outputs[0] == fresh.outputs[0].tobytes()


@pytest.mark.parametrize("at", [100, 700, 1400])
def test_a_reset_of_the_board_loads_everything_again(program: Program, at: int) -> None:
    board = AcceleratorBoard(program)
    board.reset_at = [at, at + 1800]
    one, _, _ = device(board)
    one.load(program)
    check(board, one, 12)
    assert one.resets == 2


@pytest.mark.parametrize("at", [17, 40])
def test_a_reset_while_the_session_is_opened(program: Program, at: int) -> None:
    board = AcceleratorBoard(program)
    board.reset_at = [at]
    one, _, _ = device(board)
    one.load(program)
    check(board, one, 1)
    assert one.resets == 1
    board = AcceleratorBoard(program)
    board.reset_at = list(range(17, 1000, 32))
    with pytest.raises(DeviceError, match="^the board was reset 5 times: check its power$"):
        device(board)


def test_a_board_that_is_reset_again_and_again_is_an_error(program: Program) -> None:
    board = AcceleratorBoard(program)
    one, _, _ = device(board)
    board.reset_at = list(range(500, 100_000, 500))
    with pytest.raises(DeviceError, match=r"^the board was reset \d+ times: check its power$"):
        one.load(program)


def test_a_reset_loses_a_state_that_was_to_be_kept(stateful: Program) -> None:
    board = AcceleratorBoard(stateful)
    one, _, _ = device(board)
    one.load(stateful)
    inputs = stored(stateful, random_inputs(stateful, 0))
    one.run(inputs)
    board.reset()
    with pytest.raises(DeviceError, match="^svdf: the board was reset, and the state of the model is lost: load it "
                                          "again$"):
        one.run(inputs, keep_state=True)
    one.load(stateful)
    check(board, one, 1)


def test_programs_stay_in_memory_as_long_as_there_is_room(stateful: Program) -> None:
    """Each keeps its image and its state; one that does not fit replaces all of them."""
    other = replace(stateful, name="other")
    board = AcceleratorBoard(stateful, memory_bytes=2 * memory_bytes([stateful]))
    one, link, _ = device(board)
    assert [one.select(each) for each in (stateful, other, stateful, other)] == [False, False, True, True]
    state = stateful.state
    for number in range(3):
        inputs = random_inputs(stateful, number)
        expected = execute(stateful, inputs, state=state)
        one.select(stateful)
        found = one.run(stored(stateful, inputs), keep_state=number > 0)
        assert found.outputs[0] == expected.outputs[0].tobytes()
        state = expected.state
        one.select(other)
        assert one.run(stored(other, inputs)).outputs[0] == execute(other, inputs).outputs[0].tobytes()
    assert not one.select(replace(stateful, name="third"))
    assert [one.select(each) for each in (stateful, other)] == [False, False]
    board.reset()
    check(board, one, 1)
    assert [one.select(each) for each in (other, stateful)] == [True, False]


def test_another_configuration_is_rejected(program: Program) -> None:
    one, _, _ = device(AcceleratorBoard(program, fingerprint=0xDEADBEEF))
    with pytest.raises(OptionError) as found:
        one.load(program)
    assert str(found.value) == (f"small: is compiled for configuration 'tiny' (fingerprint {program.fingerprint:08x}), "
                                "the board has deadbeef; compile it for the board's configuration")


def test_a_model_larger_than_memory_is_rejected(program: Program) -> None:
    one, _, _ = device(AcceleratorBoard(program, memory_bytes=1024))
    with pytest.raises(OptionError) as found:
        one.load(program)
    needed = sum(-(-program.region_bytes(region) // 256) * 256 for region in range(3))
    assert str(found.value) == (f"small: needs {needed} bytes of memory (image {len(program.image)}, arena "
                                f"{program.arena_bytes}, state 0), the board has 1024")


def test_inputs_of_a_wrong_size_are_rejected(program: Program) -> None:
    one, _, _ = device(AcceleratorBoard(program))
    with pytest.raises(OptionError, match="^no model is loaded$"):
        one.run([])
    one.load(program)
    with pytest.raises(OptionError, match=r"^small: inputs must have \[90\] bytes, found \[1, 2\]$"):
        one.run([b"1", b"22"])


def test_an_error_of_the_machine_names_the_operation(program: Program) -> None:
    board = AcceleratorBoard(program)
    one, _, _ = device(board)
    one.load(program)
    board.stop_with = Status.BUS_ERROR
    with pytest.raises(MachineError, match="^array RUN 3: BUS_ERROR$") as found:
        one.run(stored(program, random_inputs(program)))
    assert (found.value.status, found.value.unit, found.value.run) == (Status.BUS_ERROR, Unit.ARRAY, 3)
    assert str(MachineError(Status.NO_ANSWER, Unit.CONTROL, NO_RUN)) == "control: NO_ANSWER"
    board.stop_with = None
    check(board, one, 1)


def test_a_memory_that_owes_answers_after_a_stop_is_reported(program: Program) -> None:
    board = AcceleratorBoard(program)
    one, _, _ = device(board)
    one.load(program)
    board.owed = board.endless = True
    with pytest.raises(DeviceError, match=r"^the accelerator does not stop: its memory does not answer; reset the "
                                          "board$"):
        one.run(stored(program, random_inputs(program)))
    board.owed = board.endless = False
    check(board, one, 1)


def test_a_run_without_end_is_stopped(program: Program) -> None:
    board = AcceleratorBoard(program)
    one, _, _ = device(board)
    one.load(program)
    board.endless = True
    with pytest.raises(DeviceError, match=r"^small: timed out after 0\.2 s; the accelerator was stopped$"):
        one.run(stored(program, random_inputs(program)))
    board.endless = False
    check(board, one, 1)


def test_a_dead_line_is_an_error() -> None:
    class Dead:
        byte_seconds = 0.0

        def write(self, data: bytes) -> None:
            pass

        def read(self, wait_seconds: float) -> bytes:
            return b""

    with pytest.raises(LinkError, match=r"^the board did not answer for 0\.1 seconds: check cable, port, baud rate, "
                                        "and that the bitstream is loaded$"):
        Link(Dead(), patience_seconds=0.1).open()


def test_an_echo_is_not_mistaken_for_a_board() -> None:
    class Echo:
        byte_seconds = 0.0
        data = b""

        def write(self, data: bytes) -> None:
            self.data += data

        def read(self, wait_seconds: float) -> bytes:
            data, self.data = self.data, b""
            return data

    with pytest.raises(LinkError, match=r"^the board did not answer for 0\.1 seconds"):
        Link(Echo(), patience_seconds=0.1).open()


def test_a_port_that_never_stops_sending_is_an_error() -> None:
    class Flood:
        byte_seconds = 0.0

        def write(self, data: bytes) -> None:
            pass

        def read(self, wait_seconds: float) -> bytes:
            return b"\x5a\xa5"

    with pytest.raises(LinkError, match=r"^the port sends bytes for 0\.1 seconds without being asked: check "
                                        "that port and baud rate are the board's$"):
        Link(Flood(), patience_seconds=0.1).open()


def test_a_flood_of_bytes_after_the_first_request_is_an_error() -> None:
    class Late:
        byte_seconds = 0.0
        asked = False

        def write(self, data: bytes) -> None:
            self.asked = True

        def read(self, wait_seconds: float) -> bytes:
            return b"\x5a\xa5" if self.asked else b""

    with pytest.raises(LinkError, match=r"^the board did not answer for 0\.1 seconds"):
        Link(Late(), patience_seconds=0.1).open()


@pytest.mark.parametrize("seed", range(40))
def test_random_answers_are_accepted_or_rejected_in_time(seed: int) -> None:
    """Answers with a valid checksum and any contents give an identity that obeys its rules, or an error."""
    rng = np.random.default_rng(seed)

    class Peer:
        byte_seconds = 0.0
        waiting = b""

        def write(self, data: bytes) -> None:
            receiver = Receiver(REQUEST_SYNC)
            asked, = (one for one in map(receiver.feed, data) if isinstance(one, Request))
            words = rng.choice([0, 1, 256, 0x1000, 1 << 31, (1 << 32) - 256, (1 << 32) - 1], rng.choice([6, 6, 6, 3]))
            status = Result.OK if rng.integers(4) else Result(int(rng.choice(list(Result))))
            self.waiting += Answer(status, asked.sequence, asked.session, words.astype("<u4").tobytes()).to_bytes()

        def read(self, wait_seconds: float) -> bytes:
            data, self.waiting = self.waiting, b""
            return data

    try:
        identity = Link(Peer(), patience_seconds=0.1).open()
    except LinkError as error:
        assert str(error)
    else:
        assert identity.version == 1
        assert identity.clock_hz > 0
        assert identity.memory_base + identity.memory_bytes <= 1 << 32


def test_the_host_waits_for_a_slow_board(program: Program) -> None:
    """Such as an emulated one on a busy computer."""
    slow_seconds = 0.4
    board = AcceleratorBoard(program)

    class Slow:
        byte_seconds = 0.0

        def __init__(self) -> None:
            self.line = BadLine(board)
            self.due = 0.0

        def write(self, data: bytes) -> None:
            self.due = time.monotonic() + slow_seconds
            self.line.write(data)

        def read(self, wait_seconds: float) -> bytes:
            early = self.due - time.monotonic()
            time.sleep(max(min(early, wait_seconds), 0))
            return self.line.read(0) if early <= wait_seconds else b""

    link = Link(Slow())
    base = link.open().memory_base
    link.write_memory(base, bytes(range(MOST_BYTES)))
    assert (link.read_memory(base + 7, 4), link.repeats) == (bytes(range(7, 11)), 0)


def test_a_board_with_another_protocol_version_is_rejected(program: Program) -> None:
    board = AcceleratorBoard(program)
    board.identity = replace(board.identity, version=2)
    with pytest.raises(LinkError, match="^the board speaks version 2 of the link protocol, this program 1: build board "
                                        "and program from the same sources$"):
        device(board)


def test_a_board_without_an_accelerator_is_rejected(program: Program) -> None:
    board = AcceleratorBoard(program)
    board.registers[:] = bytes(256)
    with pytest.raises(LinkError) as found:
        device(board)
    assert str(found.value) == ("the board has no accelerator at its registers: magic 00000000 and fingerprint "
                                f"00000000, expected 57485154 and {program.fingerprint:08x}")


def test_a_rejected_request_is_named(program: Program) -> None:
    _, link, _ = device(AcceleratorBoard(program))
    with pytest.raises(LinkError, match="^the board refuses READ_MEMORY of 1 bytes at 0x5: BAD_ADDRESS$"):
        link.read_memory(5, 1)


@pytest.mark.usefixtures("still")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_no_bad_line_ever_changes_a_tensor(program: Program, seed: int) -> None:
    """Like the test above, with more seeds and a reset in the middle of each."""
    board = AcceleratorBoard(program)
    board.reset_at = [500 + 297 * (seed - 100)]
    one, _, line = device(board, seed=seed, one_in=100)
    one.load(program)
    check(board, one, 4)
    assert line.damaged > 20
    assert one.resets <= 1
