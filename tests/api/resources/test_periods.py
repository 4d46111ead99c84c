"""Calendar periods of limits on `/api/v1`."""

import httpx
import pytest

MONTHLY = {
    "dimension": "tokens",
    "rate": 1000,
    "period": "month",
    "time_zone": "Europe/Zurich",
}


def put(rest: httpx.Client, *limits: object, **fields: object) -> httpx.Response:
    return rest.put("/groups/gold", json={"limits": list(limits), **fields})


def test_ably_a_calendar_period_is_stored_shown_and_put_back(
    rest: httpx.Client,
) -> None:
    shown = put(rest, MONTHLY).json()
    limit = shown["limits"][0]
    assert (limit["period"], limit["time_zone"]) == ("month", "Europe/Zurich")
    assert limit["burst"] == 1000
    assert rest.put("/groups/gold", json=shown).json() == shown
    told = rest.get("/snapshot").json()["groups"][0]["limits"][0]
    assert (told["period"], told["time_zone"]) == ("month", "Europe/Zurich")
    past = rest.get("/snapshot", params={"at": 1}).json()
    assert past["groups"][0]["limits"][0]["period"] == "month"


def test_ably_a_patch_keeps_the_period_or_puts_another_in_its_place(
    rest: httpx.Client,
) -> None:
    put(rest, MONTHLY)

    def patched(**change: object) -> dict[str, object]:
        body = {"limits": [{"dimension": "tokens", **change}]}
        answer = rest.patch("/groups/gold", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()["limits"][0]
        return found

    more = patched(rate=2000)
    assert (more["burst"], more["period"]) == (2000, "month")
    assert patched(period="day")["period"] == "day"
    bucket = patched(rate=10, period_s=60)
    assert (bucket["period"], bucket["period_s"]) == (None, 60)
    again = patched(rate=10, period="hour", time_zone="UTC")
    assert (again["period"], again["burst"]) == ("hour", 10)


def test_ably_an_override_of_a_calendar_period_is_one_for_its_burst_too(
    rest: httpx.Client,
) -> None:
    put(rest, {**MONTHLY, "rate": 0.3})
    body = {"group": "gold", "dimension": "tokens", "rate": 0.7, "for_s": 60}
    answer = rest.put("/overrides", json=body)
    assert answer.is_success, answer.text
    told = rest.get("/snapshot").json()["groups"][0]["limits"][0]
    assert told["rate"] == told["burst"] == 0.7


@pytest.mark.parametrize(
    ("limit", "fields", "where", "expected"),
    [
        ({**MONTHLY, "period": "fortnight"}, {}, "limits[0].period", "'month'"),
        (
            {**MONTHLY, "time_zone": "Mars/Olympus"},
            {},
            "limits[0].time_zone",
            "expected a time zone such as UTC or Europe/Zurich, got 'Mars/Olympus'",
        ),
        ({**MONTHLY, "time_zone": "/etc/passwd"}, {}, "limits[0].time_zone", "zone"),
        ({**MONTHLY, "burst": 5}, {}, "limits[0].burst", "expected the rate, 1000"),
        ({**MONTHLY, "period_s": 60}, {}, "limits[0]", "but not both"),
        ({**MONTHLY, "samples": 5}, {}, "limits[0]", "expected no samples"),
        (MONTHLY, {"mode": "strict"}, "mode", "strict groups can't have calendar"),
    ],
)
def test_what_makes_no_sense_of_a_calendar_period_is_refused_where_it_stands(
    rest: httpx.Client,
    limit: dict[str, object],
    fields: dict[str, object],
    where: str,
    expected: str,
) -> None:
    answer = put(rest, limit, **fields)
    assert answer.status_code in {400, 422}, answer.text
    assert where in answer.text
    assert expected in answer.text
