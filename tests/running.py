"""What tests left running."""

import gc

from tq_hw.sim.oracles import Oracle


def running_oracles() -> list[str]:
    """Name the engines of oracles that nobody has closed; one that nobody has any more warns by itself."""
    return sorted(each.engine for each in gc.get_objects() if type(each) is Oracle and each.is_running)
