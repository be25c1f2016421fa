"""Cells of each unit by synthesis, for the resource model: `python benches/area.py n8 9x8x4 --family ecp5`.

A configuration is elaborated whole, and each of its units is synthesized separately. A unit that several configurations
share is synthesized once. Results are written to boards/resources/record.json after each unit, so that an interrupted
run loses at most one. `--whole` synthesizes machines as one, in the harness of benches/fpga.py, and prints their cells.
`--again` repeats this for every machine of the record, which synthesizes the units whose sources
have changed; `--stale` lists them. `--draw 20` adds the first twenty machines of benches/draws.py, `--kept-out` its
list of unusual machines, which the fit does not use.
"""

import argparse
import hashlib
import importlib
import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from amaranth.hdl import Value
from draws import KEPT_OUT, drawn, is_held, parse_config
from fpga import Harness

from tq_hw.boards.build.block_registers import absorb_registers
from tq_hw.boards.build.build import synthesize as synthesize_board
from tq_hw.boards.build.carry_inputs import pack_carry_inputs
from tq_hw.boards.build.figures import count_cells, read_json
from tq_hw.boards.build.lut_pairs import pair_luts
from tq_hw.boards.build.open_netlist import xilinx_synthesis
from tq_hw.boards.build.part_names import HIDE_PARTS
from tq_hw.boards.build.tools import run_tool
from tq_hw.boards.catalog.board import Board, Memory
from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.gateware.on_chip import SpramCells
from tq_hw.hdl.machine import machine
from tq_hw.hdl.serial.accelerator import SerialCore
from tq_hw.isa.config import PRESETS, Config, ConfigError
from tq_hw.model.errors import ToolError, TqError

_RECORD = Path(__file__).parents[1] / "boards" / "resources" / "record.json"
#: Amaranth's type stubs lack this module.
_rtlil: Any = importlib.import_module("amaranth.back.rtlil")
_TOP = "top"
#: Yosys commands by family, as in `tq-hw build`. In a whole machine ABC9 makes no path shorter than the slowest one
#: requires; alone, a unit would be made as fast as it can be, of more LUTs. So the delay of that path is given, in ps.
_TARGET = {"ecp5": "scratchpad -set abc9.D 5000; ", "xc7": "scratchpad -set abc9.D 6000; "}
_SYNTHESIS = {
    "ecp5": _TARGET["ecp5"] + "synth_ecp5 -top {top}; write_json cells.json; tee -q -o stat.json stat -json",
    "gowin": "synth_gowin -family gw2a -noiopads -top {top}; tee -q -o stat.json stat -json",
    "ice40": "setattr -unset ram_style */*; synth_ice40 -dsp -top {top}; tee -q -o stat.json stat -json",
    "xc7": _TARGET["xc7"] + xilinx_synthesis("{top}", "-noiopad -noclkbuf") +
           "; tee -q -o stat.json stat -tech xilinx -json",
}
_PORT = re.compile(r"^\s*wire (?:width (\d+) )?(input|output) (\d+) +(?:signed )?(\\\S+)$", re.MULTILINE)


