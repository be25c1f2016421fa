"""`--array model`: a C++ model of the multipliers instead of their RTL, for sweeps; everything else stays RTL.

The generated design has an instance in place of the multiplier cells (hdl/outside.py). The module that this file writes
for it calls mac_array.cpp at each rising edge. `tests/sim/rtl/test_array_model.py` compares the model with the RTL
cycle by cycle.
"""

from pathlib import Path

from tq_hw.hdl.outside import ARRAY_NAME
from tq_hw.isa.config import Config
from tq_hw.model.errors import OptionError

__all__ = ["SOURCE", "check_array", "macros", "stub"]

SOURCE = Path(__file__).with_name("mac_array.cpp")


def check_array(array: str, config: Config) -> None:
    """Raise OptionError for an unknown name, and for a machine without an array to model."""
    if array not in ("rtl", "model"):
        raise OptionError(f"the array can be rtl or model, not {array!r}")
    if array == "model" and config.design == "serial":
        raise OptionError(f"configuration {config.name!r}: only the parallel design has a model of the array; "
                          "leave --array out")
    if array == "model" and config.dsp_packing:
        raise OptionError(f"configuration {config.name!r}: there is no model of an array with dsp_packing; leave "
                          "--array out")


def macros(config: Config) -> str:
    """Return the options that adapt the model to a configuration."""
    return (f"-DTQ_ROWS={config.rows} -DTQ_COLS={config.cols} -DTQ_GROUPS={config.groups} "
            f"-DTQ_SUM_BITS={config.partial_sum_bits}")


def stub(config: Config) -> str:
    """Return the Verilog of the module that replaces the cells."""
    widths = {"sel": config.rows, "weight_row": config.rows, "a": 8 * config.rows, "x": 8 * config.groups * config.cols,
              "weight": 8 * config.cols}
    ports = ", ".join(f"input [{width - 1}:0] {name}" for name, width in widths.items())
    values = ", ".join(f"input bit [{width - 1}:0] {name}" for name, width in widths.items())
    sums = f"[{config.partial_sum_bits * config.cols - 1}:0]"
    return f"""
module {ARRAY_NAME}(input clk, input rst, input swap, {ports}, output reg {sums} psum);
  import "DPI-C" function chandle tq_array_new();
  import "DPI-C" function void tq_array_delete(input chandle array);
  import "DPI-C" function void tq_array_step(input chandle array, input bit rst, input bit swap, {values},
                                             output bit {sums} psum);
  chandle array;
  bit {sums} sums;
  initial array = tq_array_new();
  final tq_array_delete(array);
  always @(posedge clk) begin
    tq_array_step(array, rst, swap, {', '.join(widths)}, sums);
    psum <= sums;
  end
endmodule
"""
