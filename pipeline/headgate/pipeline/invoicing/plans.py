"""Price plans: what a unit costs, for whom, and from when.

A plan has a currency, a monthly fee, and for each dimension a price in tiers.  The
tiers count the units of a calendar month, in the time zone of the tenant; an included
amount is a first tier that costs nothing.  A plan may have several versions, each
valid for whole months.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import yaml

from headgate.agent.follow.periods import UnknownTimeZone, zone_of
from headgate.pipeline.settings import WrongSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from headgate.agent.json_place import Json

Counts = Literal["admitted", "attempted"]

FOREVER = date.max
"""A plan without an end is valid until then."""

MOST_DECIMALS = 6
"""Most decimals of a currency: the table keeps this many."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Part of a month's units.

    Attributes:
        up_to: Last unit of the tier, counted from the month's first; None for all.
        price: Of `Price.per` units.
    """

    up_to: Decimal | None
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What the units of one dimension cost.

    Attributes:
        dimension: What is counted, such as ``requests``.
        tiers: Ascending; the last one has no end.
        per: Units that a tier's price is for.
        counts: Whether refused units are paid for as well.
    """

    dimension: str
    tiers: tuple[Tier, ...]
    per: Decimal = Decimal(1)
    counts: Counts = "admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePlan:
    """One version of a plan.

    Attributes:
        name: Of the plan; its versions share it.
        currency: Code of ISO 4217.
        decimals: To which the amount of each line is rounded, half up.
        monthly_fee: Of every month in which the tenant used something.
        valid_from: First month, as its first day.
        valid_until: First month that it is no longer valid for.
        prices: Of each dimension that costs something.
    """

    name: str
    currency: str
    decimals: int = 2
    monthly_fee: Decimal = Decimal(0)
    valid_from: date = date.min
    valid_until: date = FOREVER
    prices: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The plan by which a tenant pays, and when its months begin."""

    plan: str
    time_zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """All plans, and who is on which.

    Attributes:
        plans: All versions.
        tenants: Accounts by tenant.
        default: Account of tenants that are not named; None: they get no invoice.
    """

    plans: tuple[PricePlan, ...]
    tenants: Mapping[str, Account] = field(default_factory=dict[str, Account])
    default: Account | None = None

    def account_of(self, tenant: str) -> Account | None:
        """Return the account of a tenant; None if it gets no invoice."""
        return self.tenants.get(tenant, self.default)

    def plan_in(self, name: str, month: date) -> PricePlan | None:
        """Return the version of a plan that is valid in a month, its first day."""
        for plan in self.plans:
            if plan.name == name and plan.valid_from <= month < plan.valid_until:
                return plan
        return None


def read_prices(path: Path) -> PriceList:
    """Return the price list in a file, YAML or JSON.

    Raises:
        WrongSettings: It is not a price list; says where and what was expected.
        OSError: It can't be read.
    """
    try:
        found: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongSettings(f"{path}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise WrongSettings(
            f"{path}: expected a price list, but it is nested too deeply"
        ) from None
    return prices_of(found, str(path))


def prices_of(document: Json, place: str = "prices") -> PriceList:
    """Return the price list in a document.

    Raises:
        WrongSettings: Something in it is wrong; says where.
    """
    top = _mapping(document, place, {"plans", "tenants", "default"})
    plans = tuple(
        _plan(each, f"{place}: plans[{n}]")
        for n, each in enumerate(_list(top.get("plans"), f"{place}: plans"))
    )
    _apart(plans, place)
    names = {plan.name for plan in plans}
    tenants: dict[str, Account] = {}
    for n, each in enumerate(_list(top.get("tenants", []), f"{place}: tenants")):
        where = f"{place}: tenants[{n}]"
        fields = _mapping(each, where, {"name", "plan", "time_zone"})
        name = _text(fields, "name", where)
        if name in tenants:
            raise WrongSettings(
                f"{where}: expected each tenant once, got {name!r} twice"
            )
        tenants[name] = _account(fields, where, names)
    default = None
    if "default" in top:
        where = f"{place}: default"
        fields = _mapping(top["default"], where, {"plan", "time_zone"})
        default = _account(fields, where, names)
    return PriceList(plans=plans, tenants=tenants, default=default)


def _plan(document: Json, place: str) -> PricePlan:
    fields = _mapping(
        document,
        place,
        {"name", "currency", "decimals", "monthly_fee", "valid_from", "valid_until",
         "prices"},
    )  # fmt: skip
    currency = _text(fields, "currency", place)
    if not re.fullmatch("[A-Z]{3}", currency):
        raise WrongSettings(
            f"{place}: currency: expected a code such as CHF, got {currency!r}"
        )
    decimals = fields.get("decimals", 2)
    if type(decimals) is not int or not 0 <= decimals <= MOST_DECIMALS:
        raise WrongSettings(
            f"{place}: decimals: expected 0 to {MOST_DECIMALS}, got {decimals!r}"
        )
    begin, end = (
        _month(fields, "valid_from", place),
        _month(fields, "valid_until", place),
    )
    if end is not None and begin is not None and end <= begin:
        raise WrongSettings(f"{place}: valid_until: expected a month after {begin}")
    prices = tuple(
        _price(each, f"{place}: prices[{n}]")
        for n, each in enumerate(_list(fields.get("prices", []), f"{place}: prices"))
    )
    dimensions = [price.dimension for price in prices]
    for dimension in dimensions:
        if dimensions.count(dimension) > 1:
            raise WrongSettings(
                f"{place}: prices: expected each dimension once, got {dimension!r} "
                "twice"
            )
    return PricePlan(
        name=_text(fields, "name", place),
        currency=currency,
        decimals=decimals,
        monthly_fee=_amount(fields.get("monthly_fee", 0), f"{place}: monthly_fee"),
        valid_from=begin or date.min,
        valid_until=end or FOREVER,
        prices=prices,
    )


def _price(document: Json, place: str) -> Price:
    fields = _mapping(
        document, place, {"dimension", "counts", "per", "included", "price", "tiers"}
    )
    counts = fields.get("counts", "admitted")
    if counts not in ("admitted", "attempted"):
        raise WrongSettings(
            f"{place}: counts: expected admitted or attempted, got {counts!r}"
        )
    per = _amount(fields.get("per", 1), f"{place}: per")
    if not per:
        raise WrongSettings(f"{place}: per: expected a number > 0")
    if ("price" in fields) == ("tiers" in fields):
        raise WrongSettings(f"{place}: expected either a price or tiers")
    tiers: list[Tier] = []
    included = _amount(fields.get("included", 0), f"{place}: included")
    if included:
        tiers.append(Tier(included, Decimal(0)))
    only: list[Json] = [{"price": fields.get("price")}]
    for n, each in enumerate(_list(fields.get("tiers", only), f"{place}: tiers")):
        tiers.append(_tier(each, f"{place}: tiers[{n}]", tiers))
    if not tiers or tiers[-1].up_to is not None:
        raise WrongSettings(f"{place}: tiers: expected the last one to have no up_to")
    return Price(
        dimension=_text(fields, "dimension", place),
        tiers=tuple(tiers),
        per=per,
        counts="attempted" if counts == "attempted" else "admitted",
    )


def _tier(document: Json, place: str, before: Sequence[Tier]) -> Tier:
    fields = _mapping(document, place, {"up_to", "price"})
    price = _amount(fields.get("price"), f"{place}: price")
    begin = before[-1].up_to if before else Decimal(0)
    if begin is None:
        raise WrongSettings(f"{place}: expected no tier after one without up_to")
    if "up_to" not in fields:
        return Tier(None, price)
    up_to = _amount(fields["up_to"], f"{place}: up_to")
    if up_to <= begin:
        raise WrongSettings(
            f"{place}: up_to: expected more than {begin:f}, got {up_to:f}"
        )
    return Tier(up_to, price)


def _account(fields: Mapping[str, Json], place: str, plans: set[str]) -> Account:
    plan = _text(fields, "plan", place)
    if plan not in plans:
        raise WrongSettings(f"{place}: plan: {plan!r} does not exist")
    zone = fields.get("time_zone", "UTC")
    try:
        zone_of(str(zone))
    except UnknownTimeZone as error:
        raise WrongSettings(f"{place}: time_zone: {error}") from None
    return Account(plan, str(zone))


def _apart(plans: Sequence[PricePlan], place: str) -> None:
    """Refuse versions of one plan that are valid at the same time."""
    ordered = sorted(plans, key=lambda plan: (plan.name, plan.valid_from))
    for one, following in pairwise(ordered):
        if one.name == following.name and following.valid_from < one.valid_until:
            raise WrongSettings(
                f"{place}: two versions of plan {one.name!r} are valid in "
                f"{following.valid_from:%Y-%m}"
            )


def _mapping(document: Json, place: str, allowed: set[str]) -> dict[str, Json]:
    if not isinstance(document, dict):
        raise WrongSettings(f"{place}: expected a mapping")
    for name in document:
        if name not in allowed:
            raise WrongSettings(
                f"{place}: unknown {name!r}, expected one of "
                f"{', '.join(sorted(allowed))}"
            )
    return document


def _list(document: Json, place: str) -> list[Json]:
    if not isinstance(document, list):
        raise WrongSettings(f"{place}: expected a list")
    return document


def _text(fields: Mapping[str, Json], name: str, place: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str) or not found:
        raise WrongSettings(f"{place}: {name}: expected text, got {found!r}")
    return found


def _amount(found: Json, place: str) -> Decimal:
    """Return a number that is at least zero, exactly as it is written."""
    try:
        if isinstance(found, bool):
            raise InvalidOperation
        amount = Decimal(str(found))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise WrongSettings(f"{place}: expected a number ≥ 0, got {found!r}")
    return amount


def _month(fields: Mapping[str, Json], name: str, place: str) -> date | None:
    """Return the first day of a month; None if the field is missing."""
    found: object = fields.get(name)
    if found is None:
        return None
    if isinstance(found, str):
        try:
            found = date.fromisoformat(found)
        except ValueError:
            found = None
    if type(found) is not date or found.day != 1:
        raise WrongSettings(
            f"{place}: {name}: expected the first day of a month, such as 2026-01-01, "
            f"got {fields[name]!s}"
        )
    return found
