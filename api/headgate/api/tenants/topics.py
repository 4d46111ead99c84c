"""Topics that were declared with a number of partitions.

Limits don't need the number: each ``…-partition-N`` that is used has the policies of
its topic.  It is kept for the clients that ask for it.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate.api.attachments.subjects import checked_subject
from headgate.api.store import Change
from headgate.api.store.tables import PartitionedTopicRow


def partitioned_topics(session: Session, namespace: str) -> dict[str, int]:
    """Return the partitions by full name of a namespace's partitioned topics."""
    tenant, _, name = namespace.partition("/")
    row = PartitionedTopicRow
    query = select(row).where(row.tenant == tenant, row.namespace == name)
    return {
        f"{namespace}/{found.topic}": found.partitions
        for found in session.scalars(query.order_by(row.topic))
    }


def partitions_of(session: Session, topic: str) -> int:
    """Return the number of partitions that a topic was declared with, 0 for none.

    Raises:
        Invalid: The topic can't have this name.
    """
    row = _find(session, topic)
    return 0 if row is None else row.partitions


def put_partitions(change: Change, topic: str, partitions: int) -> None:
    """Declare a topic with partitions, in a namespace that exists."""
    row = _find(change.session, topic)
    before = None if row is None else {"partitions": row.partitions}
    if row is None:
        tenant, namespace, name = topic.split("/", 2)
        row = PartitionedTopicRow(tenant=tenant, namespace=namespace, topic=name)
        change.session.add(row)
    row.partitions = partitions
    change.session.flush()
    change.record("topic", topic, before=before, after={"partitions": partitions})


def delete_partitions(change: Change, topic: str) -> None:
    """Forget that a topic has partitions; nothing happens if it has none."""
    row = _find(change.session, topic)
    if row is not None:
        before = {"partitions": row.partitions}
        change.session.delete(row)
        change.session.flush()
        change.record("topic", topic, before=before, after=None)


def _find(session: Session, topic: str) -> PartitionedTopicRow | None:
    checked_subject({"topic": topic})
    return session.get(PartitionedTopicRow, tuple(topic.split("/", 2)))
