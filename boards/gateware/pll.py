"""PLLs: from the board's oscillator to the clocks of a design, exact to the hertz or an error.

`plan_ecp5`, `plan_xilinx` and `plan_ice40` compute the dividers; the components instantiate the vendors' cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from amaranth import Elaboratable, Instance, Module, Signal
from amaranth.hdl import IOValue

from tq_hw.model.errors import OptionError

__all__ = ["Clock", "Ecp5Pll", "Ice40Pll", "PllPlan", "XilinxPll", "plan_ecp5", "plan_ice40", "plan_xilinx"]

_MHZ = 1_000_000
#: Outputs of an ECP5 PLL, by Lattice's names.
_ECP5_OUTPUTS = ("P", "S", "S2", "S3")
#: An iCE40 PLL's loop filter by the upper end of the phase detector's clock, in MHz.
_ICE40_FILTERS = ((17, 1), (26, 2), (44, 3), (66, 4), (101, 5), (133, 6))


@dataclass(frozen=True)
class Clock:
    """A requested clock: `hz`, an integer, and its lag to the first clock, in degrees of its own period."""

    hz: int
    phase_degrees: int = 0


@dataclass(frozen=True)
class PllPlan:
    """Dividers: the VCO runs at input / `input_div` * `multiply`, each output at VCO / its `div`.

    Members
    -------
    divs : one per clock, in order
    phase_eighths : lag of each clock in eighths of a VCO period
    feedback : the first clock's share of `multiply` (ECP5, whose loop closes over it); 1 elsewhere
    """

    input_hz: int
    input_div: int
    multiply: int
    divs: tuple[int, ...]
    phase_eighths: tuple[int, ...]
    feedback: int = 1

    @property
    def oscillator_hz(self) -> Fraction:
        """The rate of the PLL's VCO."""
        return Fraction(self.input_hz * self.multiply, self.input_div)

    @property
    def outputs_hz(self) -> tuple[Fraction, ...]:
        """The rate of each clock."""
        return tuple(self.oscillator_hz / div for div in self.divs)


@dataclass(frozen=True)
class _Limits:
    """Limits of a PLL; rates in Hz.

    Members
    -------
    multiplies : of the feedback divider; with `loop_over_first`, the first clock's divider is a factor too
    lags : clocks may lag the first one
    """

    name: str
    outputs: int
    input_divs: Sequence[int]
    multiplies: Sequence[int]
    divs: Sequence[int]
    detector_hz: tuple[int, int]
    oscillator_hz: tuple[int, int]
    loop_over_first: bool = False
    lags: bool = True


_ECP5 = _Limits("EHXPLLL", 4, range(1, 129), range(1, 129), range(1, 129), (10 * _MHZ, 400 * _MHZ),
                (400 * _MHZ, 800 * _MHZ), loop_over_first=True)
#: Speed grade -1, the slowest.
_XILINX = _Limits("PLLE2_ADV", 6, range(1, 57), range(2, 65), range(1, 129), (19 * _MHZ, 450 * _MHZ),
                  (800 * _MHZ, 1600 * _MHZ))
_ICE40 = _Limits("SB_PLL40_PAD", 1, range(1, 17), range(1, 129), (2, 4, 8, 16, 32, 64), (10 * _MHZ, 133 * _MHZ),
                 (533 * _MHZ, 1066 * _MHZ), lags=False)


