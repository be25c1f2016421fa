"""Ways to break what commands pass: fetch, unit control, tokens, registers."""

from mutant import mutants

__all__ = ["CONTROL_MUTANTS"]

CONTROL_MUTANTS = (
    *mutants("control/tokens.py", ("tests/hdl/control/test_tokens.py",), {
        "test_random_traffic": (
            ("token lost when given and taken in one cycle",
             "Mux(target.take, left, count) + Mux(source.give, given, 0)",
             "Mux(target.take, left, count + Mux(source.give, given, 0))"),
            ("token overflow seen when the counter is half full", "over.eq(grown[_TOKEN_BITS])",
             "over.eq(grown[_TOKEN_BITS - 1])"),
            ("one token too few is enough", "enough[taker].append(count >= target.wait[giver])",
             "enough[taker].append(count + 1 >= target.wait[giver])"),
            ("as many tokens as wanted are not enough", "enough[taker].append(count >= target.wait[giver])",
             "enough[taker].append(count > target.wait[giver])"),
            ("tokens from one unit are enough", "Cat(*holds).all()", "Cat(*holds).any()"),
            ("tokens taken from the opposite counter", "source.post[taker], target.wait[giver]",
             "source.post[taker], target.wait[taker]"),
        ),
        "test_a_counter_holds_255": (
            ("token overflow missed", "over.eq(grown[_TOKEN_BITS])", "over.eq(0)"),
            ("overflow told of the last counter alone", "Cat(*overflows).any()", "overflows[-1]"),
        ),
        "test_a_reset_takes_all_tokens_and_the_error": (
            ("token counters not reset", 'name=f"{WORKERS[giver].name.lower()}_to_{WORKERS[taker].name.lower()}")',
             'name=f"{WORKERS[giver].name.lower()}_to_{WORKERS[taker].name.lower()}", reset_less=True)'),
        ),
    }),
    *mutants("control/target.py", ("tests/hdl/control/test_unit_control.py",), {
        "test_a_register_that_does_not_exist_is_a_bad_command": (
            ("value after the next one taken for the next", "self._has(index, 2)", "self._has(index, 1)"),
            ("second value looked at as the first", "self._follows.eq(self._has(index, 1))",
             "self._follows.eq(self._has(index, 0))"),
        ),
    }),
    *mutants("control/unit_control.py", ("tests/hdl/control/test_unit_control.py",
                                         "tests/hdl/control/test_unit_offers.py"), {
        "test_tables_are_written_when_nothing_is_in_flight_and_the_engine_is_idle": (
            ("table written while the engine is not idle", "quiet.eq((in_flight == 0) & self.engine_idle)",
             "quiet.eq(in_flight == 0)"),
            ("table written with operations in flight", "quiet.eq((in_flight == 0) & self.engine_idle)",
             "quiet.eq(self.engine_idle)"),
            ("last word of a table refused", "base, register_count(self._unit, self._config))",
             "base, register_count(self._unit, self._config) - 1)"),
        ),
        "test_an_engine_holds_so_many_operations": (
            ("no limit of operations in flight", "may_take.eq((in_flight != IN_FLIGHT) & ~self.halt)",
             "may_take.eq(~self.halt)"),
            ("one operation less in flight", "may_take.eq((in_flight != IN_FLIGHT) & ~self.halt)",
             "may_take.eq((in_flight < IN_FLIGHT - 1) & ~self.halt)"),
        ),
        "test_takes_no_tokens_in_a_halt": (
            ("operations start in a halt", "may_take.eq((in_flight != IN_FLIGHT) & ~self.halt)",
             "may_take.eq(in_flight != IN_FLIGHT)"),
        ),
        "test_counts_operations_that_start_and_end_in_one_cycle": (
            ("operation that starts when another is done not counted", "in_flight + started - self.done",
             "in_flight + (started & ~self.done) - self.done"),
        ),
        "test_a_register_that_does_not_exist_is_a_bad_command": (
            ("register after the last accepted", '"plain", 0, register_words)', '"plain", 0, register_words + 1)'),
            ("table taken to begin a word early", '"in_table", base,', '"in_table", base - 1,'),
            ("unit goes on after a register that does not exist", "m.d.sync += self.error.eq(Status.BAD_COMMAND)\n"
             '                m.next = "STOPPED"', "m.d.sync += self.error.eq(Status.BAD_COMMAND)\n"
             '                m.next = "HEADER"'),
        ),
        "test_tokens_from_a_unit_to_itself_are_a_bad_operation": (
            ("operation that breaks a rule offered", "self.o.valid.eq(legal)", "self.o.valid.eq(1)"),
            ("refused while operations before are under way", "with m.If(quiet & ~legal):",
             "with m.If(~legal):"),
        ),
        "test_an_operation_is_offered_when_its_tokens_are_there": (
            ("tokens compared before the last value is there", 'm.next = "SETTLE"', 'm.next = "CHECK"'),
        ),
        "test_tokens_keep_the_order": (
            ("tokens taken in the cycle in which the counters compare", 'with m.State("CHECK"):\n'
             "            # The counters compare in this cycle, and the rules with the fields.\n"
             '            m.next = "TOKENS"',
             'with m.State("CHECK"):\n' '            m.next = "OFFER"'),
            ("tokens given when an operation starts", "self.tokens.give.eq(self.done)",
             "self.tokens.give.eq(started)"),
        ),
        "test_is_idle_when_no_operation_waits_or_is_under_way": (
            ("idle while the engine is not", "self._receive(m, target, (in_flight == 0) & self.engine_idle)",
             "self._receive(m, target, in_flight == 0)"),
            ("idle with an operation in flight", "self._receive(m, target, (in_flight == 0) & self.engine_idle)",
             "self._receive(m, target, self.engine_idle)"),
            ("idle while an operation waits for tokens", "self.waiting.eq(~self.tokens.enough)",
             "[self.waiting.eq(~self.tokens.enough), self.idle.eq(quiet)]"),
        ),
        "test_operations_and_tables_come_in_order": (
            ("operations counted when they are offered", "with m.If(started):", "with m.If(self.o.valid):"),
        ),
    }),
    *mutants("legality.py", ("tests/hdl/test_legality.py",), {
        "test_operations": (
            ("first rule not looked at", "self.legal.eq(kept.all())", "self.legal.eq(kept[1:].all())"),
            ("one rule kept is enough", "self.legal.eq(kept.all())", "self.legal.eq(kept.any())"),
        ),
        "test_buffers_that_stay_open_are_gone_on_with": (
            ("buffers that stay open forgotten", "Mux(self.op.acc_last, 0, several)", "0"),
        ),
        "test_micro_operations": (
            ("rules about the words of a micro-operation given to the wrong word", "if about == [word]:",
             "if about != [word]:"),
        ),
    }),
    *mutants("control/fetch.py", ("tests/hdl/control/test_fetch.py",), {
        "test_a_full_queue_holds_up_all_words_and_loses_none": (
            ("fetch deals into a full queue", "queue.level < QUEUE_WORDS - 2", "queue.level < QUEUE_WORDS"),
            ("fetch deals one word into a full queue", "queue.level < QUEUE_WORDS - 2",
             "queue.level < QUEUE_WORDS - 1"),
            ("fetch leaves places in a queue", "queue.level < QUEUE_WORDS - 2", "queue.level < QUEUE_WORDS - 8"),
            ("fetch deals into a queue whose neighbour has room", "words.o.valid & (goes_to & Cat(queues.rooms)).any()",
             "words.o.valid & goes_to.any() & Cat(queues.rooms).any()"),
        ),
        "test_deals_nothing_more_after_a_halt": (
            ("fetch deals in a halt", "deal.eq(running & ~self.halt & words.o.valid",
             "deal.eq(running & words.o.valid"),
        ),
        "test_ends_when_the_last_word_is_taken": (
            ("fetch ends while a word enters a queue", "held += [queue.i.valid, queue.level.any(), ahead.o.valid]",
             "held += [queue.level.any(), ahead.o.valid]"),
        ),
        "test_deals_the_words": (
            ("fetch ends while a word is in a queue", "held += [queue.i.valid, queue.level.any(), ahead.o.valid]",
             "held += [queue.i.valid, ahead.o.valid]"),
            ("fetch ends while a word stands in front of its unit",
             "held += [queue.i.valid, queue.level.any(), ahead.o.valid]",
             "held += [queue.i.valid, queue.level.any()]"),
            ("last value taken for a header", "to_values.eq(values != 1)", "to_values.eq(values > 2)"),
            ("command without values takes the next header for one", "to_values.eq(header.count != 0)",
             "to_values.eq(1)"),
        ),
        "test_a_bad_header_stops": (
            ("reserved bits of a header ignored", "(arriving.unit == unit) & (arriving.reserved == 0)",
             "(arriving.unit == unit)"),
            ("reserved bits of END ignored", "(arriving.unit == Unit.CONTROL) & (arriving.reserved == 0)",
             "(arriving.unit == Unit.CONTROL)"),
            ("control command without RUN taken for END", "(arriving.count == 0)\n"
             "                           & arriving.run)", "(arriving.count == 0))"),
            ("control command with values taken for END", "(arriving.reserved == 0) & (arriving.count == 0)",
             "(arriving.reserved == 0)"),
        ),
        "test_a_stream_without_end_stops": (
            ("stream without END not noticed", "self.error.eq(Status.NO_END), running.eq(0)", "running.eq(0)"),
            ("words after the stream dealt", "words.i.valid.eq(buffer.o.valid & ~(running & none_left))",
             "words.i.valid.eq(buffer.o.valid)"),
        ),
        "test_a_bus_error_stops": (
            ("bus error of the commands ignored", "self.error.eq(Status.BUS_ERROR), running.eq(0)", "running.eq(0)"),
            ("commands dealt after a bus error", "self.error.eq(Status.BUS_ERROR), running.eq(0)",
             "self.error.eq(Status.BUS_ERROR)"),
        ),
        "test_is_urgent_while_a_queue_runs_short": (
            ("no queue is urgent before all are", "if unit != Unit.STORE).any()", "if unit != Unit.STORE).all()"),
            ("the store unit's queue is urgent", " if unit != Unit.STORE).any()", ").any()"),
        ),
        "test_says_when_it_has_no_word_to_deal": (
            ("a stall counted when END was met", "~words.o.valid & ~none_left)", "~words.o.valid)"),
        ),
    }),
    *mutants("control/registers.py", ("tests/hdl/control/test_registers.py", "tests/hdl/control/test_run_ends.py"), {
        "test_a_start_at_the_end_of_a_run_waits_and_a_stop_undoes_it": (
            ("a stop at the end of a run starts the machine", "NO_RUN)\n"
             "            with m.If(asked.start | asked.stop):\n"
             "                m.d.sync += [status.busy.eq(1), again.eq(~asked.stop), *status.clear()]", "NO_RUN)\n"
             "            with m.If(asked.start | asked.stop):\n"
             "                m.d.sync += [status.busy.eq(1), again.eq(1), *status.clear()]"),
            ("a stop in a reset starts the machine", "m.d.sync += left.eq(left - 1)\n"
             "            with m.If(asked.start | asked.stop):\n"
             "                m.d.sync += [status.busy.eq(1), again.eq(~asked.stop), *status.clear()]",
             "m.d.sync += left.eq(left - 1)\n" "            with m.If(asked.start | asked.stop):\n"
             "                m.d.sync += [status.busy.eq(1), again.eq(1), *status.clear()]"),
            ("a stop right after a start ignored", "with m.If(asked.stop):\n" '                m.next = "DRAIN"',
             "with m.If(0):\n" '                m.next = "DRAIN"'),
            ("a start at the end of a run forgotten", "with m.Elif(asked.start | again):",
             "with m.Elif(asked.start):"),
        ),
        "test_the_first_error_stops_the_machine": (
            ("error_index of a later cycle", 'delayed(m, codes, 1, "codes"), delayed(m, at, 1, "error_at")',
             'delayed(m, codes, 1, "codes"), at'),
        ),
        "test_an_error_names_its_run_by_the_low_bits_of_its_number": (
            ("error_index eight too high", "- (first_run[:NUMBER_BITS] < first_at)", ""),
        ),
        "test_memory_that_is_given_up": (
            ("a start waits for ever for answers", "status.busy.eq(0), status.owed.eq(1), again.eq(0)",
             "status.owed.eq(1), again.eq(0)"),
            ("a start that memory does not let begin says nothing", "status.fail(self.owed, Status.NO_ANSWER, NO_RUN)",
             "status.fail(self.owed, Status.NO_ANSWER, NO_RUN)[1:]"),
            ("memory that answers late owes for ever", "left.eq(2 * RESET_CYCLES - 1), status.owed.eq(0)",
             "left.eq(2 * RESET_CYCLES - 1)"),
        ),
        "test_writes_while_busy_are_ignored": (
            ("registers written while busy", "with m.If(self.write_en & ~status.busy &", "with m.If(self.write_en &"),
        ),
        "test_open_bursts_end_before_the_units_are_reset": (
            ("units reset with open bursts", 'states.ongoing("DRAIN") & self.channels_idle',
             'states.ongoing("DRAIN")'),
            ("units ready before their reset is over", "m.d.sync += [left.eq(2 * RESET_CYCLES - 1)",
             "m.d.sync += [left.eq(RESET_CYCLES + 1)"),
            ("no halt at an error", "status.busy.eq(0), self.halt.eq(1),\n", "status.busy.eq(0),\n"),
            ("no halt at the end", "status.done.eq(1), self.halt.eq(1)", "status.done.eq(1)"),
            ("no halt at a stop", "busy.eq(1), self.halt.eq(1), *status.clear()",
             "busy.eq(1), *status.clear()"),
            ("no interrupt of an error", "self.interrupt.eq(status.done | status.failed)",
             "self.interrupt.eq(status.done)"),
        ),
        "test_units_are_reset_at_power_on": (
            ("reset half as long", "self.reset_units.eq(left >= RESET_CYCLES)",
             "self.reset_units.eq(left >= RESET_CYCLES + RESET_CYCLES // 2)"),
            ("units not reset at power-on", 'm.FSM(name="state", init="RESET")', 'm.FSM(name="state", init="IDLE")'),
        ),
        "test_of_errors_in_one_cycle_that_of_the_lowest_unit_counts": (
            ("of two errors the higher unit's", "for unit in reversed(Unit):", "for unit in Unit:"),
        ),
        "test_an_error_before_or_with_the_end_is_an_error": (
            ("end before the error that came with it",
             'finished = delayed(m, self.finished, 2, "finished", control=True)', "finished = self.finished"),
        ),
        "test_a_stop_undoes_an_end_that_comes_with_it": (
            ("an error ends a run that is stopped", "busy.eq(1), self.halt.eq(1), *status.clear()",
             "busy.eq(1), self.halt.eq(1)"),
        ),
        "test_counters_count_the_cycles_of_a_run": (
            ("cycles not cleared by a start", "m.d.sync += cycles.eq(0)", "pass"),
            ("events counted a cycle early", "m.d.sync += counters.events.eq", "m.d.comb += counters.events.eq"),
            ("the counter beside the one that is read", "self.addr[2:] - (_OFFSET[_FIRST_EVENT] >> 2)",
             "self.addr[2:] - (_OFFSET[_FIRST_EVENT] >> 2) - 1"),
        ),
        "test_reads_what_was_written": (
            ("low bits of the bases kept", '**{f"base{region}": ~15 for region in range(4)}',
             '**{f"base{region}": ~7 for region in range(4)}'),
            ("address of the commands from the arena", 'kept["base0"] + kept["command_offset"]',
             'kept["base1"] + kept["command_offset"]'),
        ),
    }),
    *mutants("control/event_counters.py", ("tests/hdl/control/test_event_counters.py",), {
        "test_counts_the_events_of_each_run": (
            ("carries of low bits lost", "(~stale & (now < then[:_LOW_BITS]))", "0"),
            ("counts of an earlier run", "high = Mux(stale, 0, then[_LOW_BITS:])", "high = then[_LOW_BITS:]"),
            ("events counted at rest", "with m.Elif(event & counts):", "with m.Elif(event):"),
            ("an event counted early", "with m.Elif(event & counts):", "with m.Elif(event & self.running):"),
            ("counts of an earlier run after a short one", "stale.eq(fresh & (at >= turn))",
             "stale.eq(fresh & self.running)"),
            ("turns go on at rest", "with m.Elif(visits):\n            m.d.sync += turn",
             "with m.Else():\n            m.d.sync += turn"),
        ),
        "test_a_carry_reaches_all_bits": (
            ("counters of 31 bits", "high[:_BITS - _LOW_BITS]", "high[:_BITS - _LOW_BITS - 1]"),
        ),
    }),
)
