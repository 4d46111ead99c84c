"""A Django project in one file; its limits are settings.

headgate up                                                           # elsewhere
gunicorn --workers 4 --chdir examples/services limiter_django:application     # WSGI
uvicorn --app-dir examples/services limiter_django:asgi                       # or ASGI
curl -i -H "X-Tenant: acme" http://127.0.0.1:8000/
"""

import os

from django.conf import settings
from django.http import HttpRequest, JsonResponse

from headgate.wsgi import header


def who(request: HttpRequest) -> str | None:
    """Return the tenant of a request; None for those that nobody limits."""
    if request.path == "/health":
        return None
    return header(request.META, "x-tenant") or "anonymous"


settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.urandom(16).hex(),
    MIDDLEWARE=["headgate.django.HeadgateMiddleware"],
    HEADGATE={
        "URL": os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080"),
        "SUBJECT": who,
    },
)

from django.core.asgi import get_asgi_application  # noqa: E402  # needs the settings
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import path  # noqa: E402


def root(request: HttpRequest) -> JsonResponse:
    """Answer, when the quota allows, with the process that did."""
    return JsonResponse({"pid": os.getpid()})


def health(request: HttpRequest) -> JsonResponse:
    """Answer always."""
    return JsonResponse({"status": "fine"})


urlpatterns = [path("", root), path("health", health)]
application = get_wsgi_application()
asgi = get_asgi_application()
