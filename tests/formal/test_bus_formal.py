"""Proofs of the bus rules, of every master and slave, with any partner that keeps its own rules, reset at any time.

Where nothing else is said, from any state by induction, so for runs of any length.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.lib import wiring
from prover import holds, proved

from tq_hw.hdl.bus.apb import ApbBridge
from tq_hw.hdl.bus.axi_lite import AxiLiteBridge
from tq_hw.hdl.bus.bursts import BurstSplitter
from tq_hw.hdl.bus.memory_port import MemoryPort
from tq_hw.hdl.bus.read_channel import ReadChannel
from tq_hw.hdl.bus.wishbone import WishboneBridge
from tq_hw.hdl.bus.wishbone_master import WishboneMaster
from tq_hw.hdl.bus.write_channel import WriteChannel
from tq_hw.isa.config import PRESETS, Config

CONFIG = PRESETS["tiny"]
#: A burst of whole beats of 8 bytes that stays within 256 bytes.
LEGAL = "({addr}[2:0] == 0 && {{24'd0, {addr}[7:0]}} + ({{24'd0, {length}}} + 1) * 8 <= 256)"


def legal(addr: str, length: str) -> str:
    return LEGAL.format(addr=addr, length=length)


#: Of the three bridges: how far an access has come that reaches the registers, one at a time.
UNDER_WAY = """
  reg [3:0] under_way = 0;
  always @(posedge clk) under_way <= rst ? 0 : {under_way[2:0], i__valid};
  always @* begin
    assert (o__valid == under_way[3]);
    assert ((under_way & (under_way - 1)) == 0 && (under_way == 0 || !i__valid));
    assert (!reg_write_en || under_way[1]);
  end
"""
AXI_LITE = UNDER_WAY + holds("b", "bus__bvalid", "bus__bready", "bus__bresp", 2) + holds(
    "r", "bus__rvalid", "bus__rready", "bus__rdata, bus__rresp", 34) + """
  // Requests that are taken and not answered.
  reg [2:0] aw = 0, w = 0, ar = 0;
  reg [5:0] write_waits = 0, read_waits = 0;
  always @(posedge clk) begin
    aw <= rst ? 0 : aw + (bus__awvalid && bus__awready) - (bus__bvalid && bus__bready);
    w <= rst ? 0 : w + (bus__wvalid && bus__wready) - (bus__bvalid && bus__bready);
    ar <= rst ? 0 : ar + (bus__arvalid && bus__arready) - (bus__rvalid && bus__rready);
    write_waits <= rst || bus__bvalid || aw == 0 || w == 0 ? 0 : write_waits + 1;
    read_waits <= rst || bus__rvalid || ar == 0 ? 0 : read_waits + 1;
  end
  always @* begin
    // No answer that nobody asked for, none twice: what is open is held, under way, or its answer stands.
    assert (aw == aw_waits + (busy && writing) + bus__bvalid);
    assert (w == w_waits + (busy && writing) + bus__bvalid);
    assert (ar == ar_waits + (busy && !writing) + bus__rvalid);
    if (bus__bvalid) assert (aw != 0 && w != 0);
    if (bus__rvalid) assert (ar != 0);
    // None is forgotten.
    assert (write_waits < 18 && read_waits < 18);
    assert (busy == (under_way != 0) && (!reg_write_en || writing));
  end
"""
WISHBONE = UNDER_WAY + """
  reg [3:0] held = 0, waits = 0;
  reg answered = 0;
  always @(posedge clk) begin
    answered <= !rst && (bus__ack || bus__err);
    // For how long the access that is asked for has been asked for.
    held <= rst || !asks || bus__ack || bus__err ? 0 : held == 15 ? 15 : held + 1;
    waits <= rst || !asks || bus__ack || bus__err ? 0 : waits + 1;
  end
  always @* begin
    assert (!(bus__ack && bus__err));
    if (answered) assert (!bus__ack && !bus__err);
    if (bus__ack || bus__err) assert (held >= 5);
    assert (waits < 14);
    assert ((state_state == 1) == (i__valid || under_way != 0));
    assert ((state_state == 2) == (bus__ack || bus__err) && state_state != 3);
  end
