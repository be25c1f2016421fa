"""One frozen configuration: everything that the array, the memories and the compiler are sized by.

A configuration is a preset (`n16`, `n8`, `n9x8`, `n16x8`, `tiny`, `serial`) or a TOML file with the same keys.
`fingerprint` stands in every compiled file and in a hardware register; a difference is refused.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from tq_hw.isa.config_rules import broken_rule
from tq_hw.isa.sizes import ceil_div, ceil_log2
from tq_hw.isa.table import ConfigError, read_table, size_in_bytes

__all__ = ["BANKS", "DESIGNS", "ISA_VERSION", "OPTIONS", "PRESETS", "REQUIRED", "Config", "ConfigError", "load_config"]

#: Raised whenever a command, a register or an arithmetic detail changes its meaning.
ISA_VERSION = 3
#: Scratchpad banks, interleaved by the two low bits of a word address: three rows of an image with
#: an odd row pitch then always lie in three different banks.
BANKS = 4
#: Kinds of hardware that run commands.
DESIGNS = ("parallel", "serial")
#: Members that are no sizes and make no difference to a program.
_NAMES = ("name", "design")
#: Members that are sizes of the hardware and make no difference to a program; a file says nothing of one that is 0.
_HARDWARE = ("dsp_packing", "dsp_preadders", "block_uops", "few_counters", "few_luts")
#: Members that say nothing where they are 0, so that configurations without them keep their fingerprints.
_OPTIONS = ("activation_lanes", "acc_open", "compressed_weights")
#: What a machine can do without, and the serial design does.
OPTIONS = _OPTIONS + _HARDWARE
#: Options that files of earlier versions do not name.
_LATER = ("compressed_weights",)

#: Keys without a default.
REQUIRED = ("rows", "cols", "requantize_lanes", "scratchpad_bytes")


@dataclass(frozen=True)
class Config:
    """Sizes of one accelerator.

    Members
    -------
    rows, cols : multiplier rows and columns of the array; 3..32 and 2..32
    requantize_lanes : int32 lanes of the vector unit, each with a requantizer; divides `cols`
    scratchpad_bytes : power of two of words of `word_bytes`, 512 to 65536 words
    acc_words : int32 words (of `cols` lanes) of one accumulator buffer, power of two, 16..1024
    acc_buffers : accumulator buffers, 2 or 4
    acc_open : buffers that an operation of the array may leave open together: acc_buffers, or 0: one
    bus_bytes : width of the memory bus: 4, 8 or 16
    fold_steps : entries of the patch-folding table, 1..16
    uops : micro-operations that the vector unit holds, power of two, 32 or 64
    vector_words : int32 words (of `requantize_lanes` lanes) of the vector register file, in eight registers
    activation_lanes : lanes that compute logistic and tanh of int16, a divisor of `requantize_lanes`; 0: none
    dsp_packing : products that share a multiplier of the array, 2, or 0: one each; makes no difference to a program
    dsp_preadders : 1: multipliers add two bytes of which one is 0; 0: LUTs choose; no difference to a program
    block_uops : 1: micro-operations are kept in block RAM; 0: in small RAMs of LUTs; no difference to a program
    few_luts : 1: LUTs of six inputs are filled, and saved where that takes cycles; 0: they are not; no difference to a
        program
    few_counters : 1: cycles alone are counted; 0: also what each unit did and waited for; no difference to a program
    compressed_weights : 1: the load unit decodes compressed weights (isa/weight_code.py); 0: it does not
    design : hardware that runs the commands: "parallel" (a unit each) or "serial" (a small engine, see hdl/serial);
        both run the same programs, so the fingerprint knows nothing of it
    """

    name: str
    rows: int
    cols: int
    requantize_lanes: int
    scratchpad_bytes: int
    acc_words: int = 128
    acc_buffers: int = 4
    bus_bytes: int = 8
    fold_steps: int = 16
    uops: int = 64
    vector_words: int = 512
    activation_lanes: int = 0
    acc_open: int = 0
    dsp_packing: int = 0
    compressed_weights: int = 0
    few_counters: int = 0
    dsp_preadders: int = 0
    block_uops: int = 0
    few_luts: int = 0
    design: str = "parallel"

    def __post_init__(self) -> None:
        """Refuse what the hardware cannot be built for."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _NAMES and (not isinstance(value, int) or isinstance(value, bool)):
                near = re.fullmatch(r"(\d+) ?([kKM])i?[bB]?", value) if isinstance(value, str) else None
                meant = f'; did you mean "{near[1]} {near[2].upper()}iB"?' if near else ""
                kind = 'an integer, or a size such as "64 KiB"' if field.name.endswith("_bytes") else "an integer"
                raise ConfigError(f"configuration {self.name!r}: {field.name} must be {kind}, not {value!r}{meant}")
        if self.design not in DESIGNS:
            raise ConfigError(f"configuration {self.name!r}: design must be {' or '.join(DESIGNS)}, "
                              f"not {self.design!r}")
        broken = broken_rule(self)
        if broken is not None:
            rule, legal = broken
            # A word's size follows from rows and cols: said as a number.
            words = rule.rule.replace("`word_bytes`", f"{self.word_bytes} bytes") if "word_bytes" in rule.rule \
                else rule.rule
            raise ConfigError(f"configuration {self.name!r}: {rule.key} {words}, not {getattr(self, rule.key)}; the "
                              f"nearest legal value is {legal}")
        if self.design == "serial" and not (
                (self.rows, self.cols, self.requantize_lanes, self.bus_bytes) == (4, 4, 1, 4)
                and self.scratchpad_bytes <= 32 << 10 and self.acc_words * self.acc_buffers <= 1024
                and self.vector_words <= 2048 and not any(getattr(self, option) for option in OPTIONS)):
            raise ConfigError(
                f"configuration {self.name!r}: the serial design has 4 rows, 4 cols, 1 of requantize_lanes, 4 of "
                "bus_bytes, at most 32768 of scratchpad_bytes, 2048 of vector_words and 1024 acc_words in all buffers, "
                f"no {', no '.join(OPTIONS[:-1])} and no {OPTIONS[-1]}")

    @cached_property
    def gemm_rows(self) -> int:
        """Array rows that a GEMM step uses: all that divide evenly into words."""
        if self.rows >= self.cols:
            return self.rows // self.cols * self.cols
        slices = ceil_div(self.cols, self.rows)
        return ceil_div(self.cols, slices)

    @cached_property
    def block(self) -> int:
        """Channels stored in one scratchpad word."""
        return max(self.gemm_rows, self.cols)

    @cached_property
    def slices(self) -> int:
        """GEMM steps needed to feed one word of `block` channels to the array."""
        return ceil_div(self.block, self.gemm_rows)

    @cached_property
    def sub_blocks(self) -> int:
        """Output blocks of `cols` channels that share one scratchpad word (1 unless rows > cols)."""
        return self.block // self.cols

    @cached_property
    def word_bytes(self) -> int:
        """Bytes of a scratchpad word: a power of two, at least `block`."""
        return max(4, 1 << ceil_log2(self.block))

    @cached_property
    def scratchpad_words(self) -> int:
        """Words of the scratchpad."""
        return self.scratchpad_bytes // self.word_bytes

    @cached_property
    def groups(self) -> int:
        """Kernel rows that one depthwise pass covers (three array rows each, one feed each)."""
        return min(3, self.rows // 3)

    @property
    def feeds(self) -> int:
        """Row feeds of the array: words read from the scratchpad per cycle."""
        return 3

    @cached_property
    def beats_per_acc_word(self) -> int:
        """Vector-unit beats for one accumulator word."""
        return self.cols // self.requantize_lanes

    @cached_property
    def beats_per_word(self) -> int:
        """Vector-unit beats for one scratchpad word."""
        return self.block // self.requantize_lanes

    @cached_property
    def vector_register_words(self) -> int:
        """Beats that one of the eight vector registers holds (longer vectors run into the next)."""
        return self.vector_words // 8

    @cached_property
    def activation_steps(self) -> int:
        """Cycles in which the activation lanes take one beat."""
        return self.requantize_lanes // self.activation_lanes if self.activation_lanes else 0

    @cached_property
    def param_words(self) -> int:
        """Scratchpad words of one parameter block: biases, multipliers, shifts of `cols` channels."""
        wide = ceil_div(4 * self.cols, self.word_bytes)
        return 2 * wide + ceil_div(self.cols, self.word_bytes)

    @property
    def partial_sum_bits(self) -> int:
        """Width of a partial sum inside the array."""
        return 16 + ceil_log2(self.rows)

    @property
    def macs(self) -> int:
        """Multiply-accumulates per cycle, at most; the serial design takes row after row."""
        return self.cols if self.design == "serial" else self.rows * self.cols

    @property
    def fingerprint(self) -> int:
        """32 bits over everything that a program depends on, and the version of the instruction set."""
        values = {k: v for k, v in asdict(self).items()
                  if k not in _NAMES + _HARDWARE and (v or k not in _OPTIONS)} | {"isa": ISA_VERSION}
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:4], "little")

    def same_machine(self, other: "Config") -> bool:
        """Whether another configuration is this one but for its name."""
        return replace(self, name="") == replace(other, name="")

    @property
    def values(self) -> dict[str, object]:
        """What `from_mapping` takes, and a file holds: options of later versions where they are set."""
        return {key: value for key, value in asdict(self).items() if value or key not in _HARDWARE + _LATER}

    @staticmethod
    def from_mapping(values: Mapping[str, object], name: str) -> "Config":
        """Make a configuration from a mapping with the constructor's keys; others are refused."""
        known = [field.name for field in fields(Config)]
        for key in values:
            if key not in known:
                close = get_close_matches(key, known, 1) or sorted(one for one in known if one.endswith(f"_{key}"))
                near = f"; did you mean {' or '.join(close)}?" if close else ""
                raise ConfigError(f"configuration {name!r}: unknown key {key!r}{near or '; known keys are '}"
                                  + ("" if near else ", ".join(sorted(known))))
        missing = [repr(key) for key in REQUIRED if key not in values]
        if missing:
            listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
            raise ConfigError(f"configuration {name!r}: key{'s' * bool(missing[1:])} {listed} "
                              f"{'are' if missing[1:] else 'is'} missing")
        return Config(**{"name": name, **values})  # type: ignore[arg-type]  # checked when it is made


