"""Sums of packed products are taken apart right, whatever they are of: any that up to eight products have."""

from pathlib import Path

import pytest
from prover import proved

from tq_hw.hdl.array.packed_cell import PackedSums

#: The least and the most that eight products of int8 by int8 add up to.
LEAST, MOST = 8 * -128 * 127, 8 * 128 * 128
STATEMENTS = """
  (* anyseq *) reg signed [18:0] s0, s1;
  reg signed [18:0] s0_total = 0, s1_total = 0, s0_apart = 0, s1_apart = 0;
  reg [1:0] known = 0;
  wire signed [34:0] sum = s1_total * 35'sd65536 + s0_total;
  always @(posedge clk) begin
    {{s0_total, s1_total, s0_apart, s1_apart}} <= {{s0, s1, s0_total, s1_total}};
    known <= {{known[0], 1'b1}};
  end
  always @* begin
    assume (s0 >= {least} && s0 <= {most} && s1 >= {least} && s1 <= {most});
    assume (total_high == s1[1:0]);
    assume (!known[0] || total == sum);
    if (known[1]) assert (low == s0_apart && high == s1_apart);
  end
"""


@pytest.mark.parametrize("more", [0, 1023, 1024])
def test_sums_of_eight_products_are_told_apart(more: int, tmp_path: Path) -> None:
    """The statements find the first sum that is not: LEAST is that far from -2^17."""
    text = STATEMENTS.format(least=LEAST, most=MOST + more)
    assert proved(PackedSums(), tmp_path, {"": text}, cycles=4, induction=False) == (more < 1024)
