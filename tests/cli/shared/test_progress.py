"""The meter of many tasks: what it says of their rate."""

import pytest

from tq_hw.cli.shared import progress


def test_the_rate_is_that_of_the_tasks_after_the_first(monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.Meter() as meter:
        for done, seconds in ((1, 0.0), (2, 9.0), (3, 11.0), (4, 1.0), (24, 10.0)):
            now += seconds
            meter.seen(done, 100, "machines estimated")
        assert capsys.readouterr().err == ("3 of 100 machines estimated, 0.1 per second, 970 s left\n"
                                           "24 of 100 machines estimated, 0.7 per second, 102 s left\n")
        # A resumed search has done some tasks before.
        now += 1.0
        meter.seen(90, 100, "machines confirmed")
        now += 12.0
        meter.seen(90, 100, "machines confirmed")
        assert capsys.readouterr().err == "90 of 100 machines confirmed\n"
