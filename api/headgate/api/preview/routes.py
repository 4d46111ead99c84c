"""REST route of the preview."""

from fastapi import APIRouter, Request

from headgate.api.http.dependencies import AuthorOf, ServiceOf, TenantsOf
from headgate.api.observing.observing import observing_of
from headgate.api.preview.schemas import Preview, PreviewPost
from headgate.api.preview.service import preview
from headgate.api.rights.visibility import require_visible

router = APIRouter(tags=["preview"])


@router.post("/preview", summary="Show what a change would do")
def show_preview(
    body: PreviewPost,
    service: ServiceOf,
    author: AuthorOf,
    tenants: TenantsOf,
    request: Request,
) -> Preview:
    """Compare a changed group with its present use; nothing is changed."""
    picture = observing_of(request).newest()
    with service.store.changing(author, dry_run=True) as change:
        require_visible(change.session, tenants, body.group)
        return preview(change, body, picture)
