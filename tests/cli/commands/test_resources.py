"""`tq-hw resources`."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Tq = Callable[..., Any]


def test_a_configuration_in_all_families(tq: Tq) -> None:
    start = time.process_time()
    result = tq("resources", "--config", "n9x8")
    assert (result.code, result.err) == (0, "")
    assert time.process_time() - start < 1
    assert "n9x8, ecp5" in result.out
    assert re.search(r"^multipliers and block RAMs are computed, the rest fitted: of the totals of \d+ synthesized "
                     r"machines outside the fit \(\d+ never are, the others were left out one at a time\) luts "
                     r"were off by [\d.]+% \(median\), at most [\d.]+%, flip flops were off by [\d.]+% \(median\), "
                     r"at most [\d.]+%$", result.out, re.M)
    assert "clock 146 MHz in one route of n9x8 on ecpix5_85f\n" in result.out
    assert "clock: no machine of xc7 was routed\n" in result.out


def test_the_clock_of_sizes_that_were_never_routed(tq: Tq) -> None:
    result = tq("resources", "--config", "n8", "--family", "ecp5")
    assert ("clock 100.5 to 146 MHz in 2 routes of ulx3s_85f, n9x8 on ulx3s_85f, ecpix5_85f; a machine of these "
            "sizes was never routed, a larger one may be slower\n") in result.out


def test_the_clock_of_a_board_is_of_routes_for_its_part(tq: Tq) -> None:
    for board, clock in (("ulx3s_85f", "100.5 MHz in one route of ulx3s_85f"),
                         ("ecpix5_85f", "146 MHz in one route of n9x8"),
                         ("icesugar_pro", "38.6 MHz in one route of icesugar_pro")):
        assert f"clock {clock} on {board}\n" in tq("resources", "--board", board).out


def test_a_board_with_what_is_beside_the_machine(tq: Tq) -> None:
    assert tq("resources", "--board", "ulx3s_85f", "--json", "r.json").code == 0
    report = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert (report["board"], report["memory"], report["shortages"]) == ("ulx3s_85f", "SDR SDRAM", [])
    resources, = report["resources"]
    assert resources["multipliers"] == 144
    assert sum(unit["multipliers"] for unit in resources["units"]) == 144
    assert {"luts", "flip_flops"} <= set(resources["spread"])
    assert (resources["clock"]["low_mhz"], resources["clock"]["same_sizes"]) == (100.5, True)
    assert tq("resources", "--board", "ulx3s_85f", "--config", "n16").out.count("does not fit: ") == 1


def test_the_serial_design(tq: Tq) -> None:
    result = tq("resources", "--board", "icebreaker")
    assert result.code == 0


def test_bad_options(tq: Tq) -> None:
    for arguments, message in (
            (("--family", "foo"), "--family foo: expected one of "),
            (("--family", "ice40", "--board", "ulx3s_85f"), "--family ice40: ulx3s_85f is an ecp5; leave --family out"),
            (("--memory", "DDR3"), "--memory DDR3: belongs to a board; give --board"),
            (("--board", "arty"), "no board 'arty': expected one of "),
            (("--config", "n8", "--family", "ice40"), "configuration 'n8': the parallel design was never synthesized")):
        result = tq("resources", *arguments)
        assert result.code == 2
        assert message in result.err
