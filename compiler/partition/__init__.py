"""Models of which the accelerator takes a part: the rest stays with the host, operator by operator as it is.

    model --pieces--> what runs as one --clusters--> connected convex sets --partition--> mixed model

A mixed model is a model: each accelerated part is one custom operator `tq-hw` that carries its compiled program. It is
written, read, and run (`tq_hw.sim.mixed`) in that one form.
"""

from tq_hw.compiler.partition.partition import Partition, partition
from tq_hw.compiler.partition.pieces import Piece

__all__ = ["Partition", "Piece", "partition"]
