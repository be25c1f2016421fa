"""Pictures as inputs: decoded, resized, and quantized for the model's input."""

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tq_hw.cli.shared.arrays import Array, float_range, input_tensors
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Tensor

__all__ = ["is_image", "read_image"]

#: First bytes of PNG, JPEG, BMP, GIF and TIFF. WebP has its name at byte 8.
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"II*\0", b"MM\0*")
#: Number of channels -> Pillow's mode.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def is_image(name: str) -> bool:
    """Whether a file begins like a picture; an `.npz` does not."""
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(12)
    return begin.startswith(_MAGIC) or (begin[:4] == b"RIFF" and begin[8:] == b"WEBP")


def read_image(name: str, model: Model) -> Array:
    """Return a picture as the model's only input.

    It is rotated upright (Exif), converted to gray, RGB or RGBA by the input's channels, and resized to height and
    width (bilinear, ignoring its proportions). Pixel 0 becomes the minimum of the input's type, 255 the maximum. For
    int8 that is pixel - 128, which suits the usual ranges 0..1, -1..1 and 0..255.

    Raises OptionError if the file is not a picture, or the input's shape is not [1, height, width, 1, 3 or 4].
    """
    tensors = input_tensors(model)
    if len(tensors) != 1:
        raise OptionError(f"{name}: a picture needs a model with one input, {model.name} has {len(tensors)}; give an "
                          ".npz")
    tensor = tensors[0]
    shape = tensor.shape
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in _MODES:
        raise OptionError(f"{name}: a picture needs an input [1, height, width, 1, 3 or 4], {tensor.name!r} is "
                          f"{tensor.dtype}{list(shape)}; give an .npz")
    return _as_tensor(_pixels(name, shape), model, tensor, name)


def _pixels(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    from PIL import Image, ImageOps, UnidentifiedImageError

    _, height, width, channels = shape
    try:
        with warnings.catch_warnings():
            # A picture of implausible size is refused, not only warned about.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(name) as picture:
                if picture.mode.startswith(("I", "F")):
                    raise OptionError(f"{name}: the picture has more than 8 bits per channel; convert it to 8 bits")
                made = ImageOps.exif_transpose(picture).convert(_MODES[channels])
                return np.asarray(made.resize((width, height), Image.Resampling.BILINEAR)).reshape(shape)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError,
            Image.DecompressionBombWarning) as error:
        raise OptionError(f"{name}: the picture cannot be read: {error}") from error


def _as_tensor(pixels: npt.NDArray[np.uint8], model: Model, tensor: Tensor, name: str) -> Array:
    if tensor.dtype == "uint8":
        return pixels
    if tensor.dtype == "int8":
        return (pixels.astype(np.int16) - 128).astype(np.int8)
    if tensor.dtype == "float32":
        low, high = float_range(model, tensor)
        return (low + pixels.astype(np.float64) * ((high - low) / 255)).astype(np.float32)
    raise OptionError(f"{name}: a picture needs an input of int8, uint8 or float32, {tensor.name!r} is "
                      f"{tensor.dtype}; give an .npz")
