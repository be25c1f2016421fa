"""The keyword example: its features are those that TensorFlow's operators make, and a WAV file goes through it."""

import subprocess
import sys
import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tq_hw.model.errors import OptionError

FOLDER = Path(__file__).parents[1] / "examples" / "kws"
MODEL = Path(__file__).parents[2] / "shared" / "models" / "mlperf_tiny_kws_dscnn.tflite"
#: Rows 0, 24 and 48 of what tf.signal (2.21, float32) makes of `chirp`, rounded.
EXPECTED = {
    0: [-52.830, 21.967, 6.178, 2.516, -1.383, -2.821, -4.067, -3.984, -3.525, -2.207],
    24: [-44.740, 2.618, -17.419, -1.323, 6.937, 1.306, -5.501, -1.123, 4.224, 2.611],
    48: [-47.435, -12.605, -7.043, 10.454, -7.146, 0.399, 4.203, -3.684, 2.208, 3.541],
}
#: The scale of the network's input, in which features are what it sees.
STEP = 0.5847029


@pytest.fixture(scope="module")
def kws() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        import kws as module
    finally:
        sys.path.remove(str(FOLDER))
    return module


def chirp(rate: int, seconds: float = 1.0) -> np.ndarray:
    t = np.arange(int(rate * seconds)) / rate
    return np.sin(2 * np.pi * (200 * t + 900 * t * t)) * (0.2 + 0.8 * t)


def write_wav(path: Path, sound: np.ndarray, rate: int, channels: int = 1, width: int = 2) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        numbers = np.rint(sound / np.abs(sound).max() * 32767).astype("<i2")
        file.writeframes(np.repeat(numbers, channels).tobytes() if width == 2 else bytes(len(sound)))


def test_features(kws: ModuleType) -> None:
    sound = chirp(16_000)
    found = kws.features(sound / sound.max())
    assert found.shape == (49, 10)
    for row, expected in EXPECTED.items():
        np.testing.assert_array_equal(np.rint(found[row] / STEP), np.rint(np.array(expected) / STEP))


def test_other_rates_channels_and_lengths(kws: ModuleType, tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", chirp(16_000), 16_000)
    write_wav(tmp_path / "b.wav", chirp(44_100), 44_100, channels=2)
    one, other = (kws.read_wav(str(tmp_path / name)) for name in ("a.wav", "b.wav"))
    assert len(one) == len(other) == 16_000 and one.max() == other.max() == 1.0
    assert np.abs(one[200:-200] - other[200:-200]).max() < 0.02
    write_wav(tmp_path / "c.wav", np.concatenate([np.zeros(20_000), chirp(16_000), np.zeros(9_000)]), 16_000)
    assert np.abs(kws.read_wav(str(tmp_path / "c.wav")) - one).max() < 0.001
    write_wav(tmp_path / "d.wav", chirp(16_000, 0.5), 16_000)
    assert not kws.read_wav(str(tmp_path / "d.wav"))[8_000:].any()


def test_bad_files(kws: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    write_wav(tmp_path / "bytes.wav", np.ones(100), 16_000, width=1)
    with wave.open(str(tmp_path / "quiet.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(100))
    for name, message in (("text.wav", "the WAV file cannot be read: "), ("none.wav", "cannot be read: No such file"),
                          ("bytes.wav", "expected samples of 16 bits, found 8"), ("quiet.wav", "nothing is heard")):
        with pytest.raises(OptionError, match=message):
            kws.read_wav(str(tmp_path / name))


def test_the_script(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", chirp(22_050), 22_050)
    done = subprocess.run([sys.executable, str(FOLDER / "kws.py"), str(MODEL), "a.wav", "--config", "n8"], cwd=tmp_path,
                          capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a.wav: ") and done.stdout.endswith("%)\n")
    failed = subprocess.run([sys.executable, str(FOLDER / "kws.py"), str(MODEL), "b.wav"], cwd=tmp_path,
                            capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr) == (2, "kws: b.wav: the WAV file cannot be read: No such file or "
                                                     "directory\n")
