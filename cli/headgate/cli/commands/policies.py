"""`headgate policy`: rates of single topics, per broker, namespace or topic.

The most specific level wins: topic, then namespace, then broker.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from headgate.cli.client.paths import APPLY, SETTINGS
from headgate.cli.failure import Failure, Misused
from headgate.cli.options import broker_settings
from headgate.cli.options.common import Api, AsJson, DryRun, Yes
from headgate.cli.options.dataclass_options import spread
from headgate.cli.options.limits import (
    parse_period,
    parse_quantity,
    show_period,
    show_quantity,
)
from headgate.cli.options.output import Output
from headgate.cli.output.confirmation import DELETE, confirm, confirm_change
from headgate.cli.output.plan import print_plan
from headgate.cli.output.printing import (
    Listing,
    print_document,
    print_items,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headgate.cli.client.rest import JsonObject, Rest

PATH = "/api/v1/policies"

policy = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Policy = broker_settings.Policy

Kind = Annotated[
    Literal[
        "dispatch",
        "subscription-dispatch",
        "replicator-dispatch",
        "publish",
        "subscribe",
        "broker-dispatch",
        "broker-publish",
    ],
    typer.Argument(
        help="What to throttle; the last two apply to all topics of a broker together.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class PolicyTarget:
    """The level of a policy: exactly one of the three."""

    broker: Annotated[
        bool, typer.Option("--broker", help="All topics of all brokers.")
    ] = False
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT/NAMESPACE",
            help="All topics of the namespace.",
            show_default=False,
        ),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT/NAMESPACE/TOPIC", help="This topic.", show_default=False
        ),
    ] = None

    def level(self) -> tuple[str, str]:
        """Return the level and the name at it, which is empty for the broker.

        Raises:
            Misused: None was given, or more than one.
        """
        named = {"namespace": self.namespace, "topic": self.topic}
        said = [(kind, name) for kind, name in named.items() if name is not None]
        if self.broker:
            said.append(("broker", ""))
        if len(said) != 1:
            raise Misused("expected one of --broker, --namespace and --topic")
        return said[0]


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a policy."""

    messages: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Messages per period, such as 1000 or 10k; for subscribe: attempts.",
            show_default="unlimited",
        ),
    ] = None
    bytes: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Bytes per period, such as 10M or 1.5Mi.",
            show_default="unlimited",
        ),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(help="The period, such as s, 10s or m.", show_default="s"),
    ] = None
    relative_to_publish_rate: Annotated[
        bool,
        typer.Option(
            "--relative-to-publish-rate",
            help="Add the current publish rate to the rates.",
        ),
    ] = False

    def said(self) -> Policy:
        """Return the policy, with the given settings only.

        Raises:
            Misused: No rate was given, or one can't be parsed.
        """
        if self.messages is None and self.bytes is None:
            raise Misused("expected --messages or --bytes, or both")
        policy: Policy = {}
        for name, text in (("messages", self.messages), ("bytes", self.bytes)):
            if text is not None:
                policy[name] = parse_quantity(text)
        if self.period is not None:
            policy["period_s"] = parse_period(self.period)
        if self.relative_to_publish_rate:
            policy["relative_to_publish_rate"] = True
        return policy


_SET_EPILOG = """[bold]Examples[/bold]

headgate policy set dispatch --broker --messages 1000

headgate policy set dispatch --namespace acme/orders --messages 500 --bytes 10M

headgate policy set subscribe --topic acme/orders/paid --messages 5 --period 30s

headgate policy set publish --namespace acme/orders --bytes 1M --dry-run

A policy is replaced as a whole: a rate that you omit is unlimited."""

_GET_EPILOG = """[bold]Examples[/bold]

headgate policy get dispatch --topic acme/orders/paid    (what applies, and why)

headgate policy get publish --broker --json"""

_LIST_EPILOG = """[bold]Examples[/bold]

headgate policy list

headgate policy list --namespace acme/orders --json"""

_REMOVE_EPILOG = """[bold]Examples[/bold]

headgate policy remove dispatch --namespace acme/orders

headgate policy remove publish --broker"""


@policy.command("list", epilog=_LIST_EPILOG)
@spread
def list_policies(where: PolicyTarget, api: Api, output: Output) -> None:
    """List the policies of all levels, or of one."""
    chosen = output.format()
    all_levels = where == PolicyTarget()
    level, target = ("", "") if all_levels else where.level()
    items: list[JsonObject] = []
    with api.connect() as rest:
        if level in {"", "broker"}:
            items += _at_broker(rest)
        if level != "broker":
            query = {"level": level, "target": target} if level else {}
            items += rest.pages(PATH, query)
    print_items(_LISTING, items, chosen)


@policy.command("get", epilog=_GET_EPILOG)
@spread
def get_policy(kind: Kind, where: PolicyTarget, api: Api, output: Output) -> None:
    """Show the policy of a broker or namespace, or the one that applies to a topic."""
    chosen = output.format()
    level, target = where.level()
    name = _checked_kind(kind, level)
    with api.connect() as rest:
        if level == "topic":
            query = {"topic": target, "kind": name}
            applies = rest.call("GET", f"{PATH}/effective", query=query)
            found = {"kind": name, **applies}
        else:
            found = _found(rest, level, target, name)
    if print_document(found, chosen, names=lambda: [_words(found)]):
        return
    if found["level"] is None:
        print_line(f"{kind} of {level} {target}: unlimited; no level sets a rate")
    else:
        source = "" if found["level"] == level else f", from the {found['level']}"
        print_line(f"{kind} of {_of(level, target)}: {_shown_policy(found)}{source}")


