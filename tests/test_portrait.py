"""The portrait example: its network finds people that it was not trained on, and the script writes what it says."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden import run
from tq_hw.sim.oracles import Oracle

FOLDER = Path(__file__).parents[1] / "examples" / "portrait"
MODEL = FOLDER / "portrait.tflite"


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Pictures and masks of seeds far from those of the training."""
    sys.path.insert(0, str(FOLDER))
    try:
        from portraits import portraits
    finally:
        sys.path.remove(str(FOLDER))
    pictures, masks = portraits(2_000_000, 8)
    return (pictures.astype(np.int16) - 128).astype(np.int8), masks


def test_size_of_the_network() -> None:
    assert MODEL.stat().st_size <= 60_000


def test_people_are_found(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    model = read_model(MODEL)
    pixels, masks = drawn
    found = np.stack([run(model, [one[None]]).outputs[0][0, :, :, 0] for one in pixels])
    person, right = found > 0, masks > 0.5
    assert np.mean(person == right) > 0.97
    assert np.sum(person & right) / np.sum(person | right) > 0.9
    with Oracle("tflm") as oracle:
        (mask,), = oracle.run_sets(MODEL, [[pixels[0][None]]])
    assert np.array_equal(mask[0, :, :, 0], found[0])


def test_the_script(tmp_path: Path) -> None:
    Image.new("RGB", (60, 80), (200, 10, 10)).save(tmp_path / "red.png")
    run_it = [sys.executable, str(FOLDER / "portrait.py"), "red.png", "--config", "n8", "-o"]
    done = subprocess.run([*run_it, "red"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("red-mask.png and red-composite.png written; every integer equal to the golden")
    assert "\nulx3s_85f " in done.stdout and " pictures a second with SDR SDRAM\n" in done.stdout
    for name in ("red-mask.png", "red-composite.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.size == (60, 80)
    failed = subprocess.run([*run_it, "missing/red"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr == "portrait: mask missing/red-mask.png: the directory missing does not exist\n"
