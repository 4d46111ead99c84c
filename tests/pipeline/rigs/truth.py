"""What the tables must hold: one message, row and unit at a time, in plain Python.

Written from docs/pipeline.md, docs/reference/pipeline-tables.md and decision 34, not
from the pipeline's code, of which nothing is imported.  Amounts are fractions, which
Python adds up exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, inf
from statistics import median_low
from typing import TYPE_CHECKING

from tests.pipeline.rigs.generated import (
    GROUPS,
    NOTHING,
    UNKNOWN_GROUP,
    Sent,
    Told,
    configurations,
    subjects_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WINDOW, MINUTE, HOUR, DAY = 10, 60, 3600, 86_400
SECOND = 1_000_000

Row = dict[str, object]
Place = tuple[str, int]
"""Dimension and group."""


@dataclass(slots=True)
class Known:
    """The last counters that were told of one group."""

    refused: Fraction = NOTHING
    admitted: Fraction = NOTHING
    at_us: int = 0
    held: int = 0


@dataclass(slots=True)
class Life:
    """What is known of one life of an agent."""

    agent: str
    number: int
    weight: float = 1.0
    revision: int = 0
    sequence: int = 0
    first: int = 0
    began_us: int = 0
    heard_us: int = 0
    left: bool = False
    listed: bool = False
    returned: bool = False
    known: dict[Place, Known] = field(default_factory=dict[Place, Known])


@dataclass(slots=True)
class Cell:
    """What one life used in one dimension and window."""

    life: Life
    dimension: str
    window_us: int
    displaced: bool
    revisions: set[int] = field(default_factory=set[int])
    used: dict[int, list[Fraction]] = field(default_factory=dict[int, list[Fraction]])


class Truth:
    """Takes the messages batch by batch; `tables` are the rows of each table."""

    def __init__(self, *, lateness_s: int, silence_s: int, keep_s: int) -> None:
        self.tables: dict[str, list[Row]] = defaultdict(list)
        self._lateness_us = lateness_s * SECOND
        self._silence_us, self._keep_us = silence_s * SECOND, keep_s * SECOND
        self._lives: dict[str, dict[int, Life]] = defaultdict(dict)
        self._over: set[tuple[str, int]] = set()
        self._cells: list[Cell] = []
        self._reference_us = self._watermark_us = self._floor_us = 0

    def batch(self, messages: Sequence[tuple[int, Sent]]) -> None:
        """Take one batch, with the offset of each message."""
        before_us = self._watermark_us
        self._floor_us = _begin(before_us, WINDOW)
        self._watermark_us = max(before_us, self._reference_us - self._lateness_us)
        heard: dict[str, int] = {}
        readable: list[tuple[Told, int, Sent]] = []
        for offset, sent in messages:
            if sent.told is None:
                self._bury(offset, sent, sent.wrong)
            else:
                readable.append((sent.told, offset, sent))
        readable.sort(key=lambda each: (each[0].life, each[0].sequence, each[1]))
        for told, offset, sent in readable:
            fault = self._take(told, heard)
            if fault:
                self._bury(offset, sent, fault)
        self._close(self._end())
        self._roll_up("usage_1m", "usage_10s", MINUTE, before_us)
        self._noisy(before_us)
        self._roll_up("usage_1h", "usage_1m", HOUR, before_us)
        if heard:
            middle = median_low(heard.values())
            near = [t for t in heard.values() if abs(t - middle) <= 60 * SECOND]
            self._reference_us = max(self._reference_us, min(near))

    def finish(self) -> None:
        """Add what a run that ends with the topic leaves open, and the bill."""
        for rows in _merged(self._cells):
            self.tables["usage_open"] += rows
        self._bill()

    # Reports

    def _bury(self, offset: int, sent: Sent, reason: str) -> None:
        self.tables["dead_letters"].append(
            {
                "received": round(sent.second * 1e3) * 1_000,
                "partition": 0,
                "offset": offset,
                "payload": sent.value[:1024],
                "reason": reason,
            }
        )

    def _take(self, told: Told, heard: dict[str, int]) -> str:
        """Take one report in; return what is wrong with it, or nothing."""
        of = self._lives[told.agent]
        if told.life not in of and (told.agent, told.life) in self._over:
            return "closed long ago"
        life = of.get(told.life) or Life(told.agent, told.life)
        at_us = max(told.at_ms * 1_000, life.heard_us)
        most = 1_000 + 40 * (at_us - life.heard_us) / SECOND
        if life.first and told.sequence - life.sequence > most:
            return "a jump of at most"
        of[told.life] = life
        if told.sequence <= life.sequence:
            return ""
        since_us = life.heard_us or at_us
        if not life.first:
            life.first, life.began_us = told.sequence, at_us
        if life.first > 10 and told.sequence <= life.first + 10:
            since_us = 0  # its past is of unknown length
        life.sequence, life.heard_us = told.sequence, at_us
        life.revision, life.weight = told.revision, told.weight
        life.left |= told.leave
        life.returned |= life.listed
        life.listed = False
        heard[told.agent] = max(heard.get(told.agent, 0), at_us)
        fallen = sum(
            self._count(life, dimension, counted, since_us, told.held)
            for dimension, counted in told.counted.items()
        )
        return f"counters fell in {fallen} rows" if fallen else ""

    def _count(
        self,
        life: Life,
        dimension: str,
        counted: dict[int, tuple[Fraction, Fraction]],
        since_us: int,
        held: int,
    ) -> int:
        """Spread what was used since each group was last told of; count the fallen."""
        at_us, fallen = life.heard_us, 0
        begun = [at_us]
        for group, (refused, admitted) in counted.items():
            known = life.known.setdefault((dimension, group), Known(at_us=since_us))
            start_us = known.at_us
            more = refused - known.refused, admitted - known.admitted
            if min(more) < 0:
                fallen, more = fallen + 1, (NOTHING, NOTHING)
            if at_us - start_us <= HOUR * SECOND:
                begun.append(start_us)
            self._spread(life, dimension, group, more, start_us)
            known.refused, known.admitted = (
                known.refused + more[0],
                known.admitted + more[1],
            )
            known.at_us, known.held = at_us, held
        # A window is of all revisions of the reports that tell of it.
        for cell in self._cells:
            if (cell.life, cell.dimension) == (life, dimension) and (
                cell.displaced or cell.window_us >= _begin(min(begun), WINDOW)
            ):
                cell.revisions.add(life.revision)
        return fallen

    def _spread(
        self,
        life: Life,
        dimension: str,
        group: int,
        units: tuple[Fraction, Fraction],
        start_us: int,
    ) -> None:
        """Spread evenly from `start_us` to the report; earlier parts rounded down."""
        at_us = max(life.heard_us, self._floor_us)
        last_us = _begin(at_us, WINDOW)
        if at_us - start_us > HOUR * SECOND:
            self._add(life, dimension, group, last_us, True, units)
            return
        gone = (NOTHING, NOTHING)
        ends: list[tuple[int, int, bool]] = []
        if start_us < self._floor_us:
            ends.append((self._floor_us, self._floor_us, True))
        window_us = _begin(max(start_us, self._floor_us), WINDOW)
        while window_us < last_us:
            ends.append((window_us + WINDOW * SECOND, window_us, False))
            window_us += WINDOW * SECOND
        for end_us, begin_us, displaced in ends:
            passed = (end_us - start_us) / max(at_us - start_us, 1)
            upto = tuple(n if passed >= 1 else _earlier(n, passed) for n in units)
            part = upto[0] - gone[0], upto[1] - gone[1]
            self._add(life, dimension, group, begin_us, displaced, part)
            gone = upto[0], upto[1]
        rest = units[0] - gone[0], units[1] - gone[1]
        self._add(life, dimension, group, last_us, False, rest)

    def _add(
        self,
        life: Life,
        dimension: str,
        group: int,
        window_us: int,
        displaced: bool,
        units: tuple[Fraction, Fraction],
    ) -> None:
        for cell in self._cells:
            if (cell.window_us, cell.displaced) == (window_us, displaced) and (
                cell.life is life and cell.dimension == dimension
            ):
                break
        else:
            cell = Cell(life, dimension, window_us, displaced)
            self._cells.append(cell)
        cell.revisions.add(life.revision)
        sums = cell.used.setdefault(group, [NOTHING, NOTHING])
        sums[0], sums[1] = sums[0] + units[0], sums[1] + units[1]

    # Ends of lives

    def _end(self) -> list[Life]:
        """List gaps; return the lives that are given up now."""
        given_up: list[Life] = []
        for of in self._lives.values():
            for life in list(of.values()):
                if life.returned:
                    life.returned = False
                    self._gap(life, None, healed=True)
                silent = life.heard_us + self._silence_us <= self._watermark_us
                if not (life.left or silent):
                    continue
                if not life.left and not life.listed:
                    life.listed = True
                    later = [n for n in of if n > life.number]
                    until_us = of[min(later)].began_us if later else None
                    self._gap(life, until_us, healed=False)
                if life.heard_us + self._keep_us <= self._watermark_us:
                    self._over.add((life.agent, life.number))
                    given_up.append(of.pop(life.number))
                    self._final(life)
        return given_up

    def _gap(self, life: Life, until_us: int | None, *, healed: bool) -> None:
        alive_us = self._silence_us
        if until_us is not None:
            alive_us = min(alive_us, until_us - life.heard_us)
        for (dimension, group), known in life.known.items():
            untold_s = (life.heard_us - known.at_us + alive_us) / SECOND
            limit = limit_of(dimension, group, {life.revision})
            bound = limit and known.held + limit[0] * untold_s + limit[1]
            self.tables["gaps"].append(
                named(dimension, group)
                | {
                    "heard": life.heard_us,
                    "until": until_us,
                    "agent": life.agent,
                    "incarnation": life.number,
                    "sequence": life.sequence,
                    "held": known.held,
                    "bound": bound,
                    "healed": healed,
                }
            )

    def _final(self, life: Life) -> None:
        for (dimension, group), known in life.known.items():
            self.tables["counters"].append(
                {
                    "heard": life.heard_us,
                    "group_id": group,
                    "dimension": dimension,
                    "agent": life.agent,
                    "incarnation": life.number,
                    "sequence": life.sequence,
                    "refused": known.refused,
                    "admitted": known.admitted,
                }
            )

    # Windows

    def _close(self, given_up: list[Life]) -> None:
        """Write the windows that end, and what is made of each."""
        closed = [
            cell
            for cell in self._cells
            if cell.window_us + WINDOW * SECOND <= self._watermark_us
            or any(cell.life is life for life in given_up)
        ]
        self._cells = [c for c in self._cells if not any(c is d for d in closed)]
        fresh = [row for rows in _merged(closed) for row in rows]
        self.tables["usage_10s"] += fresh
        by_group: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in fresh:
            if not row["displaced"]:
                key = row["window_start"], row["dimension"], row["group_id"]
                by_group[key].append(row)
        for rows in by_group.values():
            self._judge(rows)

    def _judge(self, rows: list[Row]) -> None:
        """Compare one group's window with its limit, and with weighted max-min."""
        one = {name: rows[0][name] for name in ("window_start", *NAMES)}
        one["window_s"] = float(WINDOW)
        wanted = [amount(row["attempted"]) for row in rows]
        got = [amount(row["admitted"]) for row in rows]
        weights = [real(row["weight"]) for row in rows]
        self._violation(one, [row for row in rows if row["admitted"]], total(got))
        if len(rows) < 2 or wanted == got:
            return
        asked = [float(n) for n in wanted]
        level = water_level(float(total(got)), list(zip(asked, weights, strict=True)))
        fair = [min(n, w * level) for n, w in zip(asked, weights, strict=True)]
        parts = [float(a) / b if b else 1.0 for a, b in zip(got, fair, strict=True)]
        squares = sum(x * x for x in parts)
        lacking = [max(b - float(a), 0.0) for a, b in zip(got, fair, strict=True)]
        self.tables["unfairness"].append(
            one
            | {
                "agents": len(rows),
                "attempted": total(wanted),
                "admitted": total(got),
                "jain": sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0,
                "distance": sum(lacking) / sum(fair) if sum(fair) else 0.0,
                "level": level,
            }
        )
        for row, ought in zip(rows, fair, strict=True):
            has = float(amount(row["admitted"]))
            if has < 0.9 * ought and ought - has >= 1:
                who = {name: row[name] for name in ("agent", "weight", *AMOUNTS[:2])}
                more = {"fair": ought, "lacking": ought - has}
                self.tables["starved"].append(one | who | more)

    def _violation(self, one: Row, takers: list[Row], admitted: Fraction) -> None:
        first = min((whole(row["revision_first"]) for row in takers), default=0)
        last = max((whole(row["revision_last"]) for row in takers), default=0)
        limit = limit_of(
            str(one["dimension"]), whole(one["group_id"]), {*range(first, last + 1)}
        )
        allowed = limit[0] * WINDOW + limit[1] if limit else inf
        if admitted <= allowed:
            return
        most = sorted((-amount(row["admitted"]), str(row["agent"])) for row in takers)
        self.tables["violations"].append(
            one
            | {
                "admitted": admitted,
                "allowed": allowed,
                "excess": admitted - allowed,
                "rate_per_s": limit[0] if limit else None,
                "burst": limit[1] if limit else None,
                "agents": len(takers),
                "takers": [(agent, float(-n)) for n, agent in most[:5]],
            }
        )

    def _roll_up(self, name: str, source: str, length: int, before_us: int) -> None:
        sums: dict[tuple[object, ...], Row] = {}
        for row in self._between(source, length, before_us):
            start_us = _begin(whole(row["window_start"]), length)
            key = (start_us, *(row[k] for k in (*NAMES, "agent", "displaced")))
            if key not in sums:
                sums[key] = row | {"window_start": start_us}
                continue
            known = sums[key]
            for each in AMOUNTS:
                known[each] = amount(known[each]) + amount(row[each])
            for edge, choose in (("revision_first", min), ("revision_last", max)):
                known[edge] = choose(whole(known[edge]), whole(row[edge]))
        self.tables[name] += sums.values()

    def _between(self, name: str, length: int, before_us: int) -> list[Row]:
        """Return the rows of the windows that this batch completes."""
        begin_us, end_us = _begin(before_us, length), _begin(self._watermark_us, length)
        return [
            row
            for row in self.tables[name]
            if begin_us <= whole(row["window_start"]) < end_us
        ]

    def _noisy(self, before_us: int) -> None:
        """List the five that talk most of each group's minute."""
        attempts: dict[tuple[object, ...], Fraction] = defaultdict(Fraction)
        born: dict[object, int] = {}
        for row in self.tables["usage_1m"]:
            minute_us, agent = whole(row["window_start"]), row["agent"]
            key = minute_us, row["dimension"], row["group_id"], agent
            attempts[key] += amount(row["attempted"])
            born[agent] = min(born.get(agent, minute_us), minute_us)
        talk: dict[tuple[object, ...], dict[object, list[Row]]] = defaultdict(dict)
        for row in self._between("usage_1m", MINUTE, before_us):
            place = row["window_start"], row["dimension"], row["group_id"]
            talk[place].setdefault(row["agent"], []).append(row)
        for (start, dimension, group), of in talk.items():
            sums: list[tuple[float, str, float, Fraction, Fraction]] = []
            for agent, rows in of.items():
                weight = real(rows[0]["weight"])
                wanted = total(row["attempted"] for row in rows)
                got = total(row["admitted"] for row in rows)
                sums.append((-wanted / weight, str(agent), weight, wanted, got))
            everything = total(each[3] for each in sums)
            for rank, (_, agent, weight, wanted, got) in enumerate(sorted(sums)[:5], 1):
                lived = min((whole(start) - born[agent]) // (MINUTE * SECOND), 5)
                before = (whole(start) - n * MINUTE * SECOND for n in range(1, 6))
                past = total(attempts[at, dimension, group, agent] for at in before)
                usual = past / lived if lived else None
                self.tables["noisy"].append(
                    named(str(dimension), whole(group))
                    | {
                        "window_start": start,
                        "window_s": float(MINUTE),
                        "agent": agent,
                        "rank": rank,
                        "weight": weight,
                        "attempted": wanted,
                        "admitted": got,
                        "part": wanted / everything,
                        "usual": usual,
                        "change": wanted / usual if usual else None,
                    }
                )

    def _bill(self) -> None:
        """Add up a day of each tenant, and what its dead agents may owe."""
        sums: dict[tuple[object, ...], Row] = {}
        groups: dict[tuple[object, ...], set[object]] = defaultdict(set)
        for row in (*self.tables["usage_10s"], *self.tables["usage_open"]):
            key = _begin(whole(row["window_start"]), DAY), payer(row), row["dimension"]
            groups[key].add(row["group_id"])
            day = sums.setdefault(key, dict.fromkeys(AMOUNTS, NOTHING))
            for each in AMOUNTS:
                day[each] = amount(day[each]) + amount(row[each])
        last: dict[tuple[object, ...], Row] = {}
        for gap in sorted(self.tables["gaps"], key=lambda gap: whole(gap["heard"])):
            names = "agent", "incarnation", "group_id", "dimension"
            last[tuple(gap[name] for name in names)] = gap
        owed: dict[tuple[object, ...], list[object]] = defaultdict(list)
        for gap in last.values():
            if not gap["healed"]:
                day_us = _begin(whole(gap["heard"]), DAY)
                owed[day_us, payer(gap), gap["dimension"]].append(gap["bound"])
        for whose, day in sums.items():
            bounds = owed[whose]
            more: Row = dict(zip(("day", "tenant", "dimension"), whose, strict=True))
            more["groups"] = len(groups[whose])
            more["gap_bound"] = None if None in bounds else sum(map(real, bounds))
            self.tables["bill"].append(day | more)


NAMES = ("group_id", "group", "tenant", "dimension")
AMOUNTS = ("attempted", "admitted", "refused")


def truth_of(
    sent: Sequence[Sent], size: int, *, lateness_s: int, silence_s: int, keep_s: int
) -> dict[str, list[Row]]:
    """Return the rows of all tables after batches of `size` messages."""
    found = Truth(lateness_s=lateness_s, silence_s=silence_s, keep_s=keep_s)
    numbered = list(enumerate(sent))
    for begin in range(0, len(numbered), size):
        found.batch(numbered[begin : begin + size])
    found.finish()
    return found.tables


def whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def amount(value: object) -> Fraction:
    assert isinstance(value, Fraction)
    return value


def total(amounts: Iterable[object]) -> Fraction:
    return sum(map(amount, amounts), NOTHING)


def real(value: object) -> float:
    assert isinstance(value, (int, float))
    return value


def named(dimension: str, group: int) -> Row:
    """Return the names of a group, as the operator gave them."""
    found: Row = {"group_id": group, "dimension": dimension}
    if group == UNKNOWN_GROUP:
        return found | {"group": f"#{group}", "tenant": None}
    owners = ["acme"] * (group <= 5) + ["globex"] * (6 <= group <= 11)
    owners += ["initech"] * (group in (11, 14, 15))
    return found | {"group": f"group {group}", "tenant": ", ".join(owners)}


def payer(row: Row) -> object:
    return row["tenant"] or f"(group) {row['group']}"


def limit_of(
    dimension: str, group: int, revisions: Iterable[int]
) -> tuple[float, float] | None:
    """Return the widest rate and burst of some revisions; None without a limit."""
    in_force = [
        limit
        for revision in revisions
        for each in configurations()
        if each.revision == revision and group <= GROUPS
        for known in each.groups
        if known.id == group
        for limit in known.limits
        if limit.dimension == dimension
    ]
    if not in_force:
        return None
    return max(each.rate for each in in_force), max(each.burst for each in in_force)


def water_level(admitted: float, wants: list[tuple[float, float]]) -> float:
    """Return θ with Σ min(want, weight · θ) = admitted."""
    rest, weights = admitted, sum(weight for _, weight in wants)
    for want, weight in sorted(wants, key=lambda each: each[0] / each[1]):
        if want / weight * weights >= rest:
            return rest / weights
        rest, weights = rest - want, weights - weight
    raise AssertionError("all got what they wanted")


def _merged(cells: Iterable[Cell]) -> Iterable[list[Row]]:
    """Yield the rows of usage of each agent's window, all its lives together."""
    together: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        key = cell.window_us, cell.displaced, cell.life.agent, cell.dimension
        together[key].append(cell)
    for of in together.values():
        used: dict[int, list[Fraction]] = defaultdict(lambda: [NOTHING, NOTHING])
        for cell in of:
            for group, (refused, admitted) in cell.used.items():
                used[group][0] += refused
                used[group][1] += admitted
        revisions = set[int]().union(*(cell.revisions for cell in of))
        yield [
            named(of[0].dimension, group)
            | {
                "window_start": of[0].window_us,
                "agent": of[0].life.agent,
                "attempted": refused + admitted,
                "admitted": admitted,
                "refused": refused,
                "displaced": of[0].displaced,
                "subjects": subjects_of(group),
                "weight": of[-1].life.weight,
                "revision_first": min(revisions),
                "revision_last": max(revisions),
            }
            for group, (refused, admitted) in used.items()
            if refused or admitted
        ]


def _earlier(units: Fraction, passed: float) -> Fraction:
    """Return how much of some units lies before a window's edge: whole units of a whole
    number, else thousandths, rounded down."""
    parts = 1 if units % 1 == 0 else 1_000
    return Fraction(floor(float(units) * passed * parts), parts)


def _begin(moment_us: int, length_s: int) -> int:
    """Return where the window of a moment begins, microseconds."""
    return moment_us // (length_s * SECOND) * length_s * SECOND


def differing(found: Sequence[Row], expected: Sequence[Row]) -> list[str]:
    """Return the rows that only one of two tables holds.

    Amounts are compared exactly, what is computed from them to nine digits, reasons
    by the words that are expected.
    """
    left = sorted(map(_text, found))
    right = sorted(map(_text, expected))
    return [f"- {row}" for row in _less(right, left)] + [
        f"+ {row}" for row in _less(left, right)
    ]


def _less(some: list[str], others: list[str]) -> list[str]:
    rest = Counter(some)
    rest.subtract(Counter(others))
    return sorted(rest.elements())


def _text(row: Row) -> str:
    """Return a row as text, equal for equal ones."""
    return ", ".join(f"{name}={_value(row[name])}" for name in sorted(row))


def _value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        return repr(value)
    return f"{float(value):.9g}" if value % 1 else str(int(value))
