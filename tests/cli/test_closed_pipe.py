"""A reader that closes the pipe, however early, is not an error."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", ["--help", "--version", "boards", "configs", "ops", "resources", "doctor",
                                       "compile --help"])
def test_a_reader_that_is_gone_before_the_first_line_is_no_failure(arguments: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "tq_hw", *arguments.split()], stdout=writer,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_command_line_is_one_without_a_reader_too() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "tq_hw", "resources", "--config", "n88"], stdout=writer,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    finally:
        os.close(writer)
    assert done.returncode == 2
    assert done.stderr.startswith("tq-hw: ")
