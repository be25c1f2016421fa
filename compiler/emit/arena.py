"""The arena: activations in system memory. The bytes of a tensor are reused after its last read.

The next write waits for that read, as for any read of the same bytes (stream.py).
"""

from dataclasses import dataclass, field

from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.places import Plan, alternates
from tq_hw.isa.program import ALIGN_BYTES
from tq_hw.isa.sizes import ceil_div

__all__ = ["Arena", "lives"]

#: First and last layer at which bytes are in use.
Life = tuple[int, int]


def lives(graph: Graph, plan: Plan) -> dict[int, Life]:
    """Return the life of the bytes of each tensor, by the id of the value that owns them.

    Layers whose operations are emitted alternately share one life. Inputs, which the host may read again, and outputs
    are never freed.
    """
    found: dict[int, Life] = {}
    layers = graph.layers
    for number, layer in enumerate(layers):
        group = plan.group_of(number)
        first, last = (number, number) if group is None else (group.first, group.last)
        if first and alternates(layers[first - 1], layers[first]):
            first -= 1
        if last + 1 < len(layers) and alternates(layers[last], layers[last + 1]):
            last += 1
        for value in (*layer.inputs, layer.output):
            key = id(value.root)
            low, high = found.get(key, (first, last))
            found[key] = min(low, first), max(high, last)
    return found | {id(value.root): (0, len(layers)) for value in (*graph.inputs, *graph.outputs)}


@dataclass
class Arena:
    """Allocates tensors, each at the lowest offset where it fits.

    Members
    -------
    size_bytes : size of the arena
    """

    size_bytes: int = 0
    _taken: list[tuple[int, int, Life]] = field(default_factory=list)

    def take(self, value: Value, life: Life) -> int:
        """Return the first byte of a range that no other tensor uses during a life."""
        size = ceil_div(value.size_bytes, ALIGN_BYTES) * ALIGN_BYTES
        offset = 0
        for low, high, (first, last) in sorted(self._taken):
            if first <= life[1] and life[0] <= last and low < offset + size and offset < high:
                offset = high
        self._taken.append((offset, offset + size, life))
        self.size_bytes = max(self.size_bytes, offset + size)
        return offset
