"""Every pass is observed once, in the documented order, and its result can be printed."""

from pathlib import Path

import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.passes import PASSES
from tq_hw.compiler.show import show
from tq_hw.isa.config import load_config
from tq_hw.isa.program import Program
from tq_hw.model.samples.networks import network

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_passes_are_observed_in_order(kind: str) -> None:
    seen: list[str] = []
    graph: list[Graph] = []

    def observe(name: str, result: object) -> None:
        seen.append(name)
        if isinstance(result, Graph):
            graph[:] = [result]
        lines = list(show(graph[0], result))
        assert lines and not any("\n" in line for line in lines)

    compile_model(network(kind, 0), load_config("tiny"), observe=observe)
    assert seen == list(PASSES)


def test_a_dump_names_layers_rectangles_operations_and_ports() -> None:
    texts: dict[str, list[str]] = {}
    graph: list[Graph] = []

    def observe(name: str, result: object) -> None:
        if isinstance(result, Graph):
            graph[:] = [result]
        texts[name] = list(show(graph[0], result))

    done = compile_model(network("unet", 0), load_config("n8"), observe=observe)
    assert len(graph[0].layers) == sum(line[:4].strip().isdigit() for line in texts["spread_rows"])
    assert [line.split(":", 1)[0] for line in texts["plan"]][:len(graph[0].layers)] == [
        line.split(":", 1)[0] for line in texts["spread_rows"] if line[:4].strip().isdigit()]
    operations = [line for line in texts["emit"] if line.startswith(("load", "array", "vector", "store"))]
    assert len(operations) == sum(len(those) for those in done.emitter.stream.by_unit.values())
    assert texts["verify"] == texts["emit"]
    program = done.program
    assert texts["assemble"][0] == (f"image {len(program.image)} bytes, commands {program.command_bytes} from "
                                    f"{program.command_offset}")


def test_what_is_no_result_has_no_text() -> None:
    with pytest.raises(TypeError, match="^no text for int$"):
        list(show(Graph((), (), ()), 1))


def test_the_page_names_every_pass() -> None:
    page = (ROOT / "docs" / "compiler.md").read_text(encoding="utf-8")
    for name, holds in PASSES.items():
        assert f"| `{name}` | {holds} |" in page


def test_an_observer_changes_nothing() -> None:
    model, config = network("ssd", 0), load_config("tiny")
    seen: list[object] = []
    program = compile_model(model, config, observe=lambda name, result: seen.append(result)).program
    assert program == compile_model(model, config).program
    assert isinstance(seen[-1], Program)
    assert seen[-1] is program
