"""`--lanes model`: a C++ model of the vector unit's lanes instead of their RTL, for sweeps; everything else stays RTL.

It works as array_model.py does for the multipliers, with lanes.cpp. This file generates the positions and encodings of
the controls for lanes.cpp from the hardware's own description. `tests/sim/rtl/test_lanes_model.py` compares the model
with the RTL cycle by cycle.
"""

from collections.abc import Iterator
from pathlib import Path

from amaranth.hdl import Shape
from amaranth.lib import data

from tq_hw.hdl.lane.lane import LaneControl
from tq_hw.hdl.outside import LANES_NAME
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Rounding, ShiftSource, Source
from tq_hw.model.errors import OptionError

__all__ = ["HEADER", "SOURCE", "check_lanes", "header", "macros", "stub", "widths"]

SOURCE = Path(__file__).with_name("lanes.cpp")
#: File that lanes.cpp includes.
HEADER = "lanes_control.h"
_BITS = """
// `width` bits from bit `start` on, at most 32.
TQ_PART uint32_t bits(const uint32_t* words, int start, int width) {
    const uint32_t low = words[start / 32] >> start % 32;
    const uint32_t high = start % 32 + width > 32 ? words[start / 32 + 1] << (32 - start % 32) : 0;
    return (low | high) & (width < 32 ? (1u << width) - 1 : ~0u);
}
"""


def check_lanes(lanes: str, config: Config) -> None:
    """Raise OptionError for an unknown name, and for a machine without lanes to model."""
    if lanes not in ("rtl", "model"):
        raise OptionError(f"the lanes can be rtl or model, not {lanes!r}")
    if lanes == "model" and config.design == "serial":
        raise OptionError(f"configuration {config.name!r}: only the parallel design has a model of the lanes; "
                          "leave --lanes out")


def macros(config: Config) -> str:
    """Return the options that adapt the model to a configuration."""
    return f"-DTQ_LANES={config.requantize_lanes}"


def _controls() -> Iterator[tuple[str, int, Shape]]:
    """Yield name, lowest bit and shape of each control; flags of the ALU one by one."""
    for name, field in LaneControl:
        if isinstance(field.shape, data.StructLayout):
            for flag, inner in field.shape:
                yield f"{name}_{flag}", field.offset + inner.offset, Shape.cast(inner.shape)
        else:
            yield str(name), field.offset, Shape.cast(field.shape)


def header() -> str:
    """Return the C++ header of the controls: their positions, and the encodings of their choices."""
    lines = ["#pragma once", "#include \"wide.h\"", _BITS]
    for prefix, numbers in (("SOURCE", Source), ("SHIFT", ShiftSource), ("ROUNDING", Rounding)):
        lines += [f"constexpr uint32_t TQ_{prefix}_{choice.name.removeprefix(f'{prefix}_')} = {choice.value};"
                  for choice in numbers]
    members, values = [], []
    for name, start, shape in _controls():
        value = f"bits(words, {start}, {shape.width})"
        if shape.signed:
            members.append(f"    int32_t {name};")
            spare = 32 - shape.width
            values.append(f"            int32_t({value} << {spare}) >> {spare},")
        else:
            members.append(f"    uint32_t {name};")
            values.append(f"            {value},")
    return "\n".join([*lines, "struct Control {", *members, "};",
                      "TQ_PART Control unpacked(const uint32_t* words) {", "    return {", *values, "    };", "}", ""])


def widths(config: Config) -> dict[str, int]:
    """Return the widths of the inputs except the clock, in the order in which they are passed."""
    words = dict.fromkeys(("acc", "register_a", "register_b", "bias", "stream_a", "stream_b"),
                          32 * config.requantize_lanes)
    return {"control": LaneControl.size, **words, "shift": 6 * config.requantize_lanes,
            "multiplier": 32 * config.requantize_lanes}


def stub(config: Config) -> str:
    """Return the Verilog of the module that replaces the lanes."""
    ports = ", ".join(f"input [{width - 1}:0] {name}" for name, width in widths(config).items())
    values = ", ".join(f"input bit [{width - 1}:0] {name}" for name, width in widths(config).items())
    results = f"[{32 * config.requantize_lanes - 1}:0]"
    return f"""
module {LANES_NAME}(input clk, {ports}, output reg {results} result);
  import "DPI-C" function chandle tq_lanes_new();
  import "DPI-C" function void tq_lanes_delete(input chandle lanes);
  import "DPI-C" function void tq_lanes_step(input chandle lanes, {values}, output bit {results} result);
  chandle lanes;
  bit {results} results;
  initial lanes = tq_lanes_new();
  final tq_lanes_delete(lanes);
  always @(posedge clk) begin
    tq_lanes_step(lanes, {', '.join(widths(config))}, results);
    result <= results;
  end
endmodule
"""
