"""The networks that are measured, and the cycles to beat on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ROOT", "YARDSTICKS", "Yardstick"]

ROOT = Path(__file__).resolve().parents[1]
_MODELS = ROOT.parent / "shared" / "models"


@dataclass(frozen=True)
class Yardstick:
    """One network.

    Members
    -------
    path : the model; the networks beside the checkout may be missing
    to_beat, stretch : cycles by configuration, at 8 bytes per cycle and a latency of 30
    extra : measured only when asked for
    """

    name: str
    path: Path
    to_beat: Mapping[str, int] = field(default_factory=dict)
    stretch: Mapping[str, int] = field(default_factory=dict)
    extra: bool = False


def _shared(name: str, file: str, n16: tuple[int, int] | None = None, n8: tuple[int, int] | None = None, *,
            extra: bool = False) -> Yardstick:
    goals = {config: pair for config, pair in (("n16", n16), ("n8", n8)) if pair}
    return Yardstick(name, _MODELS / f"{file}.tflite", {key: pair[0] for key, pair in goals.items()},
                     {key: pair[1] for key, pair in goals.items()}, extra)


YARDSTICKS = (
    Yardstick("digits", ROOT / "examples" / "digits" / "digits.tflite"),
    _shared("KWS", "mlperf_tiny_kws_dscnn", (15_500, 13_300), (55_000, 50_000)),
    _shared("VWW", "mlperf_tiny_vww_96", (46_000, 41_000), (157_000, 146_000)),
    _shared("IC", "mlperf_tiny_ic_resnet8", (55_000, 51_500), (212_000, 201_000)),
    _shared("AD", "mlperf_tiny_ad01", (36_000, 34_500), (36_500, 34_500)),
    _shared("person_detect", "tflm_person_detect", (43_000, 39_000), extra=True),
    _shared("emza_ssd_slim", "emza_ssd_slim_120x160", (110_000, 100_000), extra=True),
    _shared("cfu_mobilenetv2", "cfu_mobilenetv2_160_035", (220_000, 195_000), extra=True),
    _shared("MobileNetV2 224", "coral_tf2_mobilenet_v2_224_ptq", (1_650_000, 1_540_000), extra=True),
    _shared("trained_lstm", "tflm_trained_lstm_int8", (25_000, 14_000), extra=True),
)
