"""Mixed models: accelerated parts on one of our engines, the host's operators in LiteRT."""

from tq_hw.sim.mixed.engine import MixedEngine, run_parts
from tq_hw.sim.mixed.host import HostRunner
from tq_hw.sim.mixed.parts import AcceleratedPart, HostPart, check_written, common_config, split

__all__ = ["AcceleratedPart", "HostPart", "HostRunner", "MixedEngine", "check_written", "common_config", "run_parts",
           "split"]
