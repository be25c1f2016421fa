"""Lower bounds of run time, with which a search may skip machines and still prove its result.

The array does at most one multiply-accumulate per row, column and cycle. The bus loads every weight at least once,
because the scratchpad is empty when an inference begins.
"""

from collections.abc import Mapping, Sequence
from math import exp, log

from tq_hw.cli.explore.front import Aim, Point
from tq_hw.cli.explore.target import Target
from tq_hw.isa.config import Config
from tq_hw.model.tflite.reader import parse_model

__all__ = ["TAKEN", "Bounds", "weight_bytes"]

#: Operators whose second input is their weights.
_WITH_WEIGHTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: A machine must not exceed the preset in these to beat it.
TAKEN = ("luts", "multipliers", "block_rams")


def weight_bytes(blob: bytes) -> int:
    """Return the bytes of the int8 weights of a model, each tensor counted once."""
    graph = parse_model(blob, "model").subgraphs[0]
    used = {op.inputs[1] for op in graph.operators if op.op in _WITH_WEIGHTS and len(op.inputs) > 1}
    found = [graph.tensors[index] for index in used]
    return sum(tensor.data.nbytes for tensor in found if tensor.data is not None and tensor.dtype == "int8")


class Bounds:
    """Lower bounds of the mean time of machines, derived from machines that were estimated."""

    def __init__(self, aims: Sequence[Aim], target: Target, points: Sequence[Point]) -> None:
        self._aims, self._target = aims, target
        # Rewrites may remove multiply-accumulates that need not be done, so the lowest count of any machine is taken.
        self._macs: dict[str, int] = {aim.name: min(point.models[aim.name]["macs"] for point in points) for aim in aims}
        self._bytes = {aim.name: weight_bytes(aim.blob) for aim in aims}

    def cycles(self, config: Config, name: str) -> float:
        """Return a lower bound of the cycles of a model."""
        rate = min(float(self._target.rate.bytes_per_cycle), config.bus_bytes)
        # Only a plan tells how far weights are compressed.
        loads = 0.0 if config.compressed_weights else self._bytes[name] / rate
        return max(1.0, self._macs[name] / config.macs, loads)

    def milliseconds(self, config: Config) -> float:
        """Return a lower bound of the geometric mean of the models' times."""
        total = sum(aim.weight for aim in self._aims)
        mean = exp(sum(aim.weight * log(self.cycles(config, aim.name)) for aim in self._aims) / total)
        return 1000 * mean / self._target.clock_hz

    def rivals(self, fits: Mapping[Config, Mapping[str, float]], preset: Point,
               kinds: Sequence[str] = TAKEN) -> list[Config]:
        """Return the machines that may equal or beat the preset in every objective, lowest time bound first.

        `kinds` are the resources that are compared.
        """
        return self._hopeful([config for config, taken in fits.items()
                              if all(taken[kind] <= preset.taken[kind] for kind in kinds)], preset.milliseconds)

    def faster(self, fits: Mapping[Config, Mapping[str, float]], milliseconds: float) -> list[Config]:
        """Return the machines that may be faster, lowest time bound first."""
        return self._hopeful(list(fits), milliseconds)

    def _hopeful(self, configs: Sequence[Config], milliseconds: float) -> list[Config]:
        least = {config: self.milliseconds(config) for config in configs}
        return sorted((config for config in configs if least[config] <= milliseconds),
                      key=lambda config: (least[config], config.name))