PRESETS: dict[str, Config] = {
    config.name: config for config in (
        Config("n16", 16, 16, 16, 256 << 10, activation_lanes=2, acc_open=4, block_uops=1),
        Config("n16x8", 16, 8, 8, 64 << 10, block_uops=1),
        Config("n9x8", 9, 8, 8, 64 << 10, block_uops=1),
        Config("n8", 8, 8, 4, 64 << 10, block_uops=1),
        Config("tiny", 4, 4, 2, 8 << 10, acc_words=16),
        Config("serial", 4, 4, 1, 32 << 10, acc_words=256, bus_bytes=4, vector_words=2048, design="serial"),
    )
}


def load_config(name_or_path: str | Config) -> Config:
    """Return a preset by name or read a TOML file; ConfigError says which names there are. A Config is returned.

    The file's table `generate` has options of `tq-hw generate`, and is nothing of the configuration.
    """
    if isinstance(name_or_path, Config):
        return name_or_path
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]
    if not name_or_path.endswith(".toml"):
        near = get_close_matches(name_or_path.lower(), PRESETS, 1, 0.8)
        hint = "; a file is there, and its name does not end so" if Path(name_or_path).is_file() else "".join(
            f"; did you mean {one}?" for one in near)
        raise ConfigError(f"no configuration {name_or_path!r}: expected one of {', '.join(PRESETS)} "
                          f"or a file that ends in .toml{hint}")
    values = read_table(name_or_path)
    options = values.pop("generate", {})
    if not isinstance(options, dict):
        raise ConfigError(f"{name_or_path}: generate must be a table of options, not {options!r}")
    name = values.pop("name", Path(name_or_path).stem)
    if not isinstance(name, str):
        raise ConfigError(f"{name_or_path}: name must be a text, not {name!r}")
    sizes = {key: size_in_bytes(value) if key.endswith("_bytes") else value for key, value in values.items()}
    try:
        return Config.from_mapping(sizes, name)
    except ConfigError as error:
        raise ConfigError(f"{name_or_path}: {str(error).removeprefix(f'configuration {name!r}: ')}") from None
