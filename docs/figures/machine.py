"""The machine: its units, the data between them, and the file of each."""

from svg import ARRAY, CONTROL, INK, MEMORY, MOVE, MUTED, PAD, VECTOR, Drawing

from tq_hw.isa.config import BANKS

__all__ = ["machine"]


def machine() -> str:
    """Return the block diagram."""
    d = Drawing(960, 600, "Block diagram of the accelerator: commands come from memory through fetch and unit control; "
                          "load, array, vector and store work around a scratchpad of four banks")
    d.box(30, 24, 900, 48, "System memory", ["image: commands, weights, parameters  ·  arena: activations  ·  state"],
          fill=MEMORY)
    d.rect(30, 104, 900, 26, fill="#f7f9fb", radius=3)
    d.words(480, 122, "AXI4, bursts of at most 256 bytes", size=12)
    d.words(918, 122, "hdl/bus/", size=11, color=MUTED, anchor="end", code=True)
    d.arrow((480, 72), (480, 104), both=True)
    _commands(d)
    _units(d)
    return d.text()


def _commands(d: Drawing) -> None:
    d.arrow((140, 130), (140, 166))
    d.words(150, 152, "commands", size=12, color=MUTED, anchor="start")
    d.box(30, 166, 220, 56, "Fetch", code="hdl/control/fetch.py", fill=CONTROL)
    d.arrow((140, 222), (140, 262))
    d.words(150, 247, "4 queues of 512 words", size=12, color=MUTED, anchor="start")
    d.box(30, 262, 220, 56, "Unit control, one a unit", code="hdl/control/unit_control.py", fill=CONTROL)
    d.arrow((140, 318), (140, 358), both=True)
    d.words(150, 343, "wait, post", size=12, color=MUTED, anchor="start")
    d.box(30, 358, 220, 56, "Tokens, 12 counters", code="hdl/control/tokens.py", fill=CONTROL)
    d.box(30, 454, 220, 56, "Registers, status, counters", code="hdl/control/registers.py", fill=CONTROL)
    d.arrow((140, 546), (140, 510), both=True)
    d.words(140, 564, "host: register bus, interrupt", size=12, color=MUTED)
    d.arrow((250, 290), (298, 290), dash="5 4")
    d.words(274, 281, "run", size=12, color=MUTED)


def _units(d: Drawing) -> None:
    d.rect(298, 150, 632, 414, dash="5 4", fill="#fcfdfe", radius=8)
    d.words(914, 553, "four units, each takes its operations in order", size=12, color=MUTED, anchor="end")
    d.box(340, 176, 180, 56, "Load", code="hdl/dma/load.py", fill=MOVE)
    d.box(708, 176, 180, 56, "Store", code="hdl/dma/store.py", fill=MOVE)
    d.arrow((430, 130), (430, 176))
    d.arrow((798, 176), (798, 130))
    d.words(440, 168, "weights, activations", size=12, color=MUTED, anchor="start")
    d.words(808, 168, "results", size=12, color=MUTED, anchor="start")

    d.rect(340, 274, 548, 86, fill=PAD)
    d.words(352, 294, "Scratchpad", size=14, bold=True, anchor="start")
    d.words(876, 294, "hdl/scratchpad.py", size=11, color=MUTED, anchor="end", code=True)
    for bank in range(BANKS):
        d.rect(352 + 132 * bank, 306, 128, 42, fill="#fffdf3", radius=3)
        d.words(416 + 132 * bank, 324, f"bank {bank}", size=12)
        d.words(416 + 132 * bank, 340, f"words {bank}, {bank + BANKS}, {bank + 2 * BANKS}, ...", size=11, color=MUTED)
    d.arrow((430, 232), (430, 274))
    d.words(440, 257, "words", size=12, color=MUTED, anchor="start")
    d.arrow((798, 274), (798, 232))
    d.words(808, 257, "words", size=12, color=MUTED, anchor="start")

    d.box(340, 440, 180, 88, "Array", ["multiplies, adds"], code="hdl/array/", fill=ARRAY)
    d.box(570, 440, 88, 88, "Sums", ["int32", "buffers"], fill=ARRAY)
    d.box(708, 440, 180, 88, "Vector unit", ["requantizes, other operators"], code="hdl/vector/", fill=VECTOR)
    d.arrow((390, 360), (390, 440), color=INK)
    d.words(398, 396, "3 feeds,", size=12, color=MUTED, anchor="start")
    d.words(398, 411, "one word each", size=12, color=MUTED, anchor="start")
    d.arrow((500, 360), (500, 440))
    d.words(508, 404, "weights", size=12, color=MUTED, anchor="start")
    d.arrow((520, 484), (570, 484), color=INK)
    d.arrow((658, 484), (708, 484), color=INK)
    d.arrow((760, 360), (760, 440))
    d.words(752, 396, "streams A, B,", size=12, color=MUTED, anchor="end")
    d.words(752, 411, "parameters", size=12, color=MUTED, anchor="end")
    d.arrow((840, 440), (840, 360), color=INK)
    d.words(848, 404, "results", size=12, color=MUTED, anchor="start")
    d.line((312, 545), (336, 545), color=INK)
    d.words(342, 549, "path of a convolution", size=12, color=MUTED, anchor="start")
