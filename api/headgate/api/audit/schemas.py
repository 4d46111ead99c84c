"""Response schemas of the audit."""

from pydantic import BaseModel, ConfigDict, Field

from headgate.api.values.schemas import ChangeShown


class AuditEntry(BaseModel):
    """One revision."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "revision": 4,
                    "at_s": 1795260000.0,
                    "author": "anna",
                    "address": "10.0.0.7",
                    "action": "PUT /api/v1/attachments",
                    "changes": [
                        {
                            "kind": "attachment",
                            "key": '{"tenant":"acme"}',
                            "before": {"group": "silver"},
                            "after": {"group": "gold"},
                        }
                    ],
                    "omitted": 0,
                }
            ]
        }
    )

    revision: int
    at_s: float = Field(description="Seconds since the epoch.")
    author: str = Field(description="Subject of the bearer token, or anonymous.")
    address: str = Field(description="Address that the request came from.")
    action: str = Field(description="The request, such as PUT /api/v1/groups/gold.")
    changes: list[ChangeShown]
    omitted: int = Field(
        default=0,
        description="Number of changes not listed here: one apply may make a "
        "hundred thousand. `/revisions/{revision}` lists them page by page.",
    )


class AuditPage(BaseModel):
    """Revisions, newest first."""

    items: list[AuditEntry]
    next: int | None = Field(description="Give it as `before` for the next page.")


class RolledBack(BaseModel):
    """The changes that a rollback made, or would make."""

    revision: int = Field(description="In force now.")
    dry_run: bool
    changes: list[ChangeShown]
