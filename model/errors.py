"""The errors a user can meet, one class per exit code of the command line.

TqError
  + ModelError        2  the file breaks the format or the specification
  + UnsupportedError  2  the file is legal, the operator or its parameters are not supported
  + OptionError       2  a bad option, configuration or input array
    + InputError      2  an operator has no result for these inputs
    + UnmetError      2  this model cannot have the sizes or the signature that were asked for
  + MismatchError     1  results differ
  + MissingToolError  3  a tool or package is missing
  + ToolError         4  a tool failed or a target was missed
  + DataflowError     4  the compiler refuses commands that it has made itself: a defect of tq-hw
  + DeviceError       5  the accelerator, a board or its link reported an error
"""

from typing import Self

__all__ = ["DataflowError", "DeviceError", "InputError", "MismatchError", "MissingToolError", "ModelError",
           "OptionError", "ToolError", "TqError", "UnmetError", "UnsupportedError", "last_words"]


class TqError(Exception):
    """Base of every error whose message is meant for the user.

    Members
    -------
    reason : what is wrong, and what would mend it
    offer : what tq-hw can do instead, as an end of the sentence; shown after the reason, "" where there is nothing
    """

    exit_code = 2

    def __init__(self, reason: str = "", offer: str = "") -> None:
        super().__init__(reason)
        self.reason, self.offer = reason, offer

    def __str__(self) -> str:
        return self.reason + self.offer

    def reworded(self, reason: str) -> Self:
        """Return an error of the same class and offer that gives another reason."""
        return type(self)(reason, self.offer)


class ModelError(TqError):
    """The model file breaks the format or the int8 specification."""


class UnsupportedError(TqError):
    """A legal operator or parameter that is not supported; names operator, index, reason, remedy."""


class OptionError(TqError):
    """A bad option value, configuration, board name, or input array."""


class InputError(OptionError):
    """Values of inputs for which an operator has no result, and the engines refuse to run; names the operator."""


class UnmetError(OptionError):
    """Sizes or a signature that this model cannot have, but another one may."""


class MismatchError(TqError):
    """Two engines disagree."""

    exit_code = 1


class MissingToolError(TqError):
    """A program or package is not installed; the message says how to install it."""

    exit_code = 3


class ToolError(TqError):
    """An external tool failed, or a target was missed."""

    exit_code = 4


class DataflowError(TqError):
    """An operation of a program finds something else than the model says, or may find it too early: a defect of tq-hw.

    The message names the operator, the operation and its operand, the address, what should be there, what is there and
    who wrote it.
    """

    exit_code = 4


class DeviceError(TqError):
    """The accelerator stopped with an error status, or the link to a board failed."""

    exit_code = 5


def last_words(said: str, lines: int = 15) -> str:
    """Return the end of what a program said, for the message about its failure; of a traceback the error alone."""
    words = said.strip().splitlines()
    if not words:
        return "it printed nothing"
    if any(line.startswith("Traceback (most recent call last)") for line in words):
        return f"its last output: {words[-1]}"
    return "its last output:\n" + "\n".join(words[-lines:])
