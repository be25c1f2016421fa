"""What AXI4 and hdl/bus/axi.py promise about the bus in every cycle: a monitor for any bench."""

from collections import deque
from collections.abc import Mapping

__all__ = ["AxiRules"]

_ADDRESS = ("id", "addr", "len", "size", "burst", "cache", "prot")
#: Signals that must stay stable while valid is high and ready low, by channel.
_OFFERED = {"ar": _ADDRESS, "aw": _ADDRESS, "w": ("data", "strb", "last")}
_CHANNELS = {"read": ("ar", "r"), "write": ("aw", "w", "b")}
_SIGNALS = {**{channel: (*names, "valid", "ready") for channel, names in _OFFERED.items()},
            "r": ("id", "last", "valid", "ready"), "b": ("id", "valid", "ready")}
_BLOCK_BYTES = 256
_MOST_READS, _MOST_WRITES = 255, 16


class AxiRules:
    """Check each cycle's signals, sampled at the clock edge; AssertionError says which rule is broken.

    The memory's answers are checked too, so that a bench cannot forgive what the machine does wrong.

    Parameters
    ----------
    bus_bytes : width of the data
    sides : "read", "write"; both if none is given
    runs : the strobes of a burst mark bytes without a gap, as those of the store unit do

    Members
    -------
    signals : names that `cycle` wants, without a prefix
    reads : beats less one that each open read waits for, by id
    addressed, taken, whole, answered : writes that were offered, whose address was taken, whose data is whole, that
        are answered
    """

    def __init__(self, bus_bytes: int, *sides: str, runs: bool = False) -> None:
        self.bus_bytes, self.runs = bus_bytes, runs
        self.channels = [channel for side in sides or _CHANNELS for channel in _CHANNELS[side]]
        self.signals = tuple(channel + name for channel in self.channels for name in _SIGNALS[channel])
        self.held: dict[str, tuple[int, ...]] = {}
        self.reads: dict[int, deque[int]] = {0: deque(), 1: deque()}
        self.lengths: tuple[deque[int], deque[int]] = (deque(), deque())
        self.strobes: list[int] = []
        self.addressed = self.taken = self.whole = self.answered = 0

    @property
    def idle(self) -> bool:
        """Whether no transfer is offered or open."""
        return not self.held and not any(self.reads.values()) and self.addressed == self.whole == self.answered

    def cycle(self, values: Mapping[str, int]) -> None:
        """Check one cycle."""
        for channel in self.channels:
            valid, ready = values[channel + "valid"], values[channel + "ready"]
            if channel in _OFFERED:
                payload = tuple(values[channel + name] for name in _OFFERED[channel])
                held = self.held.pop(channel, None)
                assert held is None or valid and payload == held, f"{channel} moved before it was taken"
                if valid and not ready:
                    self.held[channel] = payload
                if valid and channel != "w":
                    self._address(channel, *payload, new=held is None, taken=bool(ready))
            else:
                assert ready, f"{channel}ready is not 1"
        if "w" in self.channels:
            if values["wvalid"]:
                assert self.whole <= self.addressed, "wdata before the address of the burst before it is offered"
                if values["wready"]:
                    self._beat(values["wstrb"], values["wlast"])
            self.answered += values["bvalid"]
            assert self.answered <= min(self.whole, self.taken) and not values["bid"], "an answer to no write"
        if "r" in self.channels and values["rvalid"]:
            self._answer(values["rid"], values["rlast"])

    def _address(self, channel: str, number: int, addr: int, length: int, *rest: int, new: bool, taken: bool) -> None:
        assert rest == ((self.bus_bytes - 1).bit_length(), 1, 3, 0), f"{channel}: size, burst, cache, prot are {rest}"
        last = addr + (length + 1) * self.bus_bytes - 1
        assert addr % self.bus_bytes == 0, f"{channel}addr is not a multiple of the bus"
        assert addr // _BLOCK_BYTES == last // _BLOCK_BYTES, f"{channel} crosses 256 bytes"
        if channel == "aw":
            assert number == 0, "writes have id 0"
            if new:
                self.addressed += 1
                self._length(0, length)
            self.taken += taken
            assert self.taken - self.answered <= _MOST_WRITES, "too many writes are open"
        elif taken:
            self.reads[number].append(length)
            assert sum(map(len, self.reads.values())) <= _MOST_READS, "too many reads are open"

    def _beat(self, strobe: int, last: int) -> None:
        assert strobe, "a beat without a byte"
        self.strobes.append(strobe)
        if last:
            marks = sum(strobe << n * self.bus_bytes for n, strobe in enumerate(self.strobes))
            assert not self.runs or not marks & marks + (marks & -marks), "a gap in the strobes of a burst"
            self._length(1, len(self.strobes) - 1)
            self.strobes = []
            self.whole += 1

    def _length(self, side: int, length: int) -> None:
        """Compare the lengths of addresses (side 0) with those of the data (1); either may come first."""
        if self.lengths[1 - side]:
            assert self.lengths[1 - side].popleft() == length, "wlast is not at the end of the burst"
        else:
            self.lengths[side].append(length)

    def _answer(self, number: int, last: int) -> None:
        assert self.reads[number], "an answer to no read"
        assert last == (self.reads[number][0] == 0), "rlast is not at the end of the burst"
        self.reads[number][0] -= 1
        if last:
            self.reads[number].popleft()
