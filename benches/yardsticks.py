"""The measured networks and layers, and the cycles to beat."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from single_layers import LAYERS

from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model

__all__ = ["MODELS", "ROOT", "YARDSTICKS", "Yardstick"]

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT.parent / "shared" / "models"


@dataclass(frozen=True)
class Yardstick:
    """One network, or a single layer.

    Members
    -------
    path : the model; networks next to the checkout may be missing
    build : builds the model instead
    resident : count only the cycles from the first operand read to the last result written, with operands and results
        in the scratchpad
    to_beat, stretch : cycles by configuration, at 8 bytes per cycle and a latency of 30
    extra : measured only on request
    """

    name: str
    path: Path
    to_beat: Mapping[str, int] = field(default_factory=dict)
    stretch: Mapping[str, int] = field(default_factory=dict)
    extra: bool = False
    build: Callable[[], Model] | None = None
    resident: bool = False

    def model(self) -> Model:
        """Read or build the model."""
        return self.build() if self.build is not None else read_model(self.path)

    @property
    def exists(self) -> bool:
        """Whether the model exists."""
        return self.build is not None or self.path.exists()


def _layer(name: str, to_beat: int, stretch: int, *, resident: bool = False) -> Yardstick:
    return Yardstick(name, ROOT / name, {"n16": to_beat}, {"n16": stretch}, True, LAYERS[name], resident)


def _shared(name: str, file: str, n16: tuple[int, int] | None = None, n8: tuple[int, int] | None = None, *,
            extra: bool = False) -> Yardstick:
    goals = {config: pair for config, pair in (("n16", n16), ("n8", n8)) if pair}
    return Yardstick(name, MODELS / f"{file}.tflite", {key: pair[0] for key, pair in goals.items()},
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
    Yardstick("portrait", MODELS.parent / "cases" / "nets" / "portrait.tflite", {"n16": 270_000}, {"n16": 200_000},
              True),
    _shared("trained_lstm", "tflm_trained_lstm_int8", (25_000, 14_000), extra=True),
    _layer("1x1", 10_200, 9_600),
    _layer("3x3", 10_500, 9_600),
    _layer("depthwise", 2_700, 2_400, resident=True),
    _layer("matmul", 535_000, 528_000),
    _layer("SOFTMAX", 20_000, 8_000),
    _layer("RESIZE_BILINEAR", 26_000, 8_000, resident=True),
    _layer("ADD", 18_000, 5_000, resident=True),
    _layer("TRANSPOSE", 14_000, 9_000, resident=True),
)
