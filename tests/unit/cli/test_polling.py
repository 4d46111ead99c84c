"""A command that runs until Ctrl-C survives a server that is out of order."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.unit.cli.rigs import serving

from headgate.cli.client.polling import again
from headgate.cli.client.rest import Rest
from headgate.cli.failure import RefusedByApi, Unreachable


def test_who_goes_on_lasts_out_a_server_that_is_out_of_order() -> None:
    away = '{"detail": "the database is away"}'
    answers = (200, '{"n": 1}'), (503, away), (502, "<html>"), (200, '{"n": 2}')
    with serving(*answers) as url, Rest(url) as rest:
        seen = list(islice(again(lambda: rest.call("GET", "/"), every_s=0.0), 4))
    assert (seen[0], seen[3]) == ({"n": 1}, {"n": 2})
    assert all(isinstance(one, Unreachable) for one in seen[1:3])
    assert [str(one) for one in seen[1:3]] == [
        "the database is away",
        f"the API at {url} answered 502",
    ]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_ends_who_goes_on(status: int) -> None:
    with serving((200, "{}"), (status, "{}")) as url, Rest(url) as rest:
        answers = again(lambda: rest.call("GET", "/"), every_s=0.0)
        assert next(answers) == {}
        with pytest.raises(RefusedByApi, match=f"the API at .* answered {status}"):
            next(answers)
