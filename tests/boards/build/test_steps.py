"""Programs that end without an error but have not done their work: messages name the program and what is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from stand_ins import small, stand_in

from tq_hw.boards.build import build as build_module
from tq_hw.boards.build import steps, tools
from tq_hw.boards.build.build import build
from tq_hw.boards.build.folder import FailedStepError
from tq_hw.boards.build.tools import Tool
from tq_hw.boards.catalog.board import OnChip
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.model.errors import OptionError

Put = Callable[[str, str], None]
SEED = BOARDS["ulx3s_85f"].seed
COMMANDS = {"ulx3s_85f": [["yosys", "-q", "top.ys"], ["nextpnr-ecp5", "--report", "timing.json", "--seed", str(SEED)],
                          ["ecppack", "top.config", "top.bit"]],
            "arty_a7": [["vivado", "-mode", "batch"]]}


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a stand-in on the PATH, also in place of a package's program, and skip elaboration."""
    monkeypatch.setattr(build_module, "elaborate", lambda board, *_, **__: SimpleNamespace(
        files={"build_top.json": json.dumps({"commands": COMMANDS[board.name]})}, extract=lambda _: None))
    (tmp_path / "out").mkdir()

    def install(name: str, text: str) -> None:
        monkeypatch.setitem(tools.TOOLS, name, Tool(name))
        stand_in(tmp_path / "bin", name, f"print('ERROR: no licence')\n{text}", monkeypatch)

    return install


def refusal(board: str, folder: Path) -> str:
    """Return the message of a failed build."""
    with pytest.raises(FailedStepError) as error:
        build(small(board), OnChip(4096), folder)
    return str(error.value)


@pytest.mark.parametrize(("text", "message"), [
    ("", "yosys ended without an error and wrote no stat.json"),
    ("open('stat.json', 'w').write('{')", "yosys ended without an error, and what it wrote cannot be read: "
     "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ("open('stat.json', 'w').write('{}')", "yosys ended without an error, and what it wrote cannot be read: "
     "KeyError: 'design'"),
    ("open('stat.json', 'w').write('{\"design\": {\"num_cells_by_type\": {}}}')",
     "yosys ended without an error and wrote no top.json")])
def test_synthesis_without_results(put: Put, tmp_path: Path, text: str, message: str) -> None:
    put("yosys", text)
    assert refusal("ulx3s_85f", tmp_path / "out") == message


TIMING = {"fmax": {"clk": {"achieved": 60.0, "constraint": 12.0}}, "critical_paths": []}


@pytest.mark.parametrize(("report", "message"), [
    (None, "nextpnr-ecp5 ended without an error and wrote no timing.json"),
    ("", "nextpnr-ecp5 ended without an error, and what it wrote cannot be read: JSONDecodeError: Expecting value: "
         "line 1 column 1 (char 0)"),
    ({"fmax": {}, "critical_paths": []}, "nextpnr reported no clock rate"),
    ({"critical_paths": []}, "nextpnr-ecp5 ended without an error, and what it wrote cannot be read: KeyError: 'fmax'"),
    (TIMING, "ecppack ended without an error and wrote no top.bit")])
def test_place_and_route_without_results(put: Put, tmp_path: Path, quick_synthesis: list[list[str]], report: object,
                                         message: str) -> None:
    text = report if isinstance(report, str) else json.dumps(report)
    put("nextpnr-ecp5", "" if report is None else f"open('seed_{SEED}/timing.json', 'w').write({text!r})")
    put("ecppack", "")
    assert refusal("ulx3s_85f", tmp_path / "out") == message


def test_a_cluster_that_is_lost_leaves_the_folder(put: Put, tmp_path: Path, quick_synthesis: list[list[str]],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise OptionError("--scheduler tcp://a:1: no Dask scheduler answers there: timed out")

    monkeypatch.setattr(steps, "place_on_cluster", lost)
    with pytest.raises(FailedStepError, match="^--scheduler tcp://a:1: no Dask scheduler answers there: timed out$"):
        build(small("ulx3s_85f"), OnChip(4096), tmp_path / "out", scheduler="tcp://a:1")


def test_vivado_without_reports(put: Put, tmp_path: Path, quick_synthesis: list[list[str]]) -> None:
    put("vivado", "")
    assert refusal("arty_a7", tmp_path / "out") == (
        "vivado ended without an error and wrote no top_utilization_place.rpt")


def test_a_program_that_fails_leaves_its_folder(put: Put, tmp_path: Path, quick_synthesis: list[list[str]]) -> None:
    put("nextpnr-ecp5", "sys.exit(1)")
    assert refusal("ulx3s_85f", tmp_path / "out") == (
        "nextpnr-ecp5 failed with exit code 1; its last output:\nERROR: no licence")
