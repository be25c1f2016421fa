"""Fuzzers and mutation runs in several processes or on a Dask cluster, a part of the inputs for each task.

    python benches/spread.py --scheduler tcp://HOST:8786 --part 1000 fuzz_models.py --inputs 100000 --models cases
    python benches/spread.py --jobs 2 --part 25 fuzz_graphs.py --graphs 1000 --config tiny
    python benches/spread.py --scheduler tcp://HOST:8786 mutation.py

Workers run the script of their own checkout, which must be the same (`tq_hw.work` refuses others). The output of a part
is printed when it ends. Files of findings stay on the worker; the number of an input reproduces them. The exit code is
the greatest of the parts.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mutation import chosen

from tq_hw.model.errors import OptionError, TqError
from tq_hw.work import Task, run_tasks, task_of

__all__ = ["main", "parts", "run_part"]

#: By script, the options for the number of the first input and for the count.
_NUMBERED = {"fuzz_graphs.py": ("--seed", "--graphs"), "fuzz_models.py": ("--first", "--inputs"),
             "fuzz_programs.py": ("--first", "--inputs")}
_MUTATION = "mutation.py"


def run_part(_blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a script of this computer's checkout; return its exit code and output."""
    spec = find_spec("tq_hw.isa")
    assert spec is not None and spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0]).resolve().parent
    script = root / "benches" / arguments["script"]
    if not script.is_file():
        raise OptionError(f"{script} is not there: fuzzers and mutation runs need a checkout, installed by pip -e")
    done = subprocess.run([sys.executable, str(script), *arguments["arguments"]], cwd=root, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return {"code": done.returncode, "out": done.stdout}


def _number(words: list[str], option: str, default: int | None) -> int:
    """Remove an option and its number from the words; return the number."""
    if option not in words:
        if default is None:
            raise OptionError(f"{option} is missing: how many inputs are there to be?")
        return default
    place = words.index(option)
    text = words[place + 1] if place + 1 < len(words) else ""
    if not text.isdecimal():
        raise OptionError(f"{option}: expected a number, found {text!r}")
    del words[place:place + 2]
    return int(text)


def parts(script: str, words: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yield the arguments of each part: `size` inputs of a fuzzer, or one mutant of a mutation run."""
    left = list(words)
    if script == _MUTATION:
        # Each part gets a mutant's whole name. Mutants whose names contain it run in the same part.
        yield from ([mutant.name] for mutant in chosen(left))
        return
    if script not in _NUMBERED:
        raise OptionError(f"{script}: expected one of {', '.join([*_NUMBERED, _MUTATION])}")
    option_first, option_count = _NUMBERED[script]
    count, first = _number(left, option_count, None), _number(left, option_first, 0)
    for begin in range(first, first + count, size):
        yield [*left, option_first, str(begin), option_count, str(min(size, first + count - begin))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, help="processes (default: one per processor)")
    parser.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="of a Dask cluster")
    parser.add_argument("--part", type=int, default=500, help="inputs of a task (default: %(default)s)")
    parser.add_argument("script", help=f"{', '.join([*_NUMBERED, _MUTATION])}")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="its options")
    options = parser.parse_args(arguments)
    try:
        tasks: dict[str, Task] = {}
        for words in parts(options.script, options.words, max(1, options.part)):
            task = task_of(run_part, b"", {"script": options.script, "arguments": words})
            tasks[task.key] = task
        codes: list[int] = []

        def seen(key: str, value: Any) -> None:
            codes.append(value["code"])
            print(f"{len(codes)} of {len(tasks)}: {' '.join(tasks[key].arguments['arguments'])}: exit code "
                  f"{value['code']}", flush=True)
            if value["code"] != 0:
                print(value["out"], flush=True)

        run_tasks(tasks.values(), None, jobs=options.jobs, scheduler=options.scheduler, seen=seen)
    except TqError as error:
        print(f"spread: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{len(codes)} parts, {sum(code != 0 for code in codes)} with findings or errors")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
