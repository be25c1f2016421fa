"""The UART: bytes over the pins, with inexact rates and noise, and the bridge after it."""

import random
from typing import Any

import pytest
from amaranth import Module
from amaranth.sim import Simulator
from link_reference import ReferenceBoard

from tq_hw.boards.gateware.bridge import UartBridge
from tq_hw.boards.gateware.uart import UartReceiver, UartTransmitter, bit_cycles
from tq_hw.boards.link.protocol import Command, Identity, Request
from tq_hw.isa.config import load_config


async def send_bits(ctx: Any, pin: Any, byte: int, cycles: float, stop: int = 1) -> None:
    """Put a byte on a pin; `cycles` of a bit may be a fraction."""
    spent = 0
    for number, bit in enumerate([0, *(byte >> k & 1 for k in range(8)), stop], 1):
        ctx.set(pin, bit)
        until = round(number * cycles)
        await ctx.tick().repeat(until - spent)
        spent = until
    ctx.set(pin, 1)


async def take_bits(ctx: Any, pin: Any, cycles: int) -> int:
    """Wait for a start bit and return the byte, each bit sampled in its middle."""
    while ctx.get(pin):
        await ctx.tick()
    await ctx.tick().repeat(cycles // 2)
    assert ctx.get(pin) == 0
    byte = 0
    for bit in range(8):
        await ctx.tick().repeat(cycles)
        byte |= ctx.get(pin) << bit
    await ctx.tick().repeat(cycles)
    assert ctx.get(pin) == 1
    return byte


def simulate(dut: Any, *benches: Any) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for bench in benches[:-1]:
        simulator.add_testbench(bench, background=True)
    simulator.add_testbench(benches[-1])
    simulator.run()


def received(cycles: int, bench: Any) -> list[int]:
    """Return what a receiver with `cycles` per bit receives from the pin that `bench` drives."""
    dut = UartReceiver(cycles)
    found: list[int] = []

    async def watch(ctx: Any) -> None:
        async for _, _, valid, byte in ctx.tick().sample(dut.valid, dut.data):
            if valid:
                found.append(byte)

    async def drive(ctx: Any) -> None:
        await bench(ctx, dut.rx)
        await ctx.tick().repeat(3 * cycles)

    simulate(dut, watch, drive)
    return found


@pytest.mark.parametrize("rate", [0.97, 1.0, 1.03])
def test_receiver_takes_bytes_at_a_slightly_wrong_rate(rate: float) -> None:
    data = [0x00, 0xFF, 0x55, 0xAA, *random.Random(1).randbytes(20)]

    async def bench(ctx: Any, rx: Any) -> None:
        for byte in data:
            await send_bits(ctx, rx, byte, 16 * rate)

    assert received(16, bench) == data


def test_receiver_drops_noise_and_bytes_without_a_stop_bit() -> None:
    async def bench(ctx: Any, rx: Any) -> None:
        await send_bits(ctx, rx, 0x31, 10)
        ctx.set(rx, 0)
        await ctx.tick().repeat(3)
        ctx.set(rx, 1)
        await ctx.tick().repeat(20)
        await send_bits(ctx, rx, 0x32, 10, stop=0)
        await ctx.tick().repeat(40)
        await send_bits(ctx, rx, 0x33, 10)

    assert received(10, bench) == [0x31, 0x33]


def test_transmitter_and_receiver_agree_back_to_back() -> None:
    m = Module()
    m.submodules.transmitter = transmitter = UartTransmitter(5)
    m.submodules.receiver = receiver = UartReceiver(5)
    m.d.comb += receiver.rx.eq(transmitter.tx)
    data = list(random.Random(2).randbytes(40))
    found: list[int] = []

    async def watch(ctx: Any) -> None:
        async for _, _, valid, byte in ctx.tick().sample(receiver.valid, receiver.data):
            if valid:
                found.append(byte)

    async def drive(ctx: Any) -> None:
        for byte in data:
            ctx.set(transmitter.i.payload, byte)
            ctx.set(transmitter.i.valid, 1)
            await ctx.tick().until(transmitter.i.ready)
        ctx.set(transmitter.i.valid, 0)
        await ctx.tick().repeat(100)

    simulate(m, watch, drive)
    assert found == data


def test_the_bridge_answers_on_the_pins() -> None:
    config = load_config("tiny")
    clock_hz, baud = 1_000_000, 100_000
    dut = UartBridge(config, clock_hz, baud, memory_base=0x1000, memory_bytes=0x2000)
    board = ReferenceBoard(Identity(1, config.fingerprint, 0x1000, 0x2000, 256, clock_hz))
    requests = [Request(Command.OPEN, 1, 3, 24), Request(Command.READ_REGISTERS, 2, 3, 4, 0)]
    expected = [board.feed(request.to_bytes()) for request in requests]
    found: list[bytes] = []

    async def bench(ctx: Any) -> None:
        for request, answer in zip(requests, expected, strict=True):
            for byte in request.to_bytes():
                await send_bits(ctx, dut.rx, byte, 10)
            found.append(bytes([await take_bits(ctx, dut.tx, 10) for _ in answer]))

    simulate(dut, bench)
    assert found == expected


def test_a_baud_rate_that_the_clock_cannot_give_is_rejected() -> None:
    assert bit_cycles(25_000_000, 115_200) == 217
    with pytest.raises(ValueError, match=r"^a clock of 25 MHz cannot make 3000000 baud: expected 5 or more cycles per "
                                          r"bit and an error of 2 % or less, found 8\.33 cycles$"):
        bit_cycles(25_000_000, 3_000_000)
