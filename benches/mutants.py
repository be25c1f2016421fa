"""Named ways to break the RTL, each with the tests that must notice."""

from mutant import Mutant
from mutants_control import CONTROL_MUTANTS
from mutants_move import MOVE_MUTANTS

__all__ = ["MUTANTS"]

_ARRAY, _UNIT = "tests/hdl/array/test_grid.py::test_sums", "tests/hdl/array/test_unit.py"
_REQUANTIZE, _ACTIVATION = "tests/hdl/lane/test_requantize.py", "tests/hdl/lane/test_activation.py"
_STREAMS, _PROGRAMS = "tests/hdl/vector/test_streams.py", "tests/hdl/vector/test_programs.py"

_COMPUTE_MUTANTS = (
    Mutant("requantizer's nudge one bit too low", "lane/high_multiply.py",
           "Cat(joined[:bits - 2], joined[bits - 2:] + self.nudge)",
           "Cat(joined[:bits - 3], joined[bits - 3:] + self.nudge)",
           (f"{_REQUANTIZE}::test_high_product_of_all_corners",)),
    Mutant("product of INT32_MIN by itself not saturated", "lane/high_multiply.py",
           "sign ^ product[2 * bits - 2]", "sign & product[2 * bits - 2]",
           (f"{_REQUANTIZE}::test_saturates_the_one_product_that_overflows",)),
    Mutant("low product that is too small becomes the largest", "lane/high_multiply.py",
           "m.If(exceeds & sign)", "m.If(exceeds & sign & ~self.low)",
           (f"{_REQUANTIZE}::test_low_product_of_all_corners",)),
    Mutant("2^31 a negative factor", "lane/lane.py",
           "factor[31] & ~control.power_late", "factor[31]",
           (f"{_PROGRAMS}::test_left_shifts_of_extremes_by_every_amount",)),
    Mutant("negative ties rounded toward zero", "lane/shift.py",
           "(some | ~ties_down)", "some",
           (f"{_REQUANTIZE}::test_rounds_three_halves",)),
    Mutant("clamp compares with the wrong limit", "lane/requantize.py",
           "short > self.high", "short > self.low",
           (f"{_REQUANTIZE}::test_clamps_after_a_wrapping_sum",)),
    Mutant("carry of the partial sums dropped", "array/grid.py",
           "above[c] + product", "above[c] ^ product", (_ARRAY,)),
    Mutant("swap wave a cycle late at each row", "array/grid.py",
           'delayed(m, swap, 1, f"swap{r}", control=True)', 'delayed(m, swap, 2, f"swap{r}", control=True)', (_ARRAY,)),
    Mutant("first step adds to what the accumulator held", "array/accumulate.py",
           "delayed(m, tag.overwrite | (buffer[0] != number)", "delayed(m, buffer[0] != number",
           (f"{_UNIT}::test_gemm[4-4]",)),
    Mutant("image one column too wide for the taps", "array/slots.py",
           "o.cols[k].as_unsigned() < o.in_cols", "o.cols[k].as_unsigned() <= o.in_cols",
           (f"{_UNIT}::test_gemm[4-4]", f"{_UNIT}::test_depthwise[4]")),
    Mutant("column not set back at the end of a row", "array/slots.py",
           "advanced.col.eq(Mux(s.row_end, constants.col_first, position.col + constants.col_advance))",
           "advanced.col.eq(position.col + constants.col_advance)",
           (f"{_UNIT}::test_gemm[4-4]", f"{_UNIT}::test_depthwise[4]")),
    Mutant("step does not wait for its weights", "array/slots.py",
           "self.i.ready.eq(self.weights_ready & room", "self.i.ready.eq(room",
           (f"{_UNIT}::test_gemm[4-4]", f"{_UNIT}::test_short_steps_take_as_long_as_their_weights")),
    Mutant("sums of the second open buffer added to the first", "array/slots.py",
           "self.acc_take | goes_round", "self.acc_take", (f"{_UNIT}::test_chain_into_all_buffers[4]",)),
    Mutant("all buffers taken again after an operation that leaves them open", "array/slots.py",
           "self.acc_take.eq(begin & new.tile_first & ~opened)", "self.acc_take.eq(begin & new.tile_first)",
           (f"{_UNIT}::test_chain_into_all_buffers[4]",)),
    Mutant("rows outside the image not masked in depthwise", "array/slots.py",
           "row_valid.eq(o.used[g] & (o.rows[g].as_unsigned() < o.in_rows))", "row_valid.eq(o.used[g])",
           (f"{_UNIT}::test_depthwise[4]", f"{_UNIT}::test_depthwise[9]")),
    Mutant("output's byte mask of earlier beats kept", "vector/output.py",
           "self.port.mask[byte].eq(0)", "self.port.mask[byte].eq(1)",
           (f"{_STREAMS}::test_sub_blocks_fill_their_part_of_a_word",)),
    Mutant("unsigned bytes read as signed", "vector/operand.py",
           "& signed_bytes if tops else Const(0)", "if tops else Const(0)",
           (f"{_STREAMS}::test_elements_of_every_type",)),
    Mutant("beat does not wait for the register that it reads", "vector/unit.py",
           "register_latency_cycles=REGISTER_LATENCY_CYCLES",
           "register_latency_cycles=REGISTER_LATENCY_CYCLES - 2",
           (f"{_PROGRAMS}::test_registers_carry_results_between_micro_operations",)),
    Mutant("reduction takes the larger for MIN", "vector/reduce.py",
           "(kind == Reduce.MIN)", "(kind == Reduce.MAX)",
           (f"{_PROGRAMS}::test_reduces_to_word_0_and_leaves_lanes_out",)),
    Mutant("activation takes the function of the beat before", "vector/activation.py",
           "tanh.eq(early)", "tanh.eq(delayed(m, early, 1, 'late'))",
           (f"{_ACTIVATION}::test_operations_keep_their_order_and_their_functions",)),
    Mutant("output overtakes an activation", "vector/issue.py",
           "new.behind_activation & activating.runs", "new.behind_activation & 0",
           (f"{_ACTIVATION}::test_operations_keep_their_order_and_their_functions",)),
    Mutant("reciprocal's correction halved", "lane/activation.py",
           "late + _saturated(Cat(Const(0, 2), correction)", "late + _saturated(Cat(Const(0, 1), correction)",
           (f"{_ACTIVATION}::test_corners_and_random_arguments",)),
    Mutant("next step written over the one that is not taken", "array/sequencer.py",
           "m.If((feed != 0) | ~self.steps.valid)", "m.If(1)", (f"{_UNIT}::test_short_steps_add_to_the_same_words",)),
)

MUTANTS = (*_COMPUTE_MUTANTS, *CONTROL_MUTANTS, *MOVE_MUTANTS)
