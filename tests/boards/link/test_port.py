"""Serial ports that cannot be opened."""

import os

import pytest

from tq_hw.boards.link.port import LinkError, SerialPort


def test_a_port_that_does_not_exist_is_named() -> None:
    with pytest.raises(LinkError, match="^port /dev/nothing-here cannot be opened: "):
        SerialPort("/dev/nothing-here", 115_200)
    with pytest.raises(LinkError, match="^port /dev/null cannot be opened: it is not a serial port; `tq-hw doctor` "):
        SerialPort("/dev/null", 115_200)


def test_a_baud_rate_beyond_all_ports() -> None:
    master, slave = os.openpty()
    with pytest.raises(LinkError, match=f"^port {os.ttyname(slave)} cannot be opened: signed integer is greater than"):
        SerialPort(os.ttyname(slave), 10**12)
    os.close(slave)
    os.close(master)
