"""Recognizes what was given in place of a `.tflite` file: other formats, folders, URLs, misspelt names."""

import re
from difflib import get_close_matches
from pathlib import Path

__all__ = ["guess_folder", "guess_format", "guess_name"]

_ZIP = b"PK\x03\x04"
_CONVERT = "convert it with tf.lite.TFLiteConverter, quantized to int8"
_UNPACK = "unpack it first"
#: By the name of a file in the archive.
_ZIPPED = {
    b"data.pkl": "a PyTorch file; convert it with litert-torch, quantized to int8",
    b"model.weights.h5": f"a Keras file; {_CONVERT}",
    b".npyPK": "an archive of NumPy arrays; they are for --inputs",
    b".tflitePK": f"a ZIP archive with a .tflite file; {_UNPACK}",
}
#: By the first bytes.
_STARTS = {
    _ZIP: "a ZIP archive (.keras, .task or .zip)",
    b"\x89HDF": f"HDF5 (Keras .h5); {_CONVERT}",
    b"\x08": "protobuf (ONNX or a frozen graph); convert it with onnx2tf or tf.lite.TFLiteConverter, quantized to int8",
    b"GGUF": "a language model in GGUF, which this accelerator does not run",
    b"TQHM": "a compiled file of tq-hw; `sim` and `run` take it",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself",
    b"<": "HTML or XML",
    b"\x89PNG": "a picture; it is for --inputs",
    b"\xff\xd8\xff": "a picture; it is for --inputs",
    b"\x93NUMPY": "a NumPy array; save it with np.savez, for --inputs",
    b"\x80\x02": "a Python pickle (an old PyTorch file); convert it with litert-torch, quantized to int8",
    b"\x1f\x8b": f"a gzip archive; {_UNPACK}",
    b"\xfd7zXZ": f"an xz archive; {_UNPACK}",
    b"BZh": f"a bzip2 archive; {_UNPACK}",
    b"7z\xbc\xaf": f"a 7-Zip archive; {_UNPACK}",
    b"\x28\xb5\x2f\xfd": f"a Zstandard archive; {_UNPACK}",
}


def guess_format(data: bytes) -> str:
    """Name a format that is often mistaken for a `.tflite` file, and how to make one of it."""
    if data.startswith(_ZIP):
        for name, kind in _ZIPPED.items():
            if name in data:
                return f"; it looks like {kind}"
    for start, kind in _STARTS.items():
        if data.startswith(start):
            return f"; it looks like {kind}"
    if data[257:262] == b"ustar":
        return f"; it looks like a tar archive; {_UNPACK}"
    if b"saved_model_schema" in data or b"saved_model_main_op" in data:
        return f"; it looks like saved_model.pb of a TensorFlow SavedModel; {_CONVERT}"
    if data[8:9] == b"{":
        return "; it looks like weights without a model (.safetensors); convert the model that they belong to"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in data[:256]):
        return "; it looks like text"
    return ""


def guess_folder(path: Path) -> str:
    """Say what a directory is, where that is plain."""
    if (path / "saved_model.pb").exists():
        return f": it looks like a TensorFlow SavedModel; {_CONVERT}"
    models = sorted(file.name for file in path.glob("*.tflite"))
    return f"; it holds {', '.join(models[:3])}{', ...' * (len(models) > 3)}" if models else ""


def guess_name(path: Path) -> str:
    """Say what may be meant by the name of a file that is not there."""
    # A path has one slash where an address has two.
    if re.match(r"(https?|ftp|s3|gs|hf):/", str(path)):
        return "; it is a URL: download the file first"
    if not path.parent.is_dir():
        return f"; the directory {path.parent} does not exist"
    if path.is_symlink():
        return f"; it is a link to {path.readlink()}, which does not exist"
    stems = {file.stem.lower(): file for file in path.parent.glob("*.tflite") if file.exists()}
    near = get_close_matches(path.stem.lower(), stems, 1, 0.8)
    return "".join(f"; did you mean {stems[stem]}?" for stem in near)
