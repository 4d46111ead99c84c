"""The bus does to reports what the scenario says, and nothing else."""

from headgate.simulation.scenario.scenario import (
    Fault,
    FaultKind,
    GroupSpec,
    Network,
    Scenario,
)
from headgate.simulation.world.faults import FaultState, down_spans, fault_edges
from headgate.simulation.world.network import Delivery, SimulatedBus


def scenario_of(*faults: Fault, network: Network | None = None) -> Scenario:
    return Scenario(
        name="network",
        seconds=60.0,
        groups=(GroupSpec(rate=1000.0),),
        agents=4,
        weights=(1.0,) * 4,
        network=network or Network(),
        faults=faults,
    )


def fault(kind: FaultKind, *agents: int, amount: float = 0.0) -> Fault:
    return Fault(kind=kind, agents=agents, start_s=10.0, until_s=20.0, amount=amount)


def sent(scenario: Scenario, now: float, *, sender: int = 0) -> list[Delivery]:
    state = FaultState(scenario)
    state.update(now)
    bus = SimulatedBus(scenario, 1, state)
    return [d for _ in range(500) for d in bus.send(now, sender, b"report")]


def receivers(deliveries: list[Delivery]) -> set[int]:
    return {delivery.receiver for delivery in deliveries}


def test_everyone_hears_a_report_the_sender_included() -> None:
    deliveries = sent(scenario_of(), 1.0)
    assert len(deliveries) == 4 * 500
    assert receivers(deliveries) == {0, 1, 2, 3}
    assert all(1.02 <= d.at_s <= 1.03 and d.corrupted is None for d in deliveries)


def test_loss_and_doubling_have_their_probabilities() -> None:
    lossy = scenario_of(fault("loss", 0, amount=0.5), network=Network(loss=0.5))
    assert 0.2 < len(sent(lossy, 15.0)) / 2000 < 0.3  # independent causes
    assert 0.45 < len(sent(lossy, 5.0)) / 2000 < 0.55
    assert 0.45 < len(sent(lossy, 15.0, sender=1)) / 2000 < 0.55
    double = scenario_of(fault("duplicate", 0, amount=0.25))
    assert 1.2 < len(sent(double, 15.0)) / 2000 < 1.3


def test_reports_keep_their_order_unless_they_are_reordered() -> None:
    def arrivals(network: Network) -> list[float]:
        scenario = scenario_of(network=network)
        bus = SimulatedBus(scenario, 1, FaultState(scenario))
        return [bus.send(i * 0.01, 0, b"")[1].at_s for i in range(200)]

    ordered = arrivals(Network(jitter_s=0.3))
    assert ordered == sorted(ordered)
    mixed = arrivals(Network(jitter_s=0.3, reorder=0.2))
    assert mixed != sorted(mixed)


def test_a_partition_separates_its_sides_both_ways() -> None:
    halves = scenario_of(fault("partition", 0, 1))
    assert receivers(sent(halves, 15.0, sender=0)) == {0, 1}
    assert receivers(sent(halves, 15.0, sender=3)) == {2, 3}
    assert receivers(sent(halves, 20.0, sender=3)) == {0, 1, 2, 3}


def test_a_side_of_one_does_not_hear_itself() -> None:
    assert not sent(scenario_of(fault("partition", 2)), 15.0, sender=2)
    three = scenario_of(fault("partition", 0, 1, 3))
    assert not sent(three, 15.0, sender=2)
    assert receivers(sent(three, 15.0, sender=0)) == {0, 1, 3}


def test_a_cut_keeps_reports_from_leaving_but_not_from_coming() -> None:
    cut = scenario_of(fault("cut", 1))
    assert not sent(cut, 15.0, sender=1)
    assert 1 in receivers(sent(cut, 15.0, sender=0))


def test_delay_is_added_and_bytes_are_flipped() -> None:
    late = sent(scenario_of(fault("delay", 0, amount=2.5)), 15.0)
    assert all(17.5 < d.at_s < 17.54 for d in late)
    corrupt = sent(scenario_of(fault("corrupt", 0, amount=0.5)), 15.0)
    flipped = [d for d in corrupt if d.corrupted is not None]
    assert 0.4 < len(flipped) / len(corrupt) < 0.6
    assert all(len(d.corrupted or b"") == 6 for d in flipped)


def test_faults_hold_from_their_start_until_before_their_end() -> None:
    scenario = scenario_of(
        fault("crash", 1),
        fault("pause", 2),
        fault("clock-jump", 3, amount=-5.0),
        fault("liar", 0, amount=7.0),
    )
    state = FaultState(scenario)
    for now, active in ((9.9, False), (10.0, True), (19.9, True), (20.0, False)):
        state.update(now)
        assert (1 in state.down) == active
        assert (state.paused_until.get(2) == 20.0) == active
        assert (state.clock_jump_s.get(3) == -5.0) == active
        assert (state.multiplier.get(0) == 7.0) == active
    assert down_spans(scenario, 1) == down_spans(scenario, 2) == [(10.0, 20.0)]
    assert down_spans(scenario, 0) == []
    assert fault_edges(scenario) == (10.0, 20.0)


def test_healing_ends_all_but_death() -> None:
    state = FaultState(scenario_of(fault("crash", 1), fault("cut", 2)))
    state.update(15.0)
    state.heal()
    assert state.down == {1}
    assert not state.cut
