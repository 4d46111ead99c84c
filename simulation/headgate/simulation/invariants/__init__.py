"""The twelve invariants of the design, watched during every simulated run.

====================  =========================================================
name                  what must hold
====================  =========================================================
safety                in any window admitted ≤ Q·W + B + the central bucket's own debt
                      + Q·(age of information) + one cost of each agent that was
                      active within that age; strict groups: ≤ Q·W + B
shares-add-up         shares computed from one view sum to Q' (or to the demand)
work-conserved        demand ≥ Q, from time 0 on: ≥ 98 % of what a central bucket
                      admits of the same arrivals, less one request and a margin
no-false-refusal      demand ≤ Q and steady: no more is refused than centrally,
                      + 0.5 % of what was offered
no-starvation         a live agent gets its max-min share after an age and a ramp
totals-exact          counters known everywhere equal the true ones once quiet; of
                      a killed process up to its last delivered report
deterministic         the same inputs give the same effects, bit for bit
recovery              after the last fault the above hold again
fallback              cut off: the declared fallback, visible within a second
bounded               members, reports and their sizes stay bounded
change-in-force       a changed limit is in force everywhere within an age; no
                      burst of old tokens follows a lowered one
recomputable          each share follows from the inputs that `explain` shows
====================  =========================================================

A bound is fair if no chance, loss or fault of the scenario can push a correct system
over it, and sharp if doubling, halving or ignoring something does; `tests/simulation`
breaks the coordinator in each of these ways.
"""

from headgate.simulation.invariants.watch import InvariantWatch as InvariantWatch
