"""A process under a steady load that obeys a quota shared with its siblings.

``python examples/worker.py --tenant acme --rate 300`` attempts 300 requests/s and
prints each second what was admitted.  HEADGATE_URL says where the API is.
"""

import argparse
import os
import random
import time

import headgate

URL = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")


def main() -> None:
    """Attempt at random times, `rate` a second in the mean, until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenant", default="acme")
    parser.add_argument("--rate", type=float, default=300.0, help="attempts/s")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    with headgate.connect(URL) as agent:
        limiter = agent.limiter(tenant=options.tenant)
        work(limiter, rate=options.rate, seconds=options.seconds)


def work(limiter: headgate.Limiter, *, rate: float, seconds: float) -> None:
    """Attempt what is due every 5 ms, so that one process can do thousands."""
    began = said = due = time.monotonic()
    attempted = admitted = 0
    while (now := time.monotonic()) < began + seconds:
        while due <= now:
            due += random.expovariate(rate)
            attempted += 1
            admitted += bool(limiter.try_acquire(requests=1))
        if now - said >= 1.0:
            print(f"attempted {attempted}, admitted {admitted}", flush=True)
            attempted, admitted, said = 0, 0, now
        time.sleep(0.005)


if __name__ == "__main__":
    main()
