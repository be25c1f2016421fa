"""Layouts of waves: the files for viewers, and that they name only existing signals."""

from pathlib import Path

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.layers import sample
from tq_hw.sim.diagnose.wave_layout import Row, layout_files, layout_rows

SIGNALS = {"control_array": {"runs": 32, "in_flight": 3}, "fetch.queue_array": {"level": 10},
           "tokens": {"load_to_array": 8, "load_to_array_next": 9}}
TOP = "TOP.accelerator.accelerator"


def test_rows() -> None:
    assert [row for row in layout_rows(SIGNALS) if row.bits] == [
        Row(f"{TOP}.control_array.runs", 32, "array"), Row(f"{TOP}.control_array.in_flight", 3),
        Row(f"{TOP}.fetch.queue_array.level", 10), Row(f"{TOP}.tokens.load_to_array", 8)]


def test_files(tmp_path: Path) -> None:
    program = compile_model(sample("conv", 0), PRESETS["tiny"]).program
    files = {path.relative_to(tmp_path).as_posix(): text
             for path, text in layout_files(program, tmp_path / "a b.fst", SIGNALS, (0, 2560)).items()}
    assert sorted(files) == [".surfer/mappings/a b_array.txt", "a b.gtkw", "a b.names/array.txt", "a b.sucl"]
    index = next(layer.index for layer in program.layers if "array" in layer.runs)
    assert files["a b.names/array.txt"].startswith(f"0 nothing yet\n1 {index} CONV_2D, run 0\n")
    assert files[".surfer/mappings/a b_array.txt"].startswith("Name = a_b_array\nBits = 32\n0 nothing yet\n1 ")
    assert f"@2024\n^1 {tmp_path}/a b.names/array.txt\n{TOP}.control_array.runs[31:0]\n@24\n" in files["a b.gtkw"]
    # 2,560 cycles of 1,000 ps in 2.5 frames are 1,024,000 ps per frame.
    assert f"\n[timestart] 0\n*-19.965784 {' '.join(['-1'] * 27)}\n" in files["a b.gtkw"]
    # The load unit's heading is row 0, the array unit's row 1.
    assert (f"item_focus c_{TOP}.control_array.runs\nitem_set_format a_b_array\nitem_focus d_"
            in files["a b.sucl"])
    assert "divider_add array_unit\n" in files["a b.sucl"]


def test_names_of_files_are_one_word_of_a_command(tmp_path: Path) -> None:
    program = compile_model(sample("conv", 0), PRESETS["tiny"]).program
    files = {path.name: text for path, text in layout_files(program, tmp_path / "a#1 ü;.fst", SIGNALS, (0, 9)).items()}
    assert "\nitem_set_format a_1_ü__array\n" in files["a#1 ü;.sucl"]
    assert files["a#1 ü;_array.txt"].startswith("Name = a_1_ü__array\n")


def test_machines_without_these_signals() -> None:
    program = compile_model(sample("conv", 0), PRESETS["tiny"]).program
    assert layout_files(program, Path("a.fst"), {"": {"clk": 1}}, (0, 9)) == {}
