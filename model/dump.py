"""Write a model as text that a person can read: one line for each operator."""

from tq_hw.model.graph import Model, Operator, OptionValue, Quantization, Subgraph, Tensor

__all__ = ["dump"]

_SHOWN_ELEMENTS = 16


def dump(model: Model) -> str:
    """Return the text form of `model`.

    A subgraph starts with its inputs and ends with its outputs; between them stands, for each operator, its index and
    name, what it reads, what it writes, and the options that it has. A tensor reads
    `%index dtype[shape] scale*(q-zero_point)`, with `=` in place of `%` for a constant and `$` for a variable. Short
    constants that have no scale (axes, shapes, paddings) are written out in braces.
    """
    lines = [f"model {model.name}"]
    for index, subgraph in enumerate(model.subgraphs):
        lines.append(f"subgraph {index}" + (f" {subgraph.name!r}" if subgraph.name else ""))
        lines += [f"  in  {_tensor(subgraph.tensors[at], with_name=True)}" for at in subgraph.inputs]
        lines += [f"  {_operator(subgraph, operator)}" for operator in subgraph.operators]
        lines += [f"  out {_tensor(subgraph.tensors[at], with_name=True)}" for at in subgraph.outputs]
    return "\n".join(lines) + "\n"


def _operator(subgraph: Subgraph, operator: Operator) -> str:
    reads = ", ".join("-" if at < 0 else _tensor(subgraph.tensors[at]) for at in operator.inputs)
    writes = ", ".join(_tensor(subgraph.tensors[at]) for at in operator.outputs)
    options = "".join(f" {name}={_value(value)}" for name, value in operator.options.items())
    return f"{operator.index:3} {operator.op}({reads}) -> {writes or '()'}{options}"


def _tensor(tensor: Tensor, with_name: bool = False) -> str:
    sign = "=" if tensor.data is not None else "$" if tensor.is_variable else "%"
    text = f"{sign}{tensor.index} {tensor.dtype}[{'x'.join(map(str, tensor.shape))}]"
    if tensor.quantization is not None:
        text += f" {_quantization(tensor.quantization)}"
    elif tensor.data is not None and tensor.data.size <= _SHOWN_ELEMENTS:
        text += "{" + ",".join(map(str, tensor.data.ravel().tolist())) + "}"
    return f"{text} {tensor.name!r}" if with_name else text


def _quantization(quantization: Quantization) -> str:
    low, high = min(quantization.scale), max(quantization.scale)
    if len(quantization.scale) > 1:
        return f"{len(quantization.scale)} scales {low:.6g}..{high:.6g} on axis {quantization.dimension}"
    point = quantization.zero_point[0]
    return f"{low:.6g}*q" if point == 0 else f"{low:.6g}*(q{-point:+d})"


def _value(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "()"
    if isinstance(value, float):
        return f"{value:g}"
    # A resource name may hold anything, also spaces and line ends.
    return str(value) if not isinstance(value, str) or value.isidentifier() else repr(value)
