"""Ways to break what bytes pass: bus, bursts, load, store, scratchpad."""

from mutant import mutants

__all__ = ["MOVE_MUTANTS"]

MOVE_MUTANTS = (
    *mutants("bus/read_channel.py", ("tests/hdl/bus/test_read_channel.py",), {
        "test_reads_wait_while_all_are_open": (
            ("one read more than can be followed", "self.room.eq(bursts.level < self._limit - 1)",
             "self.room.eq(bursts.level < self._limit)"),
            ("no limit of open reads", "may_open.eq(~self.halt & Cat(part.room for part in bursts).all())",
             "may_open.eq(~self.halt)"),
        ),
        "test_a_halt_lets_reads_end": (
            ("reads begin in a halt", "may_open.eq(~self.halt & Cat(part.room for part in bursts).all())",
             "may_open.eq(Cat(part.room for part in bursts).all())"),
        ),
        "test_every_client_reads_its_own_beats": (
            ("a read counted as ended at each of its beats", "bursts.o.ready.eq(self.came & is_last)",
             "bursts.o.ready.eq(self.came)"),
            ("a read counted as ended without an answer", "bursts.o.ready.eq(self.came & is_last)",
             "bursts.o.ready.eq(is_last)"),
            ("beats of one client given to both", "mine = came & (came_id == number)", "mine = came"),
            ("beats given to the other client", "mine = came & (came_id == number)",
             "mine = came & (came_id != number)"),
            ("reads' errors without their valid", "self.error.eq(self.came & (self.wrong |",
             "self.error.eq(self.wrong | self.came & (0 |"),
            ("reads' errors of the burst before", "self.error_at.eq(oldest.number)",
             "self.error_at.eq(oldest.number - 1)"),
            ("DECERR alone taken for an error", "came_wrong.eq(bus.rresp[1])", "came_wrong.eq(bus.rresp.all())"),
            ("reads idle a cycle early", "~(self.open.any() | opened | astray)", "~(self.open.any() | astray)"),
            ("fixed instead of incrementing reads", "bus.arburst.eq(1)", "bus.arburst.eq(0)"),
        ),
        "test_a_burst_that_ends_in_the_wrong_place_is_an_error": (
            ("RLAST in the wrong place no error", "(self.wrong | (self.last != is_last) | ~bursts.o.valid)",
             "(self.wrong | ~bursts.o.valid)"),
            ("idle while nobody knows what will come", "m.d.sync += astray.eq(1)", "m.d.sync += astray.eq(0)"),
            ("bursts not forgotten when memory is quiet", "ResetInserter(forget)(part)", "part"),
        ),
        "test_a_beat_that_nobody_asked_for_is_an_error": (
            ("beat that nobody asked for no error", "(self.wrong | (self.last != is_last) | ~bursts.o.valid)",
             "(self.wrong | (self.last != is_last) & bursts.o.valid)"),
        ),
        "test_load_gets_its_share_of_the_bursts": (
            ("load gets one burst more than its share", "next_in_a_row >= Mux(self.urgent",
             "next_in_a_row > Mux(self.urgent"),
            ("urgent commands wait as others do", "next_in_a_row >= Mux(self.urgent, *LOAD_SHARES)",
             "next_in_a_row >= LOAD_SHARES[1]"),
        ),
        "test_what_load_got_while_it_was_alone_does_not_count": (
            ("load's share counted while it is alone", "Mux(choose_load & fetch.burst.valid, in_a_row + 1, 0)",
             "Mux(choose_load, in_a_row + 1, 0)"),
        ),
    }),
    *mutants("bus/write_channel.py", ("tests/hdl/bus/test_write_channel.py",), {
        "test_a_halt_lets_writes_end": (
            ("writes begin in a halt", "address.i.ready & flags.i.ready & ~self.halt",
             "address.i.ready & flags.i.ready"),
        ),
        "test_sixteen_writes_are_open": (
            ("no limit of open writes", "address.i.ready & flags.i.ready & ~self.halt",
             "address.i.ready & ~self.halt"),
        ),
        "test_writes_every_beat": (
            ("EXOKAY of a write taken for an error", "came_wrong.eq(bus.bresp[1])", "came_wrong.eq(bus.bresp.any())"),
            ("writes idle a cycle early", "~Cat(started, flags.o.valid, oldest.o.valid).any()",
             "~Cat(flags.o.valid, oldest.o.valid).any()"),
            ("writes idle with one to be answered", "~Cat(started, flags.o.valid, oldest.o.valid).any()",
             "~Cat(started, flags.o.valid).any()"),
            ("every write answered as the last of its operation",
             "self.answered.eq(came & oldest.o.valid & oldest.o.payload)",
             "self.answered.eq(came & oldest.o.valid)"),
            ("write data in front of its address", "beats.i.valid.eq(self.beats.valid & owes)",
             "beats.i.valid.eq(self.beats.valid)"),
            ("the last owed beat sent twice over", "owes.eq(started | owes & ~(paid & (owed == 1)))",
             "owes.eq(started | owes & ~(paid & (owed == 0)))"),
            ("wlast of the beat before", "bus.wlast.eq(beats.o.payload.last)",
             "bus.wlast.eq(self.beats.payload.last)"),
            ("bursts of the wrong width", "bus.awsize.eq(ceil_log2(self._config.bus_bytes))",
             "bus.awsize.eq(2)"),
        ),
    }),
    *mutants("bus/bursts.py", ("tests/hdl/dma/test_runs.py",), {
        "test_spans_of_few_bits": (
            ("end of a span one bit short", "Signal(max(self._size_bits, block_bits) + 1 - lane_bits)",
             "Signal(max(self._size_bits, block_bits) - lane_bits)"),
        ),
        "test_bursts_cover_the_spans": (
            ("span's last byte not counted", "+ span.size_bytes - 1) >> lane_bits",
             "+ span.size_bytes - 2) >> lane_bits"),
            ("burst longer than its first block", "Mux(final, last, longest) - addr[:room_bits]",
             "Mux(final, last, longest)"),
            ("last burst of a span not marked", "final.eq(blocks == 1)", "final.eq(blocks == 0)"),
        ),
    }),
    *mutants("dma/runs.py", ("tests/hdl/dma/test_runs.py",), {
        "test_runs_follow_the_loops": (
            ("outer step from where the inner loop ended", "self.base, outer + self.stride3)",
             "self.base, addr + self.stride3)"),
            ("a loop of one round has two", "Cat(~self.last, Const(-1, len(self._left) - 1))",
             "Const(-1, len(self._left))"),
            ("a loop goes on where the last operation's ended", "self.o.valid.eq(0), loop2.stop(), loop3.stop()",
             "self.o.valid.eq(0), loop2.stop()"),
        ),
    }),
    *mutants("bus/read_buffer.py", ("tests/hdl/bus/test_read_buffer.py",), {
        "test_asks_for_what_it_has_room_for_and_no_more": (
            ("read buffer asks for a burst too many", "claimed <= beats - 3 * longest",
             "claimed <= beats - 2 * longest"),
            ("read buffer asks for bursts that it has no room for", "claimed <= beats - 3 * longest",
             "claimed <= beats - longest"),
            ("read buffer counts beats less one", "self.i.payload.length + 1, 0)", "self.i.payload.length, 0)"),
            ("read buffer frees beats that are not taken", "delayed(m, buffer.o.valid & buffer.o.ready, 1",
             "delayed(m, buffer.o.valid, 1"),
        ),
        "test_gives_the_beats_in_order": (
            ("read buffer takes bursts that it does not ask for", "self.i.ready.eq(memory.burst.ready & room)",
             "self.i.ready.eq(memory.burst.ready)"),
            ("read buffer asks twice for a burst", "memory.burst.valid.eq(self.i.valid & room)",
             "memory.burst.valid.eq(self.i.valid)"),
        ),
    }),
    *mutants("dma/load.py", ("tests/hdl/dma/test_load.py",), {
        "test_a_bus_error_is_told": (
            ("load's bus error ignored", "with m.If(self.memory.error):", "with m.If(0):"),
            ("load's bus error of the operation that ends", "self.error_at.eq(self.memory.error_at)",
             "self.error_at.eq(ends)"),
        ),
        "test_a_word_beyond_the_scratchpad_is_told": (
            ("load's bad address ignored", "with m.If(self.port.beyond):", "with m.If(0):"),
        ),
        "test_random_operations": (
            ("load taken twice", "offered & free & ~take", "offered & free"),
            ("load taken while the plans have no place", "free.eq(addresses.ready & ahead.i.ready)",
             "free.eq(addresses.ready)"),
            ("load taken while bursts are not asked for", "free.eq(addresses.ready & ahead.i.ready)",
             "free.eq(ahead.i.ready)"),
            ("load idle with an operation", "(held == 0) & addresses.ready & realigner.idle",
             "addresses.ready & realigner.idle"),
            ("load from the address of the operation before", "first.eq(self.base[region] + offset)",
             "first.eq(self.base[region] + self.op.memory_offset_bytes)"),
        ),
        "test_waits_for_beats_that_no_word_needs": (
            ("load idle while beats are owed", "(held == 0) & addresses.ready & realigner.idle",
             "(held == 0) & addresses.ready"),
        ),
        "test_a_fill_reads_no_memory": (
            ("load reads memory for a fill", "begin.eq(self.start & (self.op.run_bytes != 0))",
             "begin.eq(self.start)"),
        ),
    }),
    *mutants("dma/load_plan.py", ("tests/hdl/dma/test_load.py",), {
        "test_random_operations": (
            ("load drops a beat too early", "found.drops.eq(next_beat - first_beat)",
             "found.drops.eq(next_beat - first_beat + 1)"),
            ("load's plans without room", "out.level <= _WAITING_WORDS - 4", "out.level <= _WAITING_WORDS - 1"),
            ("load's rest of a run kept", "spent.eq(end1 | (left <= advance))", "spent.eq(left <= advance)"),
        ),
    }),
    *mutants("dma/realigner.py", ("tests/hdl/dma/test_load.py",), {
        "test_random_operations": (
            ("fill bytes flipped as well", "^ inverted, others[lane])", "^ inverted, others[lane] ^ inverted)"),
            ("realigner's words without room", "out.level <= _WAITING_WORDS - 3 - later",
             "out.level <= _WAITING_WORDS - 1"),
            ("load done before its last word is granted",
             "self.done.eq(self.port.en & self.port.grant & out.o.payload.last)",
             "self.done.eq(self.port.en & out.o.payload.last)"),
        ),
    }),
    *mutants("dma/store.py", ("tests/hdl/dma/test_store.py",), {
        "test_a_memory_that_takes_nothing_for_long_loses_no_beat": (
            ("store's beats without room", "beats.level <= _BEATS - 4", "beats.level <= _BEATS - 1"),
            ("store's beats with room for one too few", "beats.level <= _BEATS - 4", "beats.level <= _BEATS - 2"),
        ),
        "test_a_memory_that_takes_nothing_for_long_loses_no_burst": (
            ("store's bursts without room", "bursts.level <= _BURSTS - 3", "bursts.level <= _BURSTS - 1"),
            ("store's bursts with room for one too few", "bursts.level <= _BURSTS - 3",
             "bursts.level <= _BURSTS - 2"),
        ),
        "test_a_bus_error_is_told": (
            ("store's bus error of the operation that reads", "self.error_at.eq(answered)", "self.error_at.eq(asked)"),
        ),
        "test_a_word_beyond_the_scratchpad_is_told": (
            ("store's bad address of the operation that is written", "self.error_at.eq(asked)",
             "self.error_at.eq(answered)"),
        ),
    }),
    *mutants("dma/packer.py", ("tests/hdl/dma/test_store.py",), {
        "test_random_operations": (
            ("store's last byte strobe missing", "[:config.word_bytes + 1] - 1", "[:config.word_bytes + 1] >> 1"),
        ),
    }),
    *mutants("scratchpad.py", ("tests/hdl/test_scratchpad.py",), {
        "test_random_traffic": (
            ("scratchpad word of the wrong bank", "Array(found)[delayed(", "Array(found)[~delayed("),
            ("load's write allowed in a bank that the output writes",
             "load.grant.eq(~collide)", "load.grant.eq(1)"),
            ("output's byte mask taken from the load", "Mux(by_out, out.mask, Mux(by_load, load.mask, 0))",
             "Mux(by_out, load.mask, Mux(by_load, load.mask, 0))"),
            ("bank written where nobody asks", "Mux(by_load, load.mask, 0)", "load.mask"),
            ("weights read as a feed reads the bank", "wanted.eq(wants[name] & ~by_array)", "wanted.eq(wants[name])"),
            ("array's word a cycle early", "ARRAY_READ_LATENCY_CYCLES - late if name in _ARRAY else 0", "0"),
            ("reads of A not kept from those of B and of the store", "before = before | port.wants",
             "before |= 0"),
            ("two reads of a bank at once", "wants[name][index] & ~before_it", "wants[name][index]"),
            ("store granted what goes to B", "before | self.b.en.replicate(BANKS)", "before"),
            ("load granted what the output writes", "collide = out.en if shared else", "collide = "),
            ("word of the store's bank for B", "Mux(port.en, number, self.store.addr[:_BANK_BITS])",
             "self.store.addr[:_BANK_BITS]"),
        ),
        "test_an_address_beyond_the_end_is_reported": (
            ("scratchpad's end one bit too far", "(port.addr >> _BANK_BITS + row_bits).any()",
             "(port.addr >> _BANK_BITS + row_bits + 1).any()"),
        ),
    }),
)
