"""Find the person in a picture: mask and composite as PNG, and pictures a second on each board.

    python examples/portrait/portrait.py                              # a drawn portrait, by the executor
    python examples/portrait/portrait.py photo.png -o photo --engine rtl

Every integer is compared with the golden model. The rates are the compiler's estimates for machine, memory and clock of
each board, without the transfer of the picture to the board and back.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from portraits import portrait

from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.cli.main import describe
from tq_hw.cli.shared.files import check_outputs
from tq_hw.cli.shared.images import read_image
from tq_hw.cli.shared.options import ENGINES
from tq_hw.compiler import compile_model, estimate_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import YARDSTICK
from tq_hw.model.errors import MismatchError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden
from tq_hw.sim.engines import make_engine

__all__ = ["composite", "mask_of", "rates"]

MODEL = Path(__file__).with_name("portrait.tflite")
#: The background colour of the composite: red, green, blue.
BEHIND = (40, 90, 160)

Array = npt.NDArray[Any]


def mask_of(model: Model, pixels: Array, engine_name: str, config_name: str) -> tuple[Array, int | None]:
    """Return the person's share of each pixel, 0.0 to 1.0, and the cycles if the engine counts them.

    `pixels`: int8 [1, 96, 96, 3]. Raises MismatchError if the engine and the golden model differ.
    """
    program = None if engine_name == "golden" else compile_model(model, load_config(config_name)).program
    found = make_engine(engine_name, model, program, YARDSTICK).infer((pixels,))
    if not np.array_equal(found.outputs[0], golden.run(model, [pixels]).outputs[0]):
        raise MismatchError("the mask differs from the golden model's")
    # A logistic function's output of int8 has scale 1/256 and zero point -128.
    return (found.outputs[0][0, :, :, 0].astype(np.float64) + 128) / 256, found.cycles


def composite(picture: Image.Image, mask: Array) -> Image.Image:
    """Return the picture with everything except the person in one colour; the mask is scaled to it."""
    alpha = Image.fromarray((mask * 255).astype(np.uint8)).resize(picture.size, Image.Resampling.BILINEAR)
    return Image.composite(picture, Image.new("RGB", picture.size, BEHIND), alpha)


def rates(model: Model) -> Iterator[tuple[str, str]]:
    """Yield each board, and pictures a second with the first of its memories that is large enough."""
    for board in BOARDS.values():
        text = "no memory of the board holds the network"
        for memory in board.memories:
            found = estimate_model(model, board.config, memory_rate(board, memory))
            if found.memory_bytes <= memory.size_bytes:
                text = f"{board.clock_hz / found.cycles:6.0f} pictures a second with {memory.name}"
                if board.config.design == "serial":
                    text = f"runs from {memory.name}; of the serial machine's time there is no estimate"
                break
        yield board.name, text


def show(path: str | None, seed: int, prefix: str, engine: str, config: str) -> None:
    """Write the two pictures, print the accuracy of a drawn one's mask, and the rates."""
    model = read_model(MODEL)
    outputs = {"mask": f"{prefix}-mask.png", "composite": f"{prefix}-composite.png"}
    check_outputs(outputs, [path])
    if path is None:
        drawn, truth = portrait(seed)
        picture, pixels = Image.fromarray(drawn), (drawn.astype(np.int16) - 128).astype(np.int8)[None]
    else:
        pixels = read_image(path, model)
        picture = Image.open(path).convert("RGB")
    mask, cycles = mask_of(model, pixels, engine, config)
    Image.fromarray((mask * 255).astype(np.uint8)).resize(picture.size).save(outputs["mask"])
    composite(picture, mask).save(outputs["composite"])
    print(f"{' and '.join(outputs.values())} written; every integer equal to the golden model's")
    if cycles is not None:
        print(f"{cycles:,} cycles on {config}")
    if path is None:
        person, right = mask > 0.5, truth > 0.5
        print(f"{np.mean(person == right):.1%} of the pixels are right; intersection over union "
              f"{np.sum(person & right) / np.sum(person | right):.1%}")
    for name, text in rates(model):
        print(f"{name:14} {text}")


def main() -> int:
    """Parse the options; return the exit code of the command line's contract."""
    parser = argparse.ArgumentParser(description="Find the person in a picture.")
    parser.add_argument("picture", nargs="?", help="PNG, JPEG, ...; by default one is drawn")
    parser.add_argument("-o", "--output", default="portrait", metavar="PREFIX", help="PREFIX-mask.png and "
                        "PREFIX-composite.png are written (default: portrait)")
    parser.add_argument("--seed", type=int, default=1_000_001, help="of the drawn picture (default: %(default)s)")
    parser.add_argument("--config", default="n16", help="a preset's name or a TOML file (default: n16)")
    parser.add_argument("--engine", choices=ENGINES, default="executor")
    options = parser.parse_args()
    try:
        show(options.picture, options.seed, options.output, options.engine, options.config)
    except Exception as error:
        code, message = describe(error)
        print(f"portrait: {message}", file=sys.stderr)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
