"""What signing costs: per report, by size and scheme; CPU time, median of rounds.

``python bench/signing.py`` prints a table for docs/benchmarks.md.  The sizes are a
heartbeat, a report of 100 rows and PIP-82's own (5,000 groups, two dimensions).
"""

from __future__ import annotations

import argparse
import platform
from statistics import median
from time import process_time_ns

import numpy as np

from headgate.agent.bus.signed import signed, split
from headgate.agent.wire.codec import decode, encode
from headgate.agent.wire.signing import Key, Keyring, Signer
from headgate.coordinator import Report, Rows

ROUNDS = 15
"""The median of these counts, because the machine may be shared."""


def report(groups: int) -> bytes:
    """Return the bytes of a report with this many rows of two dimensions."""
    random = np.random.default_rng(1)
    ids = np.arange(1, groups + 1) * 20

    def rows(dimension: str) -> Rows:
        return Rows(
            dimension=dimension,
            group_ids=ids,
            refused=random.integers(0, 1_000, groups).astype(float),
            admitted=random.integers(0, 10_000_000, groups).astype(float),
            demand=random.random(groups) * 1_000,
            held=random.random(groups) * 100,
            cost=np.ones(len(ids)),
        )

    columns = (rows("publish_messages"), rows("publish_bytes")) if groups else ()
    return encode(
        Report(
            cluster="default",
            agent="broker-17",
            incarnation=1_700_000_000_000_000,
            sequence=4_711,
            sent_at_s=1.7e9,
            rows=columns,
        )
    )


def microseconds(work: object, *arguments: object) -> float:
    """Return the CPU time of one call, the median of rounds of equal length."""
    assert callable(work)
    took: list[float] = []
    for _ in range(ROUNDS):
        calls, began = 0, process_time_ns()
        while (spent := process_time_ns() - began) < 20_000_000:
            work(*arguments)
            calls += 1
        took.append(spent / calls / 1e3)
    return median(took)


def main() -> None:
    """Print the table."""
    agents = 100
    print(f"{platform.processor() or platform.machine()}, CPU us per report\n")
    print("| report | bytes | encode | decode | scheme | sign | verify | per cycle |")
    print("|---|---|---|---|---|---|---|---|")
    for groups in (0, 100, 5_000):
        payload = report(groups)
        written = microseconds(encode, decode(payload))
        read = microseconds(decode, payload)
        for scheme in ("hmac", "ed25519-secret"):
            key = Key.make("hmac" if scheme == "hmac" else "ed25519-secret")
            signer = Signer(key)
            agent = {"broker-17": [key.public()]}
            keyring = Keyring([key]) if scheme == "hmac" else Keyring(agents=agent)
            sent = signed(payload, signer)

            def verify(sent: bytes = sent, keyring: Keyring = keyring) -> None:
                parts = split(sent, keyring.sizes)
                assert parts is not None
                assert keyring.verify(*parts) is not None

            sign, check = microseconds(signed, payload, signer), microseconds(verify)
            cycle_ms = (sign + agents * check) / 1e3
            print(
                f"| {2 * groups:,} rows | {len(sent):,} | {written:.0f} | {read:.0f} "
                f"| {scheme.partition('-')[0]} | {sign:.1f} | {check:.1f} "
                f"| {cycle_ms:.1f} ms |"
            )
    print(f"\nper cycle: one own report and those of {agents} agents.")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
