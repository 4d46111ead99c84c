"""A scenario file is read to the letter; what is wrong in it is said in one line."""

from math import inf
from pathlib import Path

import pytest

from headgate.simulation.scenario.parsing import InvalidScenario, read_scenario
from headgate.simulation.scenario.scenario import Scenario

SMALLEST = """
seconds = 10
[group]
rate = 1000.0
[agents]
count = 4
"""


def read(folder: Path, text: str) -> Scenario:
    path = folder / "case.toml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path)


def with_piece(kind: str, *lines: str) -> str:
    return SMALLEST + f"[[{kind}]]\n" + "\n".join(lines) + "\n"


def test_what_is_left_out_has_the_defaults_of_the_contract(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALLEST)
    assert (scenario.seed, scenario.measure_from, scenario.interval_s) == (1, 0.0, 1.0)
    assert scenario.network.delay_s == 0.02
    assert scenario.network.jitter_s == 0.01
    (group,) = scenario.groups
    assert (group.mode, group.may_owe, group.isolation) == ("balanced", True, "fair")
    assert scenario.limits(0) == ((0.0, 1000.0, 1000.0),)
    assert scenario.weights == (1.0, 1.0, 1.0, 1.0)


def test_an_unlimited_group_has_no_burst_until_it_has_a_rate(tmp_path: Path) -> None:
    text = SMALLEST.replace("1000.0", '"unlimited"') + "[[change]]\nat = 5\nrate = 20\n"
    assert read(tmp_path, text).limits(0) == ((0.0, inf, inf), (5.0, 20.0, 20.0))


def test_a_burst_that_was_given_stays_when_the_rate_changes(tmp_path: Path) -> None:
    text = SMALLEST.replace("rate = 1000.0", "rate = 1000.0\nburst = 300.0")
    text += "[[change]]\nat = 5\nrate = 500\n[[change]]\nat = 7\nrate = 9\nburst = 8\n"
    limits = read(tmp_path, text).limits(0)
    assert limits == ((0.0, 1000.0, 300.0), (5.0, 500.0, 300.0), (7.0, 9.0, 8.0))


