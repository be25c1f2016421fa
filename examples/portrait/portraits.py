"""Drawn portraits: pictures of 96x96 with a person in front of a background, and the mask of the person.

Head, hair, neck, shoulders and background are ellipses, polygons and gradients of random positions and colours.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

__all__ = ["SIZE", "portrait", "portraits"]

#: Pixels of a side of a picture; drawn twice as large, for smooth edges.
SIZE = 96
_SCALE = 2
_LARGE = SIZE * _SCALE
_SKIN = ((255, 219, 190), (236, 188, 150), (198, 140, 100), (141, 92, 60), (92, 58, 38))

Array = npt.NDArray[Any]


def _colour(rng: np.random.Generator, low: int = 0, high: int = 256) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in rng.integers(low, high, 3))
    return red, green, blue


def _ellipse(draw: ImageDraw.ImageDraw, x: float, y: float, wide: float, high: float, fill: Any) -> None:
    draw.ellipse((x - wide, y - high, x + wide, y + high), fill=fill)


def _behind(rng: np.random.Generator) -> Image.Image:
    """Draw the background: a gradient, then up to nine shapes."""
    ends = rng.integers(0, 256, (2, 3))
    along = np.linspace(0, 1, _LARGE)[:, None, None] if rng.integers(0, 2) else np.linspace(0, 1, _LARGE)[None, :, None]
    field = np.broadcast_to(ends[0] + (ends[1] - ends[0]) * along, (_LARGE, _LARGE, 3))
    picture = Image.fromarray(field.astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(0, 10)):
        x, y = rng.uniform(0, _LARGE, 2)
        if rng.integers(0, 2):
            draw.rectangle((x, y, x + rng.uniform(5, 90), y + rng.uniform(5, 90)), fill=_colour(rng))
        else:
            _ellipse(draw, x, y, rng.uniform(4, 40), rng.uniform(4, 40), _colour(rng))
    return picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 4))))


def portrait(seed: int) -> tuple[Array, Array]:
    """Return a picture, uint8 [96, 96, 3], and its mask, float32 [96, 96]: 1.0 where the person is."""
    rng = np.random.default_rng(seed)
    picture, mask = _behind(rng), Image.new("L", (_LARGE, _LARGE))
    x, y = _LARGE * rng.uniform(0.32, 0.68), _LARGE * rng.uniform(0.3, 0.5)
    wide = _LARGE * rng.uniform(0.11, 0.19)
    high = wide * rng.uniform(1.15, 1.5)
    skin = tuple(int(np.clip(value + rng.integers(-15, 16), 0, 255)) for value in _SKIN[rng.integers(0, len(_SKIN))])
    hair, shirt = _colour(rng, 0, 180), _colour(rng)
    slope = rng.uniform(0.9, 1.4)
    for target, plain in ((ImageDraw.Draw(picture), None), (ImageDraw.Draw(mask), 255)):
        if seed % 3 == 0:  # long hair behind the neck
            _ellipse(target, x, y + high * 0.3, wide * 1.35, high * 1.4, plain or hair)
        target.rectangle((x - wide * 0.45, y, x + wide * 0.45, y + high * 1.6), fill=plain or skin)
        _ellipse(target, x, y + high * 2.6, wide * 2.4, high * slope, plain or shirt)
        target.rectangle((x - wide * 2.4, min(y + high * 2.6, _LARGE), x + wide * 2.4, _LARGE), fill=plain or shirt)
        _ellipse(target, x, y - high * 0.15, wide * 1.12, high * 1.1, plain or hair)
        _ellipse(target, x, y + high * 0.05, wide, high, plain or skin)
    draw = ImageDraw.Draw(picture)
    for side in (-1, 1):
        _ellipse(draw, x + side * wide * 0.4, y, wide * 0.13, wide * 0.09, (30, 25, 25))
    _ellipse(draw, x, y + high * 0.55, wide * 0.3, wide * 0.07, (150, 60, 60))
    small = np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BOX), np.float32)
    light = rng.uniform(0.6, 1.2) * small + rng.normal(0, rng.uniform(1, 10), small.shape)
    alpha = np.asarray(mask.resize((SIZE, SIZE), Image.Resampling.BOX), np.float32) / 255
    return np.clip(light, 0, 255).astype(np.uint8), alpha


def portraits(first: int, count: int) -> tuple[Array, Array]:
    """Return the pictures and masks of `count` seeds, stacked."""
    made = [portrait(seed) for seed in range(first, first + count)]
    return np.stack([picture for picture, _ in made]), np.stack([mask for _, mask in made])
