"""The compiler's stages, each with its folder and its result."""

from svg import ARRAY, CONTROL, MEMORY, MOVE, MUTED, PAD, VECTOR, Drawing

__all__ = ["STAGES", "stages"]

#: Folder, its work in two lines, its result.
STAGES = (
    ("rewrite", "fold constants,", "apply patterns", "model"),
    ("lower", "operators become", "integers", "layers"),
    ("specialize", "layers fitted to", "the machine", "layers"),
    ("plan", "addresses, rectangles,", "strips, cascades", "places"),
    ("emit", "rectangles become", "operations", "operations"),
    ("stream", "order, tokens,", "encoding", "commands"),
)
_FILLS = (MEMORY, MEMORY, PAD, PAD, ARRAY, ARRAY)
_WIDTH, _GAP, _LEFT, _TOP, _HEIGHT = 124, 28, 38, 110, 92


def stages() -> str:
    """Return the chain of stages, with the modules that it uses below it."""
    d = Drawing(960, 430, "The compiler's stages: rewrite, lower, specialize, plan, emit, stream; cost times the "
                          "operations and search tries other plans")
    d.words(_LEFT, 40, "model.tflite", size=13, anchor="start", code=True)
    d.words(_left(5) + _WIDTH, 40, "model.tqm", size=13, anchor="end", code=True)
    d.arrow((_LEFT + _WIDTH / 2, 48), (_LEFT + _WIDTH / 2, _TOP))
    d.words(_LEFT + _WIDTH / 2 + 8, 84, "model", size=12, color=MUTED, anchor="start")
    d.arrow((_left(5) + _WIDTH / 2, _TOP), (_left(5) + _WIDTH / 2, 48))
    d.words(_left(5) + _WIDTH / 2 - 8, 76, f"{STAGES[-1][3]}, checked by verify", size=12, color=MUTED, anchor="end")
    d.words(480, 40, "each box is a folder of compiler/; compile.py calls them in this order", size=12, color=MUTED)
    for number, (name, first, second, gives) in enumerate(STAGES):
        x = _left(number)
        d.rect(x, _TOP, _WIDTH, _HEIGHT, fill=_FILLS[number])
        d.words(x + _WIDTH / 2, _TOP + 30, name, size=15, bold=True)
        d.words(x + _WIDTH / 2, _TOP + 53, first, size=12)
        d.words(x + _WIDTH / 2, _TOP + 69, second, size=12)
        if number + 1 < len(STAGES):
            middle = _TOP + _HEIGHT / 2
            d.arrow((x + _WIDTH, middle), (x + _WIDTH + _GAP, middle))
            d.words(x + _WIDTH + _GAP / 2, _TOP - 8, gives, size=12, color=MUTED)
    _below(d)
    return d.text()


def _left(number: int) -> float:
    return _LEFT + number * (_WIDTH + _GAP)


def _below(d: Drawing) -> None:
    right = _left(5) + _WIDTH
    d.box(_left(4), 240, right - _left(4), 56, "cost", ["cycles of all operations, estimated"], fill=VECTOR)
    d.arrow((_left(5) + _WIDTH / 2, _TOP + _HEIGHT), (_left(5) + _WIDTH / 2, 240))
    d.box(_left(2), 240, _left(3) + _WIDTH - _left(2), 56, "search.py", ["other cuts of whole layers"], fill=CONTROL)
    d.arrow((_left(4), 268), (_left(3) + _WIDTH, 268))
    d.arrow((_left(3) + _WIDTH / 2, 240), (_left(3) + _WIDTH / 2, _TOP + _HEIGHT))
    d.box(_LEFT, 240, _left(1) + _WIDTH - _LEFT, 56, "programs", ["micro-programs of the vector unit"], fill=CONTROL)
    d.arrow((_left(1) + _WIDTH / 2, 240), (_left(1) + _WIDTH / 2, _TOP + _HEIGHT))
    d.rect(_LEFT, 326, right - _LEFT, 34, fill=CONTROL)
    d.words(480, 348, "ir: the records that stages exchange (layers, strides, windows)", size=13)
    third = (right - _LEFT - 2 * 16) / 3
    for number, (name, what) in enumerate((("isa/", "configuration, commands, latencies"),
                                           ("model/", "the verified graph"),
                                           ("sim/golden/", "every operator's integers"))):
        x = _LEFT + number * (third + 16)
        d.rect(x, 376, third, 34, fill=MOVE)
        d.words(x + third / 2, 398, f"{name}  {what}", size=12)
