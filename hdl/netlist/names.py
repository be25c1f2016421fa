"""Identifiers that need no escape in Verilog: letters, digits and underscores, unique in a module."""

import re

__all__ = ["MOST_LETTERS", "Names", "legal"]

#: Of a name that is made up.
MOST_LETTERS = 40
#: Of Verilog and SystemVerilog.
_KEYWORDS = frozenset(re.findall(r"\w+", """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config
const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable
dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
enum event eventually expect export extends extern final first_match for force foreach forever fork forkjoin
function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import
incdir include initial inout input inside instance int integer interconnect interface intersect join join_any
join_none large let liblist library local localparam logic longint macromodule matches medium modport module
nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime
s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify
specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on table
tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg
type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""))


def legal(name: str) -> str:
    r"""Return Amaranth's name without characters that Verilog would escape; it numbers equal names after a `$`.

    >>> legal(r"\o__ready$26"), legal(r"\walker.slots[3]"), legal(r"\begin")
    ('o__ready', 'walker_slots_3', 'begin_')
    """
    plain = re.sub(r"\$\d+(?=$|[.\[$])", "", name.removeprefix("\\"))
    plain = re.sub(r"\W+", "_", plain.replace("$", "")).rstrip("_") or "net"
    if plain in _KEYWORDS:
        plain += "_"
    return f"n{plain}" if plain[0].isdigit() else plain


class Names:
    """The names of one module."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """Return `wanted`, or the first of `wanted_2`, `wanted_3`, ... that is free."""
        name = wanted
        while name in self._taken:
            number = self._next.get(wanted, 2)
            self._next[wanted] = number + 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name
