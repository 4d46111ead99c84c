"""The broker's level of policies is the same for the command line and for the API."""

from __future__ import annotations

import pytest

from headgate.api.policies import broker
from headgate.cli.failure import Misused
from headgate.cli.options.broker_settings import RATES, policies_in, settings_of


def test_every_rate_that_the_api_knows_has_its_kind() -> None:
    ours = {
        key: (kind, member)
        for kind, keys in RATES.items()
        for key, member in zip(keys, ("messages", "bytes"), strict=True)
        if key is not None
    }
    theirs = {key: (at.policy, at.member) for key, at in broker.RATES.items()}
    assert ours == theirs


@pytest.mark.parametrize("kind", list(RATES))
def test_a_policy_that_is_set_is_read_as_the_api_reads_it(kind: str) -> None:
    settings = settings_of(kind, {"messages": 50.0})
    for key, text in settings.items():
        broker.check_setting(key, text)
    assert policies_in(settings) == broker.broker_policies(settings)
    assert policies_in(settings)[kind]["messages"] == 50.0


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("publish", {"messages": 0.0}),
        ("publish", {"messages": 1.5}),
        ("publish", {"messages": 1.0, "period_s": 10.0}),
        ("publish", {"messages": 1.0, "relative_to_publish_rate": True}),
        ("subscribe", {"messages": 1.0, "bytes": 1.0}),
    ],
)
def test_what_the_broker_can_not_say_is_a_misuse(
    kind: str, policy: dict[str, object]
) -> None:
    with pytest.raises(Misused, match=r"for the broker|not available"):
        settings_of(kind, policy)
