"""Partition of models: the accelerator runs some parts, and the host runs the other operators unchanged.

    model --pieces--> pieces --clusters--> connected convex sets --partition--> mixed model

A mixed model is a model in which each accelerated part is one custom operator `tq-hw` that contains its compiled
program. It is written, read and run (`tq_hw.sim.mixed`) in this one form.
"""

from tq_hw.compiler.partition.partition import Partition, partition
from tq_hw.compiler.partition.pieces import Piece

__all__ = ["Partition", "Piece", "partition"]
