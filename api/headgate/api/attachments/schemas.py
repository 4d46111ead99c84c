"""Request and response schemas of attachments."""

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.values.schemas import Body

_SUBJECT = (
    "kind → name. The kind is one of cluster, tenant, namespace, topic, "
    "subscription, user, client; user and client, or topic and subscription, can be "
    "combined. A name of null is the default of that kind."
)


class AttachmentPut(Body):
    """The group that a subject is to be attached to."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"subject": {"tenant": "acme"}, "group": "gold"}]
        }
    )

    subject: dict[str, str | None] = Field(
        description=_SUBJECT, min_length=1, max_length=2
    )
    group: str = Field(description="Name of the group.")


class AttachmentShown(BaseModel):
    """A subject and the group that it belongs to."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "subject": {"tenant": "acme"},
                    "group": "gold",
                    "own": False,
                    "revision": 4,
                }
            ]
        }
    )

    subject: dict[str, str | None] = Field(description=_SUBJECT)
    group: str
    own: bool = Field(
        description="Attached by the tenant's own operator, who may change it."
    )
    revision: int = Field(description="Revision that last changed it; its ETag.")


class AttachmentPage(BaseModel):
    """Attachments in the order in which they were made."""

    items: list[AttachmentShown]
    next: int | None = Field(description="Give it as `after` for the next page.")
