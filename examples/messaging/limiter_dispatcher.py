"""A broker that reads a subscription's backlog no faster than its policy says.

Run ``headgate up`` in one terminal and, in another,
``python examples/messaging/limiter_dispatcher.py``.  Storage holds entries, which are
batches of messages.  Only reading an entry shows how many messages it holds, so
whatever was read in excess is owed.
"""

import os
import time
from collections import deque

import headgate

URL = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")
TOPIC = "acme/orders/new"
SUBSCRIPTION = "billing"
RATE = {"messages": 50, "period_s": 1}
ENTRIES, MESSAGES_PER_ENTRY, BYTES_PER_MESSAGE = 40, 5, 200
MOST_AT_ONCE = 10


def configure() -> None:
    """What an operator does once; `pulsar-admin` can do the same."""
    target = {"level": "topic", "target": TOPIC, "kind": "subscription_dispatch"}
    with headgate.Admin(URL) as admin:
        admin.put_tenant("acme")
        admin.put_namespace("acme", "orders")
        admin.apply({"policies": [{**target, "policy": RATE}]})


def main() -> None:
    """What a broker does with each subscription that has a backlog."""
    configure()
    backlog = deque([MESSAGES_PER_ENTRY] * ENTRIES)
    delivered = waits = 0
    with headgate.connect(URL) as agent:
        dispatcher = agent.dispatcher(topic=TOPIC, subscription=SUBSCRIPTION)
        began_s = time.monotonic()
        while backlog:
            entries = dispatcher.entries_to_read(min(MOST_AT_ONCE, len(backlog)))
            if entries == 0:
                waits += 1
                time.sleep(min(dispatcher.delay_s(), 1.0))
                continue
            messages = sum(backlog.popleft() for _ in range(entries))
            size = messages * BYTES_PER_MESSAGE
            dispatcher.delivered(entries, messages=messages, size=size)
            delivered += messages
        took_s = time.monotonic() - began_s
    print(f"delivered {delivered} messages in {took_s:.1f} s, waited {waits} times")


if __name__ == "__main__":
    main()