@policy.command("set", epilog=_SET_EPILOG)
@spread
def set_policy(
    kind: Kind,
    where: PolicyTarget,
    rates: Rates,
    api: Api,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Set a rate for each topic on its own. Setting it again changes nothing."""
    level, target = where.level()
    name, said = _checked_kind(kind, level), rates.said()
    one = {"level": level, "target": target, "kind": name, "policy": said}
    body: dict[str, object] = {"policies": [one]}
    if level == "broker":
        body = {"settings": broker_settings.settings_of(name, said)}
    with api.connect() as rest:
        if level == "broker" or dry_run:  # several keys, in one transaction
            query = {"dry_run": "true" if dry_run else "false"}
            print_plan(rest.call("POST", APPLY, body=body, query=query), as_json)
            return
        answer = rest.call("PUT", PATH, body=one)
    line = f"{kind} of {_of(level, target)} set: {_shown_policy(answer)}"
    print_result(line, answer, as_json=as_json)


@policy.command("remove", epilog=_REMOVE_EPILOG)
@spread
def remove_policy(
    kind: Kind,
    where: PolicyTarget,
    api: Api,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove a policy, so that the next wider level applies again.

    Asks first; without a terminal, needs --yes.
    """
    level, target = where.level()
    name = _checked_kind(kind, level)
    with api.connect() as rest:
        if level == "broker":
            _remove_at_broker(rest, name, yes=yes)
        else:
            query = {"level": level, "target": target, "kind": name}
            one: dict[str, object] = {**query, "policy": {}}
            confirm_change(rest, DELETE, {"policies": [one]}, yes=yes)
            rest.call("DELETE", PATH, query=query)
    print_result(
        f"{kind} of {_of(level, target)} removed",
        {"removed": {"level": level, "target": target, "kind": name}},
        as_json=as_json,
    )


def _remove_at_broker(rest: "Rest", kind: str, *, yes: bool) -> None:
    present = rest.call("GET", SETTINGS)
    there = [key for key in broker_settings.keys_of(kind) if key in present]
    if not there:
        raise Failure(f"policy {kind} of the broker does not exist")
    confirm([f"the broker's {kind.replace('_', '-')} rate will be removed"], yes=yes)
    rest.call("POST", APPLY, body={"settings": dict.fromkeys(there)})


def _at_broker(rest: "Rest") -> "list[JsonObject]":
    settings = cast("dict[str, str]", rest.call("GET", SETTINGS))
    return [
        {"level": "broker", "target": "", "kind": kind, "policy": found}
        for kind, found in broker_settings.policies_in(settings).items()
    ]


def _found(rest: "Rest", level: str, target: str, kind: str) -> "JsonObject":
    """Return the policy of that very level.

    Raises:
        Failure: There is none.
    """
    if level == "broker":
        items = _at_broker(rest)
    else:
        items = list(rest.pages(PATH, {"level": level, "target": target}))
    for one in items:
        if one["kind"] == kind:
            return one
    raise Failure(f"{_of(level, target)} has no {kind.replace('_', '-')} policy")


def _checked_kind(kind: str, level: str) -> str:
    """Return the API's name for a kind.

    Raises:
        Misused: It exists only for the broker, and another level was given.
    """
    if kind.startswith("broker-") and level != "broker":
        raise Misused(f"{kind}: expected --broker, the only level that has it")
    return kind.replace("-", "_")


def _of(level: str, target: str) -> str:
    return "the broker" if level == "broker" else f"{level} {target}"


def _row(one: "JsonObject") -> list[str]:
    kind = str(one["kind"]).replace("_", "-")
    return [str(one["level"]), str(one["target"]), kind, _shown_policy(one)]


def _shown_policy(one: "JsonObject") -> str:
    """Return a policy in words, such as ``500 messages/s, unlimited bytes``."""
    told = cast("Policy", one["policy"])
    period = show_period(cast("float", told.get("period_s", 1.0)))
    words = {"messages": "messages", "bytes": "bytes"}
    if one.get("kind") == "subscribe":
        words = {"messages": "subscribes"}
    parts = [_rate(told.get(name), word, period) for name, word in words.items()]
    if told.get("relative_to_publish_rate"):
        parts.append("on top of the publish rate")
    return ", ".join(parts)


def _rate(units: object, word: str, period: str) -> str:
    if units in (None, "unlimited"):
        return f"unlimited {word}"
    return f"{show_quantity(cast('float', units))} {word}/{period}"


def _words(one: "JsonObject") -> str:
    """Return a policy as `headgate policy get` and `remove` take it."""
    kind, level = str(one["kind"]).replace("_", "-"), one.get("level")
    if level is None:
        return kind
    return f"{kind} --{level}" + ("" if level == "broker" else f"={one['target']}")


_LISTING = Listing["JsonObject"](
    ["level", "of", "kind", "policy"],
    _row,
    _words,
    wide=["revision>"],
    wide_row=lambda one: [str(one.get("revision", ""))],
)
