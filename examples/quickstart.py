"""From nothing to a limit: make a group, attach a tenant, ask before each request.

Run ``headgate up`` in one terminal and ``python examples/quickstart.py`` in another.
Start it twice: both processes share the one quota.
"""

import os
import time

import headgate

URL = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")


def configure() -> None:
    """What an operator does once; ``headgate group create`` does the same."""
    with headgate.Admin(URL) as admin:
        limit = headgate.LimitSpec("requests", rate=20, burst=20)
        admin.put_group("bronze", [limit])
        admin.put_tenant("acme")
        admin.attach("bronze", tenant="acme")


def main() -> None:
    """What a service does on each request."""
    configure()
    with headgate.connect(URL) as agent:
        limiter = agent.limiter(tenant="acme")
        admitted = refused = 0
        ends = time.monotonic() + 3.0
        while time.monotonic() < ends:
            decision = limiter.try_acquire(requests=1)
            if decision:
                admitted += 1
            else:
                refused += 1
                time.sleep(min(decision.delay_s, 0.05))
        print(f"admitted {admitted}, refused {refused} in 3 s of a quota of 20/s")


if __name__ == "__main__":
    main()