"""
APB = UNDER_WAY + """
  // The requester: a setup cycle, then an access that stays as it is until it is answered.
  reg begun = 0;
  reg [3:0] waits = 0;
  always @(posedge clk) begin
    begun <= !rst && bus__psel && !(bus__penable && bus__pready);
    waits <= rst || !(bus__psel && bus__penable) || bus__pready ? 0 : waits + 1;
  end
  always @* assume (bus__penable == begun && (!begun || bus__psel));
  always @* begin
    if (bus__pready) assert (bus__psel && bus__penable);
    if (bus__pslverr) assert (bus__pready);
    assert (waits < 6);
    assert (begun == (i__valid || under_way != 0 || bus__pready));
    assert (!bus__pready || (!i__valid && under_way == 0));
  end
"""
SPLITTER = holds("o", "o__valid", "o__ready", "o__payload", 43) + f"""
  always @* assume (i__payload_size_bytes != 0);
  always @* begin
    if (o__valid) assert ({legal("o__payload_addr", "o__payload_length")});
    // What is still to come: a span ends after it begins, the last burst ends after its first beat.
    if (span_valid) assert (span_last >= span_addr[4:0]);
    if (o__valid) assert (final_ == (blocks == 0));
    if (o__valid && final_) assert (last >= addr[4:0]);
  end
"""
#: Of the second entry of a slice, whose payload begins with address and length.
WAITING = f"""
  always @* if (back_valid) assert (o__valid && {legal("back_addr", "back_length")});
"""
READ = holds("ar", "bus__arvalid", "bus__arready", "bus__arid, bus__araddr, bus__arlen, bus__arsize", 44) + f"""
  always @* begin
    if (fetch__burst__valid) assume ({legal("fetch__burst__payload_addr", "fetch__burst__payload_length")});
    if (load__burst__valid) assume ({legal("load__burst__payload_addr", "load__burst__payload_length")});
    if (bus__arvalid) assert ({legal("bus__araddr", "bus__arlen")});
    assert (bus__rready && bus__arburst == 1 && bus__arsize == 3);
  end
"""
WRITE = holds("aw", "bus__awvalid", "bus__awready", "bus__awid, bus__awaddr, bus__awlen, bus__awsize", 44) + holds(
    "w", "bus__wvalid", "bus__wready", "bus__wdata, bus__wstrb, bus__wlast", 73) + f"""
  always @* begin
    if (bursts__valid) assume ({legal("bursts__payload_addr", "bursts__payload_length")});
    if (bus__awvalid) assert ({legal("bus__awaddr", "bus__awlen")});
    assert (bus__bready && bus__awburst == 1 && bus__awsize == 3);
  end
"""
PORT = holds("ar", "bus__arvalid", "bus__arready", "bus__araddr", 32) + holds(
    "aw", "bus__awvalid", "bus__awready", "bus__awaddr", 32) + holds(
    "w", "bus__wvalid", "bus__wready", "bus__wdata, bus__wstrb", 72) + """
  // Its user asks for one thing at a time, and the memory answers what was asked for.
  always @* assume (!(read && write) && !((read || write) && pending));
  always @* assume (!bus__rvalid || (pending && reads && !bus__arvalid));
  always @* assume (!bus__bvalid || (pending && !reads && !bus__awvalid && !bus__wvalid));
  always @* begin
    if (!pending) assert (!reads && !bus__arvalid && !bus__awvalid && !bus__wvalid);
    if (reads) assert (!bus__awvalid && !bus__wvalid);
    else assert (!bus__arvalid);
    assert (bus__araddr[2:0] == 0 && bus__awaddr[2:0] == 0 && bus__arlen == 0 && bus__awlen == 0 && bus__wlast);
  end
