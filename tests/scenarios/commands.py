"""The words of the text scenarios, and what each answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tests.scenarios.world import DIMENSION, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.coordinator.config.configuration import Isolation, Mode


WORDS = {"alive": True, "gone": False, "unknown": None}
"""What the API can say of a process."""


def perform(world: World, line: str) -> str:
    """Carry out one command and return what it prints."""
    verb, *words = line.split()
    plain = [word for word in words if "=" not in word]
    named = dict(word.split("=", 1) for word in words if "=" in word)
    return VERBS[verb](world, plain, named)


def _group(world: World, plain: list[str], named: dict[str, str]) -> str:
    rate = float(named["rate"])
    world.group(
        int(plain[0]),
        rate=rate,
        burst=float(named.get("burst", rate)),
        mode=cast("Mode", named.get("mode", "balanced")),
        isolation=cast("Isolation", named.get("isolation", "fair")),
    )
    return ""


def _start(world: World, plain: list[str], named: dict[str, str]) -> str:
    for name in plain:
        world.start(
            name,
            agent=named.get("id", ""),
            incarnation=int(named.get("incarnation", "1")),
        )
    return ""


def _load(world: World, plain: list[str], named: dict[str, str]) -> str:
    name, group_id = plain
    admitted, refused = named.get("admitted", "0"), named.get("refused", "0")
    world.load(name, int(group_id), float(admitted), float(refused))
    return ""


def _use(world: World, plain: list[str], named: dict[str, str]) -> str:
    name, group_id = plain
    admitted, refused = named.get("admitted", "0"), named.get("refused", "0")
    world.use(name, int(group_id), float(admitted), float(refused))
    return ""


def _run(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.run(float(plain[0]))
    return ""


def _level(world: World, plain: list[str], named: dict[str, str]) -> str:
    name, group_id = plain
    shown = world.processes[name].coordinator.explain(
        int(group_id), DIMENSION, world.now
    )
    return (
        f"reported {shown.level_reported:.0f}, predicted {shown.predicted:.0f}, "
        f"unseen {shown.unseen:.0f}: level {shown.level:.0f} of {shown.burst:.0f}; "
        f"Q' {shown.available:.0f}, kept for the silent {shown.reserved:.0f}"
    )


def _shares(world: World, plain: list[str], named: dict[str, str]) -> str:
    name, group_id = plain
    view = world.processes[name].coordinator.explain(
        int(group_id), DIMENSION, world.now
    )
    return "\n".join(
        f"{row.agent}: demand {row.demand:.0f}, share {row.share:.0f}, "
        f"admitted {row.admitted:.0f}, {row.state}"
        for row in view.agents
    )


def _ceiling(world: World, plain: list[str], named: dict[str, str]) -> str:
    name, group_id = plain
    told = world.processes[name].ceilings.get(int(group_id))
    if told is None:
        return "never told"
    return f"{told.ceilings.ceiling[0]:.0f}/s, then {told.ceilings.reserve[0]:.0f}/s"


def _members(world: World, plain: list[str], named: dict[str, str]) -> str:
    views = world.processes[plain[0]].coordinator.members(world.now)
    return "\n".join(
        f"{view.agent} life {view.incarnation}: {view.state}" for view in views
    )


def _reports(world: World, plain: list[str], named: dict[str, str]) -> str:
    process = world.processes[plain[0]]
    lines: list[str] = []
    for report in process.sent:
        words = [
            word for word in ("hello", "leave", "keyframe") if getattr(report, word)
        ]
        rows = sum(len(rows.group_ids) for rows in report.rows)
        lines.append(" ".join([f"#{report.sequence}", *words, f"{rows} rows"]))
    process.sent.clear()
    return "\n".join(lines) or "none"


def _noticed(world: World, plain: list[str], named: dict[str, str]) -> str:
    process = world.processes[plain[0]]
    text = "\n".join(process.noticed) or "nothing"
    process.noticed.clear()
    return text


def _apart(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.apart.append(set(plain))
    return ""


def _together(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.apart.clear()
    return ""


def _kill(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.kill(plain[0])
    return ""


def _stop(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.stop(plain[0])
    return ""


def _vouch(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.vouch(plain[0], alive=WORDS[plain[1]])
    return ""


def _lose(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.losing = int(plain[0])
    return ""


def _double(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.doubling = plain[0] == "on"
    return ""


def _pause(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.processes[plain[0]].paused = True
    return ""


def _resume(world: World, plain: list[str], named: dict[str, str]) -> str:
    world.processes[plain[0]].paused = False
    return ""


VERBS: dict[str, Callable[[World, list[str], dict[str, str]], str]] = {
    "group": _group,
    "start": _start,
    "load": _load,
    "use": _use,
    "run": _run,
    "level": _level,
    "shares": _shares,
    "ceiling": _ceiling,
    "members": _members,
    "reports": _reports,
    "noticed": _noticed,
    "apart": _apart,
    "together": _together,
    "kill": _kill,
    "stop": _stop,
    "vouch": _vouch,
    "lose": _lose,
    "double": _double,
    "pause": _pause,
    "resume": _resume,
}
