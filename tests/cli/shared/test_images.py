"""Pictures as inputs."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tq_hw.cli.shared.images import is_image, read_image
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model


def model_of(shape: tuple[int, ...], inputs: int = 1, dtype: str = "int8") -> Model:
    b = ModelBuilder("net")
    tensors = [b.input(shape, scale=0.5, zero_point=-3, name=f"x{n}", dtype=dtype) for n in range(inputs)]
    return parse_model(b.build(b.add("RELU", tensors[:1], scale=0.5, zero_point=-3, shape=shape)), "net")


def picture(path: Path, pixels: np.ndarray) -> str:
    Image.fromarray(pixels).save(path)
    return str(path)


PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3)).astype(np.uint8)


@pytest.mark.parametrize("ending", ["png", "bmp", "webp", "tiff", "gif", "jpg"])
def test_files_are_known_by_what_they_begin_with(tmp_path: Path, ending: str) -> None:
    name = picture(tmp_path / f"a.{ending}", PIXELS)
    assert is_image(name)
    assert read_image(name, model_of((1, 6, 5, 3))).shape == (1, 6, 5, 3)


def test_pixels_of_the_right_size_stay_as_they_are(tmp_path: Path) -> None:
    name = picture(tmp_path / "a.png", PIXELS)
    assert np.array_equal(read_image(name, model_of((1, 6, 5, 3)))[0], PIXELS.astype(np.int16) - 128)
    rgba = read_image(name, model_of((1, 6, 5, 4)))
    assert np.array_equal(rgba[0, ..., :3], PIXELS.astype(np.int16) - 128) and (rgba[..., 3] == 127).all()


def test_other_sizes_and_colors_are_converted(tmp_path: Path) -> None:
    found = read_image(picture(tmp_path / "a.png", np.full((40, 30, 3), 200, np.uint8)), model_of((1, 6, 5, 1)))
    assert found.dtype == np.int8 and (found == 72).all()


def test_other_files_are_no_pictures(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    assert not is_image(str(tmp_path / "a.npz")) and not is_image(str(tmp_path / "none.png"))


@pytest.mark.parametrize(("model", "message"), [
    (model_of((1, 6, 5, 3), 2), "a picture needs a model with one input, net has 2; give an .npz"),
    (model_of((1, 6, 5, 2)), "a picture needs an input [1, height, width, 1, 3 or 4], 'x0' is int8[1, 6, 5, 2]; give "
                             "an .npz"),
])
def test_models_that_take_no_picture(tmp_path: Path, model: Model, message: str) -> None:
    name = picture(tmp_path / "a.png", PIXELS)
    with pytest.raises(OptionError) as caught:
        read_image(name, model)
    assert str(caught.value) == f"{name}: {message}"


def test_pictures_that_cannot_be_read(tmp_path: Path) -> None:
    name = picture(tmp_path / "a.png", PIXELS)
    Path(name).write_bytes(Path(name).read_bytes()[:60])
    with pytest.raises(OptionError, match="a.png: the picture cannot be read: "):
        read_image(name, model_of((1, 6, 5, 3)))
    deep = picture(tmp_path / "deep.png", np.zeros((6, 5), np.uint16))
    with pytest.raises(OptionError, match="deep.png: the picture has more than 8 bits per channel; convert it to 8"):
        read_image(deep, model_of((1, 6, 5, 3)))
