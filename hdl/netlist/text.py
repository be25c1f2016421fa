"""Line wrapping."""

__all__ = ["wrapped"]

_COLUMNS = 110


def wrapped(line: str, indent: str = "  ") -> str:
    """Return a statement as lines, the first after `indent`, the others four columns further."""
    lines = []
    rest, front = line, indent
    while len(front) + len(rest) > _COLUMNS:
        at = rest.rfind(" ", 1, _COLUMNS - len(front))
        if at < 0:
            at = rest.find(" ")
            if at < 0:
                break
        lines.append(front + rest[:at])
        rest, front = rest[at + 1:], indent + "    "
    lines.append(front + rest)
    return "\n".join(lines) + "\n"
