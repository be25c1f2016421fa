"""The part of a layer's input that a rectangle of its output reads."""


from tq_hw.compiler.ir.layers import Layer, Mac, MaxPool

__all__ = ["in_span", "window", "window_regions"]


def in_span(out0: int, out1: int, stride: int, taps: int, pad: int, size: int) -> tuple[int, int]:
    """Input rows (or columns) inside the image that outputs [out0, out1) read; at least one."""
    low, high = out0 * stride - pad, (out1 - 1) * stride - pad + taps
    low, high = max(0, min(low, size - 1)), min(size, max(high, 1))
    return low, max(high, low + 1)


def window(layer: Layer) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, extent and padding of the layer's window over its input."""
    if isinstance(layer, Mac):
        extent = tuple((k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation, strict=True))
        return layer.stride, (extent[0], extent[1]), layer.pad
    if isinstance(layer, MaxPool):
        return layer.stride, layer.kernel, layer.pad
    return (1, 1), (1, 1), (0, 0)


def window_regions(out_size: int, in_size: int, kernel: int, stride: int, pad: int) -> list[tuple[int, int, int, int]]:
    """Split outputs into ranges whose windows have the same taps: (first, last + 1, first tap, last tap + 1)."""
    regions: list[tuple[int, int, int, int]] = []
    for o in range(out_size):
        start = o * stride - pad
        taps = (max(0, -start), min(kernel, in_size - start))
        if regions and regions[-1][2:] == taps:
            regions[-1] = (regions[-1][0], o + 1, *taps)
        else:
            regions.append((o, o + 1, *taps))
    return regions
