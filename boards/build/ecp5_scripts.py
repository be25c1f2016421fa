"""Yosys commands before and after `synth_ecp5`."""

from tq_hw.boards.build.part_names import HIDE_PARTS

__all__ = ["ecp5_scripts", "ecp5_synthesis"]

#: Amaranth's names of the accelerator's module and everything in it.
_ACCELERATOR = "*.accelerator.accelerator"
#: Activation flip-flops of a row are equal in every column; merged into one, it would be far from most of its readers.
_ACTIVATIONS = "w:activation_* %ci1:+$dff[Q] t:$dff %i"
#: Maps to LUTs, takes the LUTs apart and maps again, twice: bare n9x8 has fewer LUTs, and its longest path stays as
#: long. That of ulx3s_85f, with compressed weights, gets a LUT longer.
_MAP = ";&st;".join(["&dch,-x;&if,{C},{W},{D},{R},-v;&mfs"] * 3)


def ecp5_synthesis(top: str, options: str = "") -> str:
    """Return the commands that map a design to few cells of an ECP5; `options` are passed to `synth_ecp5`."""
    synth = " ".join(("synth_ecp5", *([options] if options else []), f"-top {top}"))
    return f'{HIDE_PARTS}; scratchpad -set abc9.script "+&scorr;&sweep;&dc2;{_MAP}"; {synth}'


def ecp5_scripts(then: str) -> dict[str, str]:
    """Return these scripts as options of Amaranth's platform; `then` is a command at the end.

    The accelerator's logic is mapped separately. ABC9 optimizes a module only as far as its slowest path requires, and
    the slowest path is in the DRAM controller, which runs at a lower rate. The accelerator's outputs are registers.
    """
    return {"script_after_read": f"{HIDE_PARTS}\n"
                                 f"setattr -mod -set keep_hierarchy 1 {_ACCELERATOR}\n"
                                 f"setattr -set keep 1 {_ACTIVATIONS}",
            "script_after_synth": f"setattr -mod -unset keep_hierarchy *; flatten; opt_clean; {then}"}