def modules(text: str) -> dict[str, str]:
    """Return the modules of RTLIL by name."""
    starts = [match.start() for match in re.finditer(r"^(?:attribute .*\n)*module ", text, re.MULTILINE)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return {re.search(r"^module (\S+)", part, re.MULTILINE)[1]: part for part in parts}  # type: ignore[index]


def digest(parts: dict[str, str], top: str, commands: str) -> str:
    """Return a hash of a module, all modules below it and the commands that synthesize it.

    It is independent of numbers in generated names.
    """
    names: dict[str, str] = {}
    text = commands + "".join(part for name, part in parts.items() if name == top or name.startswith(top + "."))
    plain = re.sub(r"\$\d+", lambda found: names.setdefault(found[0], f"${len(names)}"), text)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def units(parts: dict[str, str], design: str, family: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, module and hash of each unit. The unit `top` is the logic between the others."""
    top, commands = f"\\{_TOP}", _SYNTHESIS[family]
    if design == "serial":
        yield design, top, digest(parts, top, commands)
        return
    for name in parts:
        if name.count(".") == 1:
            yield name.partition(".")[2].partition("$")[0], name, digest(parts, name, commands)
    yield _TOP, top, digest({top: parts[top]}, top, commands)


def registered(part: str, module: str) -> tuple[str, int]:
    """Return a module with a flip-flop at each port of `module`, and the number of flip-flops.

    ABC9 exits without a message on some units whose ports are those of the top: often for a 7 series and for Gowin,
    and for an ECP5 on arrays of three rows or columns.
    """
    lines, ends, flip_flops = ["attribute \\top 1", "module \\harness", "  wire input 0 \\clk"], [], 0
    for width, way, number, name in _PORT.findall(part):
        bits = int(width or 1)
        if name.endswith("clk"):
            ends.append(f"    connect {name} \\clk")
            continue
        flip_flops += bits
        source, target = (name, f"{name}_inner") if way == "input" else (f"{name}_inner", name)
        lines += [f"  wire width {bits} {way} {int(number) + 1} {name}", f"  wire width {bits} {name}_inner",
                  f"  cell $dff {name}_register", f"    parameter \\WIDTH {bits}", "    parameter \\CLK_POLARITY 1'1",
                  "    connect \\CLK \\clk", f"    connect \\D {source}", f"    connect \\Q {target}", "  end"]
        ends.append(f"    connect {name} {name}_inner")
    return "\n".join([*lines, f"  cell {module} \\dut", *ends, "  end", "end", ""]), flip_flops


def whole(config: Config, family: str) -> dict[str, Any]:
    """Return the cells of a whole machine between the registers of a harness, whose own cells are among them."""
    harness = Harness(machine(config))
    text: str = _rtlil.convert(harness, name="harness", ports=harness.ports, emit_src=False)
    return _cells(text, "harness", family, [], target=False)


def synthesize(text: str, module: str, family: str, black: list[str]) -> dict[str, Any]:
    """Return the cells of a module by kind, and the CPU seconds of its synthesis."""
    if black:
        return _cells(text, module, family, black)
    if family not in ("gowin", "xc7"):
        try:
            return _cells(text, module, family, black)
        except ToolError as error:
            print(f"{module[1:]}: {str(error).strip()}; again with a flip-flop at each port", flush=True)
    harness, taken = registered(modules(text)[module], module)
    cells = _cells(text + harness, "\\harness", family, black)
    return {**cells, "flip_flops": cells["flip_flops"] - taken}


def _cells(text: str, top: str, family: str, black: list[str], *, target: bool = True) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "design.il").write_text(text, encoding="utf-8")
        script = _SYNTHESIS[family].replace("{top}", top).removeprefix("" if target else _TARGET.get(family, ""))
        hidden = "".join(f"blackbox {name}; " for name in black)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_tool("yosys", ["-q", "-p", f"read_rtlil design.il; {HIDE_PARTS}; {hidden}{script}"], folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cells = count_cells(read_json(folder / "stat.json"), family)
        if family == "ecp5":
            absorb_registers(folder / "cells.json")
            cells["luts"] -= pack_carry_inputs(folder / "cells.json") + pair_luts(folder / "cells.json")
    return {**cells, "cpu_seconds": round(after.ru_utime - before.ru_utime, 1)}


def values_of(config: Config) -> dict[str, Any]:
    """Return the values of a configuration that differ from their defaults, without its name."""
    return {field.name: value for field in fields(config)
            if (value := asdict(config)[field.name]) != field.default and field.name != "name"}


def elaborate(config: Config, family: str) -> str:
    """Return the RTLIL of a whole machine."""
    # On an iCE40 only the serial machine fits, with memories made for it.
    top: Any = SerialCore(config, SpramCells()) if family == "ice40" and config.design == "serial" else machine(config)
    ports = [Value.cast(value) for _path, _member, value in top.signature.flatten(top)]
    start = time.monotonic()
    text: str = _rtlil.convert(top, name=_TOP, ports=ports, emit_src=False)
    print(f"{config.name}: elaborated in {time.monotonic() - start:.0f} s", flush=True)
    return text


def stale(row: dict[str, Any], family: str) -> list[str]:
    """Return the units of a recorded machine whose sources have changed."""
    config = Config.from_mapping(row["config"], "record")
    found = units(modules(elaborate(config, family)), config.design, family)
    return [name for name, _module, source in found if row["units"].get(name) != source]


def record(config: Config, family: str, only: list[str], held: bool = False) -> None:
    """Synthesize the units of a configuration that are not in the record, shortest text first, and record them.

    `held` marks a new machine as not used by the fit of boards/resources.
    """
    text = elaborate(config, family)
    parts = modules(text)
    everything = list(units(parts, config.design, family))
    below = {module for name, module, _ in everything if name != _TOP}
    for name, module, source in sorted(everything, key=lambda unit: len(parts[unit[1]])):
        if only and name not in only:
            continue
        known = load()
        cells = known.setdefault(family, {"cells": {}, "machines": []})["cells"]
        if source not in cells:
            black = sorted(below) if name == _TOP and config.design != "serial" else []
            wanted = text if black else "".join(part for other, part in parts.items()
                                                if other == module or other.startswith(module + "."))
            found = synthesize(wanted, module, family, black)
            known = load()
            cells = known.setdefault(family, {"cells": {}, "machines": []})["cells"]
            cells[source] = found
            print(f"{config.name} {name}: {cells[source]}", flush=True)
        machines = known[family]["machines"]
        values = values_of(config)
        row = next((row for row in machines if row["config"] == values), None)
        if row is None:
            row = {"config": values, "units": {}, **({"held": True} if held else {})}
            machines.append(row)
        row["units"][name] = source
        write(known)


def record_board(board: Board, memory: Memory) -> None:
    """Synthesize a whole board with a memory and record its cells."""
    with tempfile.TemporaryDirectory() as folder:
        cells = dict(synthesize_board(board, memory, Path(folder)))
    print(f"{board.name} with {memory.name}: {cells}", flush=True)
    keep_board(board, memory, cells)


def keep_board(board: Board, memory: Memory, cells: dict[str, float]) -> None:
    """Write the cells of a whole board into the record, replacing earlier ones."""
    known = load()
    rows = [row for row in known.get("boards", ()) if (row["board"], row["memory"]) != (board.name, memory.name)]
    rows.append({"board": board.name, "memory": memory.name, "config": values_of(board.config), "cells": cells})
    known["boards"] = sorted(rows, key=lambda row: (row["board"], row["memory"]))
    write(known)


def load() -> dict[str, Any]:
    """Return the record by family."""
    return json.loads(_RECORD.read_text(encoding="utf-8")) if _RECORD.exists() else {}


def write(known: dict[str, Any]) -> None:
    """Write one line per machine, and per unit in the order of hashes. Units of outdated sources are dropped."""
    families = []
    rows = known.pop("boards", [])
    for family, values in sorted(known.items()):
        cells = ",\n".join(f'   "{key}": {json.dumps(value)}' for key, value in sorted(values["cells"].items())
                          if any(key in row["units"].values() for row in values["machines"]))
        machines = ",\n".join(f"   {json.dumps(row, sort_keys=True)}" for row in values["machines"])
        families.append(f' "{family}": {{\n  "cells": {{\n{cells}\n  }},\n  "machines": [\n{machines}\n  ]\n }}')
    families.append(' "boards": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]")
    _RECORD.write_text("{\n" + ",\n".join(families) + "\n}\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("configs", nargs="*", metavar="CONFIG", help=f"{', '.join(PRESETS)}, a TOML file, or "
                        "ROWSxCOLSxLANES[,key=value...]")
    parser.add_argument("--family", choices=_SYNTHESIS, default="ecp5", help="(default: %(default)s)")
    parser.add_argument("--unit", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--held", action="store_true", help="keep these machines out of the fit of the model")
    parser.add_argument("--kept-out", action="store_true", help="the family's machines of KEPT_OUT in draws.py, too")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="the first N machines of draws.py, too")
    parser.add_argument("--whole", action="store_true", help="print the cells of each CONFIG as one, record nothing")
    parser.add_argument("--again", action="store_true", help="every machine of the record of all families, too")
    parser.add_argument("--stale", action="store_true", help="name the units of the record whose sources have changed; "
                        "exit code 1 when there are some")
    parser.add_argument("--board", help="a whole board instead")
    parser.add_argument("--memory", help="the board's memory (default: its first)")
    return parser.parse_args()


def _recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    for family, values in load().items():
        if family != "boards":
            yield from ((family, row) for row in values["machines"])


def main() -> int:
    """Run the command; return its exit code."""
    options = _options()
    try:
        if options.stale:
            changed = [f"{family} {row['config']}: {', '.join(names)}" for family, row in _recorded()
                       if (names := stale(row, family))]
            print("\n".join(changed) or "nothing has changed")
            return 1 if changed else 0
        if options.board is not None:
            board = find_board(options.board)
            record_board(board, find_memory(board, options.memory))
        for config in [parse_config(text) for text in options.configs]:
            if options.whole:
                print(f"{config.name}: {whole(config, options.family)}", flush=True)
                continue
            record(config, options.family, options.unit, options.held)
        for text in KEPT_OUT.get(options.family, ()) if options.kept_out else ():
            record(parse_config(text), options.family, options.unit, held=True)
        for number in range(options.draw):
            record(drawn(number), options.family, options.unit, is_held(number))
        for family, row in list(_recorded()) if options.again else ():
            record(Config.from_mapping(row["config"], f"{family} {row['config']}"), family, options.unit)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TqError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
