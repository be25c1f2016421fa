"""Decoded contents of the image's coded runs, for a whole stream at once."""

from collections.abc import Mapping

from tq_hw.compiler.stream.stream import Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.isa.weight_code import decode_rows
from tq_hw.model.errors import DataflowError

__all__ = ["DecodedRows"]


class DecodedRows:
    """The decoded bytes of all coded runs that a stream loads.

    Members
    -------
    data : bytes of all runs, in order
    """

    def __init__(self, stream: Stream, image: bytes, config: Config) -> None:
        self._places: dict[tuple[int, int, int], int] = {}
        found, size = [], 0
        for operation in stream.operations:
            if operation.unit is Unit.LOAD and operation.fields.get("coded"):
                key = _key(operation.fields)
                if key not in self._places and key[0] >= 0 and key[0] + key[1] <= len(image) and 0 < key[2] <= 1 << 16:
                    self._places[key] = size
                    found.append(decode_rows(image[key[0]:key[0] + key[1]], key[2], config.cols).tobytes())
                    size += len(found[-1])
        self.data = b"".join(found)

    def first(self, fields: Mapping[str, int]) -> int:
        """Return the offset in `data` of a load's bytes."""
        place = self._places.get(_key(fields))
        if place is None or fields["region"] != REGION_IMAGE:
            raise DataflowError("a load of coded rows must read the image, one row per word")
        return place


def _key(fields: Mapping[str, int]) -> tuple[int, int, int]:
    return fields["memory_offset_bytes"], fields["run_bytes"], fields["count0"] * fields["count1"]
