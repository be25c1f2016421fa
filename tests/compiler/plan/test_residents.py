"""The lives of values in a choice of residents are those that follow from layers and groups."""

from tq_hw.compiler.compile import plan_model
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.compiler.plan.residents import Residents
from tq_hw.compiler.plan.uses import Uses
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.networks import network


def test_lives_reach_over_groups_and_their_words_are_counted_at_each_layer() -> None:
    config = PRESETS["tiny"]
    graph, _ = plan_model(network("mobilenet_v3", 0), config)
    facts = Uses(graph, config, False)
    choice, groups = Residents(facts, config), set[tuple[tuple[int, int], ...]]()
    while choice.resident:
        spans, lives = choice.spans(), choice.lives()
        groups.add(tuple(spans))
        assert list(lives) == facts.ordered(choice.resident)
        for key, (first, last) in lives.items():
            within = {facts.defined.get(key, facts.users.get(key, [0])[0]), *facts.users.get(key, ())}
            assert first <= min(within) and max(within) <= last
            # No life begins or ends inside a group.
            assert all((first <= low and high <= last) or high < first or last < low for low, high in spans)
        assert choice.live_words() == [
            sum(blocked_words(facts.values[key], config) for key, (first, last) in lives.items()
                if first <= index <= last) for index in range(len(graph.layers))]
        index = next(at for at, words in enumerate(choice.live_words()) if words)
        choice.demote(index, graph.layers[index:index + 1])
    assert len(groups) > 1