def _settings(limits: _Limits, input_hz: int, clocks: Sequence[Clock]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield input divider, multiplier and output dividers that give the clocks."""
    for input_div in limits.input_divs:
        if not limits.detector_hz[0] * input_div <= input_hz <= limits.detector_hz[1] * input_div:
            continue
        for multiply in range(1, limits.multiplies[-1] * limits.divs[-1] + 1):
            oscillator = Fraction(input_hz * multiply, input_div)
            if oscillator > limits.oscillator_hz[1]:
                break
            divs = tuple(round(oscillator / clock.hz) for clock in clocks)
            if oscillator >= limits.oscillator_hz[0] and all(
                    div in limits.divs and round(oscillator / div) == clock.hz
                    for div, clock in zip(divs, clocks, strict=True)):
                yield input_div, multiply, divs


def _phases(clocks: Sequence[Clock], divs: Sequence[int]) -> tuple[int, ...] | None:
    """Return the lags in eighths of a VCO period, None if one is not an integer."""
    eighths = [Fraction(8 * div * clock.phase_degrees, 360) for clock, div in zip(clocks, divs, strict=True)]
    return tuple(int(lag) for lag in eighths) if all(lag.denominator == 1 for lag in eighths) else None


def _check(limits: _Limits, input_hz: int, clocks: Sequence[Clock]) -> None:
    if not 1 <= len(clocks) <= limits.outputs:
        raise OptionError(f"{limits.name} makes 1 to {limits.outputs} clocks, not {len(clocks)}")
    for clock in clocks:
        if clock.hz <= 0 or not 0 <= clock.phase_degrees < 360:
            raise OptionError(f"{limits.name}: a clock has a positive rate and a phase of 0 to 359 degrees, not "
                              f"{clock.hz} Hz and {clock.phase_degrees} degrees")
    if input_hz <= 0:
        raise OptionError(f"{limits.name}: the input's rate must be positive, not {input_hz} Hz")


def _refuse(limits: _Limits, input_hz: int, clocks: Sequence[Clock]) -> OptionError:
    wanted = ", ".join(f"{clock.hz / _MHZ:g} MHz" + f" at {clock.phase_degrees} degrees" * (clock.phase_degrees != 0)
                       for clock in clocks)
    return OptionError(f"{limits.name} cannot make {wanted} from {input_hz / _MHZ:g} MHz exactly; choose rates that "
                       f"divide one oscillator rate of {limits.oscillator_hz[0] // _MHZ} to "
                       f"{limits.oscillator_hz[1] // _MHZ} MHz, a multiple of a divider of the input")


def _plan(limits: _Limits, input_hz: int, clocks: Sequence[Clock]) -> PllPlan:
    """Return the first dividers that give rates and lags exactly; OptionError if there are none."""
    _check(limits, input_hz, clocks)
    for input_div, multiply, divs in _settings(limits, input_hz, clocks):
        phases = _phases(clocks, divs)
        feedback = divs[0] if limits.loop_over_first else 1
        if (multiply % feedback == 0 and multiply // feedback in limits.multiplies and phases is not None
                and (limits.lags or not any(phases))):
            return PllPlan(input_hz, input_div, multiply, divs, phases, feedback)
    raise _refuse(limits, input_hz, clocks)


def plan_ecp5(input_hz: int, clocks: Sequence[Clock]) -> PllPlan:
    """Return dividers of an EHXPLLL, whose loop closes over the first clock; OptionError if there are none."""
    return _plan(_ECP5, input_hz, clocks)


def plan_xilinx(input_hz: int, clocks: Sequence[Clock]) -> PllPlan:
    """Return dividers of a PLLE2_ADV; OptionError if there are none."""
    return _plan(_XILINX, input_hz, clocks)


def plan_ice40(input_hz: int, clocks: Sequence[Clock]) -> PllPlan:
    """Return dividers of an SB_PLL40_PAD with one clock, no phase; OptionError if there are none."""
    return _plan(_ICE40, input_hz, clocks)


class Ecp5Pll(Elaboratable):
    """EHXPLLL. `input` is the oscillator's clock, `outputs` one signal per clock, `locked` high when stable."""

    def __init__(self, plan: PllPlan) -> None:
        self.plan = plan
        self.input, self.locked = Signal(), Signal()
        self.outputs = [Signal(name=f"pll_clk{n}") for n in range(len(plan.divs))]

    def elaborate(self, platform: object) -> Module:
        """One cell."""
        m = Module()
        plan = self.plan
        # `a_` parameters are attributes that tell the tools the rates and the filter.
        parts: dict[str, object] = {
            "a_FREQUENCY_PIN_CLKI": f"{plan.input_hz / _MHZ:g}", "a_ICP_CURRENT": "12", "a_LPF_RESISTOR": "8",
            "a_MFG_ENABLE_FILTEROPAMP": "1", "a_MFG_GMCREF_SEL": "2",
            "p_CLKI_DIV": plan.input_div, "p_CLKFB_DIV": plan.multiply // plan.feedback, "p_FEEDBK_PATH": "CLKOP",
            "i_CLKI": self.input, "i_CLKFB": self.outputs[0], "i_RST": 0, "i_STDBY": 0, "o_LOCK": self.locked,
        }
        for name, div, lag, hz, output in zip(_ECP5_OUTPUTS, plan.divs, plan.phase_eighths, plan.outputs_hz,
                                              self.outputs, strict=False):
            parts |= {
                f"p_CLKO{name}_ENABLE": "ENABLED", f"p_CLKO{name}_DIV": div, f"p_CLKO{name}_CPHASE": div - 1 + lag // 8,
                f"p_CLKO{name}_FPHASE": lag % 8, f"o_CLKO{name}": output,
                f"a_FREQUENCY_PIN_CLKO{name}": f"{float(hz) / _MHZ:g}",
            }
        m.submodules.pll = Instance("EHXPLLL", **parts)
        return m


class XilinxPll(Elaboratable):
    """PLLE2_ADV, each output on a global buffer. Members as of `Ecp5Pll`."""

    def __init__(self, plan: PllPlan) -> None:
        self.plan = plan
        self.input, self.locked = Signal(), Signal()
        self.outputs = [Signal(name=f"pll_clk{n}") for n in range(len(plan.divs))]

    def elaborate(self, platform: object) -> Module:
        """One cell and its buffers."""
        m = Module()
        plan = self.plan
        loop = Signal()
        parts: dict[str, object] = {
            "p_CLKIN1_PERIOD": 1e9 / plan.input_hz, "p_DIVCLK_DIVIDE": plan.input_div, "p_CLKFBOUT_MULT": plan.multiply,
            "p_STARTUP_WAIT": "FALSE", "p_REF_JITTER1": 0.01, "i_CLKIN1": self.input, "i_CLKFBIN": loop,
            "o_CLKFBOUT": loop, "i_RST": 0, "i_PWRDWN": 0, "o_LOCKED": self.locked,
        }
        for number, (div, lag, output) in enumerate(zip(plan.divs, plan.phase_eighths, self.outputs, strict=True)):
            raw = Signal(name=f"pll_raw{number}")
            parts |= {f"p_CLKOUT{number}_DIVIDE": div, f"p_CLKOUT{number}_PHASE": 45.0 * lag / div,
                      f"o_CLKOUT{number}": raw}
            m.submodules[f"buffer{number}"] = Instance("BUFG", i_I=raw, o_O=output)
        m.submodules.pll = Instance("PLLE2_ADV", **parts)
        return m


class Ice40Pll(Elaboratable):
    """SB_PLL40_PAD: the clock's pin `pad` leads only to the PLL. Other members as of `Ecp5Pll`."""

    def __init__(self, plan: PllPlan, pad: IOValue) -> None:
        self.plan, self._pad = plan, pad
        self.locked = Signal()
        self.outputs = [Signal(name="pll_clk0")]

    def elaborate(self, platform: object) -> Module:
        """One cell."""
        m = Module()
        plan = self.plan
        detector_mhz = plan.input_hz / plan.input_div / _MHZ
        m.submodules.pll = Instance(
            "SB_PLL40_PAD", p_FEEDBACK_PATH="SIMPLE", p_PLLOUT_SELECT="GENCLK", p_DIVR=plan.input_div - 1,
            p_DIVF=plan.multiply - 1, p_DIVQ=plan.divs[0].bit_length() - 1,
            p_FILTER_RANGE=next(number for most, number in _ICE40_FILTERS if detector_mhz <= most),
            i_RESETB=1, i_BYPASS=0, io_PACKAGEPIN=self._pad, o_PLLOUTGLOBAL=self.outputs[0], o_LOCK=self.locked)
        return m
