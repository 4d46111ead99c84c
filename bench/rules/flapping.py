"""Agents that hear nothing for some seconds, again and again: how far levels are off.

``PYTHONPATH=. .venv/bin/python bench/rules/flapping.py`` simulates random clusters of
two to five agents, each of which is cut off for 2.5 to 4.5 s, again and again: it hears
nothing and is not heard (`off`), only hears nothing (`deaf`), or hears all of it at the
end (`late`).  That begins three seconds after a large request, or about when that is
made, so that the bucket may have been full in the first silence.  Eight seconds after
the last one it compares each level with that of one central bucket for the same
requests.  It takes ten minutes of a core.
"""

from __future__ import annotations

from itertools import product

from tests.simulation.members.flapping import Flapping

RUNS = 30
FAR = 0.02
"""Part of the burst by which a level is far off: 1.2 s of the rate."""


def main() -> None:
    """Print for each kind how many clusters have a level that is far off."""
    for from_s, how in product((5.0, 1.5), ("off", "deaf", "late")):
        worlds = [Flapping(seed, how) for seed in range(RUNS)]
        off = [max(each.play(from_s), key=abs) / each.bucket.burst for each in worlds]
        far = sum(abs(each) > FAR for each in off)
        print(
            f"{how} from {from_s} s on: of {RUNS} clusters {far} far off; at worst by "
            f"{min(0.0, *off):.2f} and +{max(0.0, *off):.2f} bursts"
        )


if __name__ == "__main__":
    main()
