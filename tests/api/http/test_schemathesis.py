"""No request that the OpenAPI document allows, or hints at, is answered with 5xx."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from tests.api.conftest import TIMEOUT_S

from headgate.api import Addresses, ServerSettings, running

EXAMPLES = 4
"""Requests tried for each operation and mode; more are for a night's run."""

ENDLESS = {"/api/v1/events"}
"""Streams that end when the client goes."""

BUSY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    database = str(tmp_path_factory.mktemp("fuzz") / "headgate.db")
    with running(
        ServerSettings(database=database, port=0, bus_ports=(0, 0))
    ) as addresses:
        yield addresses


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_answered_with_a_fault_of_the_server(
    server: Addresses, mode: GenerationMode
) -> None:
    url = f"{server.api}/openapi.json"
    schema: Any = schemathesis.openapi.from_url(url, timeout=TIMEOUT_S)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue  # of a string in the path nothing is of a wrong kind

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=BUSY)
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case: Any) -> None:
            nonlocal tried
            if case.query and "wait_s" in case.query:
                case.query["wait_s"] = 0
            answer = case.call(timeout=TIMEOUT_S)
            tried += 1
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)

        with contextlib.suppress(Unsatisfiable):  # nothing in it can be wrong
            try_it()
    assert tried > 50