"""
MASTER = holds(
    "stb", "bus__stb", "bus__ack || bus__err", "bus__cyc, bus__adr, bus__sel, bus__we, bus__cti", 42) + holds(
    "word", "(bus__stb && bus__we)", "bus__ack || bus__err", "bus__dat_w", 64) + f"""
  always @* begin
    if (axi__arvalid) assume ({legal("axi__araddr", "axi__arlen")});
    if (axi__awvalid) assume ({legal("axi__awaddr", "axi__awlen")});
  end
  reg goes_on = 0, ended = 0, wrote = 0;
  reg [28:0] next = 0;
  // Words and answers that each side is owed.
  reg [8:0] beats = 0;
  reg [1:0] answers = 0;
  always @(posedge clk) begin
    goes_on <= !rst && done && bus__cti == 2;
    ended <= !rst && done && bus__cti == 7;
    wrote <= bus__we;
    next <= bus__adr + 1;
    beats <= rst ? 0 : beats + (axi__arvalid && axi__arready ? axi__arlen + 9'd1 : 9'd0) - axi__rvalid;
    answers <= rst ? 0 : answers + (axi__awvalid && axi__awready) - axi__bvalid;
  end
  always @* begin
    if (bus__stb) assert (bus__cyc);
    assert ((bus__cti == 2 || bus__cti == 7) && bus__bte == 0);
    if (goes_on) assert (bus__cyc && bus__adr == next && bus__we == wrote);
    if (ended) assert (!bus__cyc);
    // Never beyond 256 bytes.
    if (bus__cyc) assert ({{4'd0, bus__adr[4:0]}} + left <= 31 && axi__rlast == (left == 0));
    // Every burst of reads has its words, every burst of writes one answer.
    assert (beats == (bus__cyc && !bus__we ? left + 1 : 0));
    assert (answers == (bus__cyc && bus__we) + axi__bvalid);
    if (axi__rvalid) assert (axi__rlast == (beats == 1));
  end
"""


@pytest.mark.parametrize(("component", "checks", "cycles"), [
    (AxiLiteBridge, {"": AXI_LITE}, 22), (WishboneBridge, {"": WISHBONE}, 16), (ApbBridge, {"": APB}, 16),
    (lambda: BurstSplitter(CONFIG, 16), {"": SPLITTER}, 3),
    (lambda: ReadChannel(CONFIG), {"": READ, "address": WAITING}, 3),
    (lambda: WriteChannel(CONFIG), {"": WRITE, "address": WAITING}, 3),
    (lambda: MemoryPort(CONFIG), {"": PORT}, 3), (lambda: WishboneMaster(CONFIG), {"": MASTER}, 3),
], ids=["axi_lite", "wishbone", "apb", "splitter", "read_channel", "write_channel", "memory_port", "wishbone_master"])
def test_rules_hold_in_runs_of_any_length(component: Callable[[], wiring.Component], checks: dict[str, str],
                                          cycles: int, tmp_path: Path) -> None:
    assert proved(component(), tmp_path, checks, cycles=cycles)


READ_STUCK = """
  reg [2:0] asked = 0;
  always @(posedge clk) asked <= rst || !(fetch__burst__valid || load__burst__valid) ? 0 : asked + (asked != 7);
  always @* assume (!bus__arready && !halt);
  always @* if (asked >= 2 && !rst) assert (bus__arvalid);
"""
WRITE_STUCK = """
  reg [2:0] asked = 0;
  always @(posedge clk) asked <= rst || !(bursts__valid && beats__valid) ? 0 : asked + (asked != 7);
  always @* assume (!bus__awready && !bus__wready && !bus__bvalid && !halt);
  always @* if (asked >= 3 && !rst) assert (bus__awvalid && bus__wvalid);
"""


@pytest.mark.parametrize(("component", "checks"), [(ReadChannel, READ_STUCK), (WriteChannel, WRITE_STUCK)])
def test_valid_does_not_wait_for_ready(component: Callable[[Config], wiring.Component], checks: str,
                                       tmp_path: Path) -> None:
    """With a memory that never takes anything: up to ten cycles after the start."""
    assert proved(component(CONFIG), tmp_path, {"": checks}, cycles=10, induction=False)


@pytest.mark.parametrize(("component", "checks", "right", "wrong"), [
    (AxiLiteBridge, AXI_LITE, "write_waits < 18", "write_waits < 6"),
    (lambda: BurstSplitter(CONFIG, 16), SPLITTER, "assume (i__payload_size_bytes != 0)", ""),
    (lambda: WishboneMaster(CONFIG), MASTER, "+ left <= 31", "+ left <= 30"),
], ids=["axi_lite", "splitter", "wishbone_master"])
def test_what_is_not_so_is_found(component: Callable[[], wiring.Component], checks: str, right: str, wrong: str,
                                 tmp_path: Path) -> None:
    assert right in checks
    assert not proved(component(), tmp_path, {"": checks.replace(right, wrong)}, cycles=10, induction=False)
