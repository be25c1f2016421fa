"""Which of ten words a WAV file says: features, and the keyword network of MLPerf Tiny.

    python examples/kws/kws.py kws_ref_model.tflite yes.wav

The model is `kws_ref_model.tflite` of the benchmark, which is not part of this checkout. Its features are ten mel
frequency cepstral coefficients of 49 windows of 30 ms, 20 ms apart, as in the benchmark's training. The host computes
them, the accelerator does the rest.
"""

import argparse
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.cli.main import describe
from tq_hw.cli.shared.options import ENGINES
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import YARDSTICK
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden
from tq_hw.sim.engines import make_engine

__all__ = ["WORDS", "features", "input_of", "read_wav"]

WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown")
_RATE_HZ, _WINDOW, _STEP, _FFT = 16_000, 480, 320, 512
_MELS, _LOW_HZ, _HIGH_HZ, _COEFFICIENTS = 40, 20.0, 4000.0, 10

Array = npt.NDArray[Any]


def read_wav(path: str) -> Array:
    """Return one second of a WAV file of 16 bits at 16 kHz, float64 [16000], the loudest sample 1.0.

    Another rate is resampled, several channels are averaged; the second is that around the loudest place.
    """
    try:
        with wave.open(path, "rb") as file:
            width, rate, channels = file.getsampwidth(), file.getframerate(), file.getnchannels()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{path}: the WAV file cannot be read: {why}") from error
    if width != 2:
        raise OptionError(f"{path}: expected samples of 16 bits, found {8 * width}; convert it, for example with sox "
                          "-b 16")
    sound = np.frombuffer(data, "<i2").reshape(-1, channels).mean(axis=1)
    if not sound.any():
        raise OptionError(f"{path}: nothing is heard in it")
    count = len(sound) * _RATE_HZ // rate
    if rate != _RATE_HZ:
        # In the spectrum: nothing above half of the new rate remains.
        spectrum = np.fft.rfft(sound)
        sound = np.fft.irfft(np.pad(spectrum, (0, max(count // 2 + 1 - len(spectrum), 0)))[:count // 2 + 1], count)
    if count > _RATE_HZ:
        until = np.concatenate([[0.0], np.cumsum(sound ** 2)])
        begin = int((until[_RATE_HZ:] - until[:-_RATE_HZ]).argmax())
        sound = sound[begin:begin + _RATE_HZ]
    second: Array = np.pad(sound / sound.max(), (0, _RATE_HZ - len(sound)))
    return second


def _mel(hertz: Array) -> Array:
    return 1127.0 * np.log1p(hertz / 700.0)


def _mel_weights() -> Array:
    """Return the triangles from bins of the spectrum to mel bands, [257, 40]; the bin of 0 Hz is in none."""
    edges = np.linspace(_mel(np.array(_LOW_HZ)), _mel(np.array(_HIGH_HZ)), _MELS + 2)
    bins = _mel(np.linspace(0, _RATE_HZ / 2, _FFT // 2 + 1))[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(rise, fall))
    weights[0] = 0
    return weights


def features(sound: Array) -> Array:
    """Return the coefficients of one second, float64 [49, 10]."""
    begins = np.arange(0, _RATE_HZ - _WINDOW + 1, _STEP)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
    frames = sound[begins[:, None] + np.arange(_WINDOW)] * window
    bands = np.log(np.abs(np.fft.rfft(frames, _FFT)) @ _mel_weights() + 1e-6)
    numbers = np.arange(_MELS)
    cosines = np.cos(np.pi / _MELS * (numbers[:, None] + 0.5) * np.arange(_COEFFICIENTS))
    coefficients: Array = 2 * bands @ cosines / np.sqrt(2 * _MELS)
    return coefficients


def input_of(model: Model, sound: Array) -> Array:
    """Return the model's input; OptionError if the model takes another one."""
    tensor = model.main.tensors[model.main.inputs[0]]
    quantized = tensor.quantization
    if tensor.dtype != "int8" or tensor.shape != (1, 49, 10, 1) or quantized is None:
        raise OptionError(f"{model.name}: expected an input of int8[1, 49, 10, 1], found {tensor.dtype}"
                          f"{list(tensor.shape)}")
    numbers = np.rint(features(sound) / quantized.scale[0]) + quantized.zero_point[0]
    given: Array = np.clip(numbers, -128, 127).astype(np.int8).reshape(tensor.shape)
    return given


def say(model_file: Path, sounds: list[str], engine_name: str, config_name: str) -> None:
    """Print the word of each file; MismatchError if engine and golden model differ."""
    model = read_model(model_file)
    program = None if engine_name == "golden" else compile_model(model, load_config(config_name)).program
    engine = make_engine(engine_name, model, program, YARDSTICK)
    for path in sounds:
        given = input_of(model, read_wav(path))
        found = engine.infer((given,))
        if not np.array_equal(found.outputs[0], golden.run(model, [given]).outputs[0]):
            raise MismatchError("the result differs from the golden model's")
        scores = found.outputs[0][0].astype(int) + 128
        took = "" if found.cycles is None else f", {found.cycles:,} cycles on {config_name}"
        print(f"{path}: {WORDS[int(scores.argmax())]} ({scores.max() / 256:.0%}){took}")


def main() -> int:
    """Parse the options; return the exit code of the command line's contract."""
    parser = argparse.ArgumentParser(description="Which of ten words a WAV file says.")
    parser.add_argument("model", type=Path, help="kws_ref_model.tflite of MLPerf Tiny")
    parser.add_argument("sounds", nargs="+", metavar="WAV", help="files of 16 bits")
    parser.add_argument("--config", default="n16", help="a preset's name or a TOML file (default: n16)")
    parser.add_argument("--engine", choices=ENGINES, default="executor")
    options = parser.parse_args()
    try:
        say(options.model, options.sounds, options.engine, options.config)
    except Exception as error:
        code, message = describe(error)
        print(f"kws: {message}", file=sys.stderr)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