def test_a_piece_that_moves_steps_at_each_move(tmp_path: Path) -> None:
    text = with_piece("demand", "agents = [3]", "rate = 1", "moves_every = 4")
    assert read(tmp_path, text).demand_edges(0) == (4.0, 8.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seconds = 10\nseconds = 11\n", "expected TOML: Cannot overwrite a value"),
        ("", "seconds: expected a number above 0"),
        ("colour = 1" + SMALLEST, "colour: unknown key, expected one of: agents, "),
        (SMALLEST.replace("10\n", '"10"' + "\n"), "seconds: expected a number above 0"),
        (SMALLEST.replace("10\n", "true" + "\n"), "seconds: expected a number above 0"),
        (SMALLEST.replace("10\n", "nan" + "\n"), "seconds: expected a number above 0"),
        (
            SMALLEST.replace("10\n", "1" + "0" * 400 + "\n"),
            "seconds: expected a number above 0",
        ),
        ("measure_from = 10" + SMALLEST, "measure_from: expected a number below"),
        ("seed = -1" + SMALLEST, "seed: expected an integer of at least 0, got -1"),
        ("seed = 1.5" + SMALLEST, "seed: expected an integer of at least 0, got 1.5"),
        ("group = 3\nseconds = 10", "agents: expected a table [agents], but it is mis"),
        (SMALLEST.replace("4", "0"), "agents.count: expected an integer of from 1"),
        (SMALLEST + "weights = [1.0]", "agents.weights: expected none, or one for"),
        (SMALLEST + "weights = [1, 1, 0, 1]", "agents.weights: expected a list of num"),
        (SMALLEST.replace("1000.0", "-1"), "group.rate: expected a number of at"),
        (
            SMALLEST.replace("1000.0", '"much"'),
            'at most 1e+15, or "unlimited", got \'mu',
        ),
        (SMALLEST.replace("1000.0", "5\nburst = 0"), "group.burst: expected a number"),
        (SMALLEST.replace("1000.0", '5\nmode = "x"'), "group.mode: expected one of 'b"),
        (SMALLEST.replace("1000.0", "5\nweight = 2"), "group.weight: unknown key"),
        (
            SMALLEST + "[network]\nloss = 1.5",
            "network.loss: expected a number of at le",
        ),
        (SMALLEST + "[network]\nspeed = 1", "network.speed: unknown key, expected one"),
        (SMALLEST + "[report]\ninterval = 0", "report.interval: expected a number of"),
        (with_piece("demand"), "demand[0].rate: expected a number of at least 0, but"),
        (
            with_piece("demand", "rate = 1", "from = 5", "until = 4"),
            "demand[0].until: expected a number not below from = 5, got 4",
        ),
        (
            with_piece("demand", "rate = 1", "agents = [1, 4]"),
            "demand[0].agents[1]: expected an index from 0 to 3, got 4",
        ),
        (
            with_piece("demand", "rate = 1", "agents = [1, 1]"),
            "demand[0].agents[1]: expected different indices, got 1 twice",
        ),
        (
            with_piece("demand", "rate = 1", "agents = []"),
            'demand[0].agents: expected "all" or a list of indices from 0 to 3, got []',
        ),
        (with_piece("demand", "rate = 1", "cost = 0"), "demand[0].cost: expected a nu"),
        (with_piece("demand", "rate = 1e9"), "demand: expected at most 50,000,000 req"),
        (
            with_piece("demand", "rate = 1", 'shape = "sine"'),
            "demand[0].period: expected a number above 0, but it is missing",
        ),
        (with_piece("demand", "rate = 1", "period = 5"), "demand[0].period: unknown"),
        (with_piece("demand", "rate = 1", 'group = "x"'), "demand[0].group: expected"),
        (
            with_piece("fault", 'kind = "fire"', "agents = [0]"),
            "fault[0].kind: expected one of 'crash', 'leave', 'pause', 'partition'",
        ),
        (with_piece("fault", 'kind = "crash"'), "fault[0].agents: expected"),
        (
            with_piece("fault", 'kind = "loss"', "agents = [0]"),
            "fault[0].probability: expected a number of at least 0 and at most 1, but",
        ),
        (
            with_piece("fault", 'kind = "crash"', "agents = [0]", "seconds = 1"),
            "fault[0].seconds: unknown key, expected one of: agents, from, kind, until",
        ),
        (
            with_piece("change", "at = 11", "rate = 1"),
            "change[0].at: expected a number",
        ),
        (with_piece("change", "at = 1"), "change[0].rate: expected a number of at lea"),
        ("[[group]]\nrate = 1\n", "seconds"),
        (
            SMALLEST.replace("[group]", "[[group]]"),
            "group[0].name: expected a name, but it is missing",
        ),
        (
            SMALLEST.replace("[group]", '[[group]]\nname = "a"\nparent = "b"'),
            "group[0].parent: expected one of 'a', got 'b'",
        ),
        (
            SMALLEST.replace("[group]", '[[group]]\nname = "a"\nparent = "a"'),
            "group[0].parent: expected a group that is not below this one, got 'a'",
        ),
    ],
)
def test_a_mistake_is_told_with_file_key_and_expectation(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InvalidScenario) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'case.toml'}: ")
    assert message in told
    assert "\n" not in told


def test_several_groups_make_a_piece_name_its_group(tmp_path: Path) -> None:
    text = "seconds = 9\n[agents]\ncount = 1\n" + "".join(
        f'[[group]]\nname = "{name}"\nrate = 5\n' for name in "ab"
    )
    read(tmp_path, text + '[[demand]]\nrate = 1\ngroup = "b"\n')
    with pytest.raises(InvalidScenario, match="group: expected one of 'a', 'b'"):
        read(tmp_path, text + "[[demand]]\nrate = 1\n")


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_is_no_text_or_missing_is_told_in_one_line(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "absent.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidScenario, match="expected") as caught:
        read_scenario(path)
    assert "\n" not in str(caught.value)
