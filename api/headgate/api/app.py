"""The application: all routes on one service."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI

from headgate.api.apply.routes import router as apply_router
from headgate.api.attachments.routes import router as attachments
from headgate.api.audit.routes import router as audit
from headgate.api.events.routes import router as events
from headgate.api.grants.routes import router as grants
from headgate.api.groups.routes import router as groups
from headgate.api.history.routes import router as history
from headgate.api.http import problems
from headgate.api.http.body_limits import BodyLimits
from headgate.api.http.dependencies import Service, ServiceOf
from headgate.api.http.guard import Guard
from headgate.api.http.origins import OwnPagesOnly
from headgate.api.http.response_headers import ResponseHeaders
from headgate.api.http.undeclared import refuse_undeclared
from headgate.api.invoices.folder import InvoiceFolder
from headgate.api.invoices.routes import router as invoices_router
from headgate.api.live.liveness import Presence
from headgate.api.metrics.routes import router as metrics
from headgate.api.observing.observing import Observing
from headgate.api.observing.routes import router as live
from headgate.api.observing.sampler import GroupsOnly, Sampler
from headgate.api.openapi import complete
from headgate.api.overrides.clock import end_in_time
from headgate.api.overrides.routes import router as overrides
from headgate.api.overview.routes import router as overview
from headgate.api.policies.broker import refused_settings
from headgate.api.policies.routes import router as policies
from headgate.api.preview.routes import router as preview
from headgate.api.pulsar.attach import router as pulsar_attach
from headgate.api.pulsar.brokers import router as pulsar_brokers
from headgate.api.pulsar.groups import router as pulsar_groups
from headgate.api.pulsar.partitions import router as pulsar_partitions
from headgate.api.pulsar.rates import router as pulsar_rates
from headgate.api.pulsar.tenants import router as pulsar_tenants
from headgate.api.rights.settings import RightsSettings
from headgate.api.snapshot.following import Following
from headgate.api.snapshot.routes import router as snapshot
from headgate.api.snapshot.service import Snapshots
from headgate.api.store import Store
from headgate.api.tenants.routes import router as tenants
from headgate.api.tokens.routes import router as rights_router
from headgate.api.watch import RevisionWatch
from headgate.api.web.page import mount

_DESCRIPTION = """
One quota for a whole cluster, enforced in every process.

* `/api/v1`: resource groups, attachments, tenants, the snapshot that agents follow.
* `/admin/v2`: Pulsar's Admin API for resource groups; `pulsar-admin` works with it.

Errors on `/api/v1` are RFC 9457 problems; `errors` names each field and the reason.
"""


def make_service(store: Store, fixed: Mapping[str, object]) -> Service:
    """Return the parts of a service backed by `store`.

    Args:
        store: The database; the service does not close it.
        fixed: Members `bus` and `report` of each snapshot.
    """
    watch = RevisionWatch(store.revision())
    store.on_change(watch.announce)
    store.refused_settings = refused_settings(fixed.get("bus"))
    return Service(store=store, watch=watch)


def make_app(
    service: Service,
    fixed: Mapping[str, object],
    rights: RightsSettings | None = None,
    *,
    tls: bool = False,
    invoices: Path | None = None,
) -> FastAPI:
    """Return the ASGI application that serves `service`.

    Args:
        service: Its parts.
        fixed: Members `bus` and `report` of each snapshot.
        rights: Whether tokens are required; None means that they are not.
        tls: Whether it is served over TLS only.
        invoices: Folder that the pipeline writes invoices to, or None.
    """
    observing = Observing(service.store)
    app = FastAPI(
        title="Headgate",
        version=version("headgate"),
        description=_DESCRIPTION,
        lifespan=_lifespan(service, fixed, observing),
        redirect_slashes=False,
        docs_url=None,  # loads from another host; `mount` serves our own
        redoc_url=None,
    )
    app.state.service = service
    app.state.observing = observing
    app.state.invoices = InvoiceFolder(invoices)

    def on_presence() -> None:
        service.watch.stir()
        observing.presence = presence.told()

    presence = Presence(on_presence)
    app.state.following = Following(
        service.watch, Snapshots(service.store, fixed), presence
    )
    problems.install(app)
    settings = rights or RightsSettings()
    # A request passes them in reverse order: the last one added comes first.
    app.add_middleware(BodyLimits)
    app.add_middleware(Guard, store=service.store, settings=settings)
    app.add_middleware(OwnPagesOnly, settings=settings)
    app.add_middleware(ResponseHeaders, tls=tls)
    _add_routes(app)
    mount(app)
    complete(app, required=settings.required)
    return app


def _lifespan(
    service: Service, fixed: Mapping[str, object], observing: Observing
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return the lifespan of the application: it runs expiry and the live sampler."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        service.watch.bind()
        ending = asyncio.create_task(end_in_time(service.store, service.watch))
        source = GroupsOnly(service.store, fixed)
        with Sampler(source, observing, service.store):
            yield
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await ending

    return lifespan


def _add_routes(app: FastAPI) -> None:
    app.include_router(_health, responses=problems.RESPONSES)
    app.include_router(metrics, responses=problems.RESPONSES)
    for router in (
        groups,
        attachments,
        tenants,
        audit,
        policies,
        overrides,
        apply_router,
        preview,
        rights_router,
        snapshot,
        grants,
        live,
        overview,
        history,
        events,
        invoices_router,
    ):
        app.include_router(
            router,
            prefix="/api/v1",
            dependencies=[Depends(refuse_undeclared)],
            responses=problems.RESPONSES,
        )
    for router in (
        pulsar_groups,
        pulsar_attach,
        pulsar_tenants,
        pulsar_rates,
        pulsar_partitions,
        pulsar_brokers,
    ):
        app.include_router(
            router,
            prefix=problems.PULSAR_PREFIX,
            responses=problems.PULSAR_RESPONSES,
        )


_health = APIRouter(tags=["health"])


@_health.get("/healthz", summary="Check whether the service can answer")
def healthz(service: ServiceOf) -> dict[str, int | str]:
    """Return the revision in force, read from the database."""
    return {"status": "ok", "revision": service.store.revision()}
