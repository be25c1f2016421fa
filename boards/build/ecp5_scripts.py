"""What Yosys is told beside `synth_ecp5`, before and after it."""

__all__ = ["ecp5_scripts"]

#: Names that Amaranth gives the accelerator's module, with all that it holds.
_ACCELERATOR = "*.accelerator.accelerator"
#: The flip-flops of activations: those of a row are equal from column to column, but one for all is far from most.
_ACTIVATIONS = "w:activation_* %ci1:+$dff[Q] t:$dff %i"
#: Other names for parts of a wire: to Yosys, what ABC9 gives back as `sum[3]` is bit 3 of the wire `sum` and the first
#: bit of its part of 32 bits that Amaranth names `sum[3]`.
_PARTS = "w:*[[]*"


def ecp5_scripts(then: str) -> dict[str, str]:
    """Return the options of Amaranth's platform that hold them; `then` is a command at the end.

    The accelerator's logic is mapped by itself: a module's slowest path is all the haste that its others get, and a
    DRAM's controller, at a lower rate, has the slowest of all. What the accelerator gives comes from registers.
    """
    return {"script_after_read": f"rename -hide {_PARTS}\n"
                                 f"setattr -mod -set keep_hierarchy 1 {_ACCELERATOR}\n"
                                 f"setattr -set keep 1 {_ACTIVATIONS}",
            "script_after_synth": f"setattr -mod -unset keep_hierarchy *; flatten; opt_clean; {then}"}
