"""Bearer tokens and roles: 401, 403, and what each role may."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm
from tests.api.conftest import TIMEOUT_S

from headgate.api import (
    Addresses,
    RightsSettings,
    ServerSettings,
    create_token,
    running,
)
from headgate.api.rights.principal import Principal, Role
from headgate.api.rights.rules import may

KEY = ec.generate_private_key(ec.SECP256R1())
STRANGER = ec.generate_private_key(ec.SECP256R1())
AUDIENCE = "headgate"

Call = Callable[..., httpx.Response]


def jwks(folder: Path) -> Path:
    key = json.loads(ECAlgorithm.to_jwk(KEY.public_key()))
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": [{**key, "kid": "k1", "use": "sig"}]}))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rights")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> ServerSettings:
    rights = RightsSettings(required=True, key_set=str(jwks(folder)), audience=AUDIENCE)
    return ServerSettings(
        database=str(folder / "x.db"), port=0, bus_ports=(0, 0), rights=rights
    )


@pytest.fixture(scope="module")
def tokens(guarded: ServerSettings) -> dict[str, str]:
    made = {
        "admin": create_token(guarded, "ada", "admin"),
        "operator": create_token(guarded, "otto", "operator"),
        "acme": create_token(guarded, "anna", "operator", tenants=["acme"]),
        "viewer": create_token(guarded, "vera", "viewer"),
        "agent": create_token(guarded, "agent-7", "agent"),
    }
    return {**made, "nobody": ""}


@pytest.fixture(scope="module")
def server(guarded: ServerSettings, tokens: dict[str, str]) -> Iterator[Addresses]:
    with running(guarded) as addresses:
        admin = {"Authorization": f"Bearer {tokens['admin']}"}
        with httpx.Client(
            base_url=addresses.api, headers=admin, timeout=TIMEOUT_S
        ) as client:
            for path in ("tenants/acme", "tenants/other"):
                assert client.put(f"/api/v1/{path}", json={}).is_success
            offered = {"offered_to": ["acme", "other"]}
            assert client.put("/api/v1/groups/gold", json=offered).is_success
            for name in ("acme", "other"):
                assert client.put(f"/api/v1/namespaces/{name}/orders").is_success
        yield addresses


@pytest.fixture
def call(server: Addresses, tokens: dict[str, str]) -> Iterator[Call]:
    """Ask as one of the bearers, or with a token of one's own."""
    with httpx.Client(base_url=server.api, verify=False, timeout=TIMEOUT_S) as client:

        def ask(who: str, method: str, path: str, **options: Any) -> httpx.Response:
            token = tokens.get(who, who)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return client.request(method, path, headers=headers, **options)

        yield ask


ATTACH_ACME = {"subject": {"namespace": "acme/orders"}, "group": "gold"}
ATTACH_OTHER = {"subject": {"tenant": "other"}, "group": "gold"}
ATTACH_USER = {"subject": {"user": "alice"}, "group": "gold"}
POLICY = {"level": "namespace", "kind": "publish", "policy": {"messages": 5}}
APPLY = "/api/v1/apply?dry_run=1"
SETTING = "dispatchThrottlingRateInMsg"
RATE = "/admin/v2/{}/publishRate"
MESSAGES = {"publishThrottlingRateInMsg": 5}

EVERYONE = {"admin", "operator", "acme", "viewer"}
ALL_TENANTS = {"admin", "operator", "viewer"}
MATRIX: list[tuple[str, str, Any, set[str]]] = [
    ("GET", "/api/v1/snapshot", None, {*ALL_TENANTS, "agent"}),
    ("GET", "/metrics", None, {*ALL_TENANTS, "agent"}),
    ("GET", "/api/v1/agents", None, ALL_TENANTS),
    ("GET", "/api/v1/settings", None, ALL_TENANTS),
    ("GET", "/api/v1/overrides", None, EVERYONE),
    ("GET", "/api/v1/tenants/acme", None, EVERYONE),
    ("GET", "/api/v1/tenants/other", None, ALL_TENANTS),
    ("GET", "/api/v1/tenants/acme/limits", None, EVERYONE),
    ("GET", "/api/v1/tenants/other/limits", None, ALL_TENANTS),
    ("GET", "/api/v1/namespaces/acme/orders", None, EVERYONE),
    ("GET", "/api/v1/namespaces/other/orders", None, ALL_TENANTS),
    ("GET", "/admin/v2/tenants/acme/resourcegroup", None, EVERYONE),
    ("GET", "/admin/v2/namespaces/other", None, ALL_TENANTS),
    ("GET", "/admin/v2/brokers/configuration", None, ALL_TENANTS),
    ("GET", "/api/v1/not/yet/thought/of", None, ALL_TENANTS),
    ("GET", "/api/v1/groups", None, EVERYONE),
    ("GET", "/api/v1/audit", None, EVERYONE),
    ("GET", "/api/v1/overview", None, EVERYONE),
    ("GET", "/admin/v2/resourcegroups", None, ALL_TENANTS),
    ("GET", "/api/v1/whoami", None, EVERYONE),
    ("PATCH", "/api/v1/groups/gold", {}, {"admin", "operator"}),
    ("PUT", "/admin/v2/resourcegroups/other", {}, {"admin", "operator"}),
    ("PUT", "/api/v1/tenants/new", None, {"admin", "operator"}),
    (
        "POST",
        "/admin/v2/brokers/configuration/dispatchThrottlingRateInMsg/0",
        None,
        {"admin", "operator"},
    ),
    ("POST", "/api/v1/revisions/0/rollback?dry_run=1", None, {"admin", "operator"}),
    ("PUT", "/api/v1/attachments", ATTACH_ACME, {"admin", "operator", "acme"}),
    ("PUT", "/api/v1/attachments", ATTACH_OTHER, {"admin", "operator"}),
    ("PUT", "/api/v1/attachments", ATTACH_USER, {"admin", "operator"}),
    (
        "PUT",
        "/api/v1/policies",
        {**POLICY, "target": "acme/orders"},
        {"admin", "operator", "acme"},
    ),
    (
        "PUT",
        "/api/v1/policies",
        {**POLICY, "target": "other/orders"},
        {"admin", "operator"},
    ),
    (
        "POST",
        RATE.format("namespaces/acme/orders"),
        MESSAGES,
        {"admin", "operator", "acme"},
    ),
    ("POST", RATE.format("namespaces/other/orders"), MESSAGES, {"admin", "operator"}),
    (
        "POST",
        RATE.format("persistent/acme/orders/t"),
        MESSAGES,
        {"admin", "operator", "acme"},
    ),
    (
        "POST",
        "/admin/v2/tenants/acme/resourcegroup/gold",
        None,
        {"admin", "operator", "acme"},
    ),
    (
        "POST",
        "/admin/v2/tenants/other/resourcegroup/gold",
        None,
        {"admin", "operator"},
    ),
    ("PUT", "/api/v1/namespaces/acme/new", None, {"admin", "operator", "acme"}),
    ("PUT", "/api/v1/namespaces/other/new", None, {"admin", "operator"}),
    ("POST", "/api/v1/preview", {"group": "gold", "body": {}}, EVERYONE),
    ("POST", "/api/v1/grants", {"agent": "a", "limits": []}, {"admin", "agent"}),
    ("POST", APPLY, {"groups": {"gold": {}}}, {"admin", "operator"}),
    ("POST", APPLY, {"tenants": {"acme": {}}}, {"admin", "operator"}),
    ("POST", APPLY, {"settings": {}, "prune": True}, {"admin", "operator"}),
    ("POST", APPLY, {"settings": {SETTING: None}}, {"admin", "operator"}),
    ("POST", APPLY, {"attachments": [ATTACH_ACME]}, {"admin", "operator", "acme"}),
    ("POST", APPLY, {"attachments": [ATTACH_OTHER]}, {"admin", "operator"}),
    ("POST", APPLY, {"attachments": [ATTACH_USER]}, {"admin", "operator"}),
    (
        "POST",
        APPLY,
        {"policies": [{**POLICY, "target": "acme/orders"}]},
        {"admin", "operator", "acme"},
    ),
    (
        "POST",
        APPLY,
        {
            "policies": [
                {**POLICY, "target": "acme/orders"},
                {**POLICY, "target": "other/orders"},
            ]
        },
        {"admin", "operator"},
    ),
    ("POST", APPLY, {"namespaces": ["acme/new"]}, {"admin", "operator", "acme"}),
    ("POST", APPLY, {"namespaces": ["other/newer"]}, {"admin", "operator"}),
    ("PUT", "/api/v1/overrides", {"group": "gold"}, {"admin", "operator"}),
    ("GET", "/api/v1/tokens", None, {"admin"}),
    ("POST", "/api/v1/tokens", {"name": "x", "role": "admin"}, {"admin"}),
    ("DELETE", "/api/v1/tokens/99", None, {"admin"}),
    ("PUT", "/api/v1/not/yet/thought/of", None, {"admin", "operator"}),
]


@pytest.mark.parametrize(("method", "path", "body", "allowed"), MATRIX)
def test_each_role_may_what_it_is_for_and_nothing_else(
    call: Call, method: str, path: str, body: Any, allowed: set[str]
) -> None:
    for who in ("nobody", "agent", "viewer", "acme", "operator", "admin"):
        answer = call(who, method, path, json=body)
        if who in allowed:
            assert answer.status_code not in {401, 403}, (who, answer.text)
        else:
            expected = 401 if who == "nobody" else 403
            assert answer.status_code == expected, (who, answer.text)
            member = "reason" if path.startswith("/admin/v2") else "detail"
            assert answer.json()[member]


def test_pip82_group_operations_without_rights_are_a_403_in_pulsars_words(
    call: Call,
) -> None:
    answer = call("viewer", "PUT", "/admin/v2/resourcegroups/gold", json={})
    assert answer.status_code == 403
    assert answer.json() == {"reason": "This operation requires super-user access"}


def test_without_a_good_token_the_answer_says_which_is_wanted(call: Call) -> None:
    answer = call("nobody", "GET", "/api/v1/groups")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="headgate"'
    assert answer.json()["title"] == "Unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/"])
def test_what_holds_no_secret_is_open(call: Call, path: str) -> None:
    assert call("nobody", "GET", path).status_code == 200


@pytest.mark.parametrize(
    "token",
    ["x", "hg_1_guess", "hg_x_y", "hg_" + "9" * 30 + "_x", "a.b.c", "x" * 9000, "hg_1"],
)
def test_a_token_that_is_none_is_a_401(call: Call, token: str) -> None:
    assert call(token, "GET", "/api/v1/groups").status_code == 401


def test_a_deleted_token_is_no_longer_good_at_once(call: Call) -> None:
    body = {"name": "short", "role": "viewer"}
    made = call("admin", "POST", "/api/v1/tokens", json=body).json()
    assert call(made["token"], "GET", "/api/v1/groups").status_code == 200
    deleted = call("admin", "DELETE", f"/api/v1/tokens/{made['id']}")
    assert deleted.status_code == 204
    assert call(made["token"], "GET", "/api/v1/groups").status_code == 401


def test_going_back_makes_no_deleted_token_good_again(call: Call) -> None:
    body = {"name": "short", "role": "viewer"}
    made = call("admin", "POST", "/api/v1/tokens", json=body).json()
    revision = call("admin", "GET", "/api/v1/snapshot").json()["revision"]
    call("admin", "DELETE", f"/api/v1/tokens/{made['id']}")
    assert call("admin", "POST", f"/api/v1/revisions/{revision}/rollback").is_success
    assert call(made["token"], "GET", "/api/v1/groups").status_code == 401


def test_a_token_ends(call: Call) -> None:
    body = {"name": "short", "role": "viewer", "life_s": 0.01}
    made = call("admin", "POST", "/api/v1/tokens", json=body).json()
    time.sleep(0.05)
    assert call(made["token"], "GET", "/api/v1/groups").status_code == 401


def test_the_audit_names_the_bearer_and_holds_no_secret(
    call: Call, tokens: dict[str, str], folder: Path
) -> None:
    assert call("operator", "PUT", "/api/v1/groups/audited", json={}).is_success
    newest = call("viewer", "GET", "/api/v1/audit?limit=1").json()["items"][0]
    assert newest["author"] == "otto"
    whole = call("viewer", "GET", "/api/v1/audit?limit=1000").text
    stored = b"".join(path.read_bytes() for path in folder.glob("x.db*"))
    for token in filter(None, tokens.values()):
        secret = token.split("_", 2)[2]
        assert secret not in whole
        assert secret.encode() not in stored


def test_no_log_line_holds_a_token(
    call: Call, tokens: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The server runs in this process: all that it logs at any level is here."""
    caplog.set_level(1)
    bad = "hg_1_sesame-sesame-sesame"
    made = call(
        "admin", "POST", "/api/v1/tokens", json={"name": "n", "role": "viewer"}
    ).json()
    for who in (*tokens, bad, made["token"]):
        call(who, "GET", "/api/v1/groups")
        call(who, "PUT", "/api/v1/groups/logged", json={"weight": -1})
        call(who, "GET", "/api/v1/snapshot?revision=x")
    logged = "\n".join(
        f"{record.getMessage()} {record.__dict__}" for record in caplog.records
    )
    assert caplog.records
    secrets = [bad, made["token"], *filter(None, tokens.values())]
    assert [secret for secret in secrets if secret in logged] == []
    call("admin", "DELETE", f"/api/v1/tokens/{made['id']}")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "role": "king"},
        {"name": "x", "role": "viewer", "tenants": ["acme"]},
        {"name": "", "role": "viewer"},
        {"name": "x", "role": "viewer", "life_s": -1},
        {"name": "x", "role": "viewer", "life_s": 1e12},
    ],
)
def test_a_token_that_means_nothing_is_refused(call: Call, body: Any) -> None:
    answer = call("admin", "POST", "/api/v1/tokens", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"]


def signed(
    key: ec.EllipticCurvePrivateKey = KEY, kid: str = "k1", **claims: Any
) -> str:
    now = int(time.time())
    good = {
        "sub": "jo",
        "exp": now + 60,
        "aud": AUDIENCE,
        "headgate_role": "operator",
        "headgate_tenants": ["acme"],
    }
    wanted = {k: v for k, v in {**good, **claims}.items() if v is not None}
    return jwt.encode(wanted, key, algorithm="ES256", headers={"kid": kid})


def test_a_jwt_of_the_key_set_is_good(call: Call) -> None:
    shown = call(signed(), "GET", "/api/v1/whoami").json()
    assert shown == {"name": "jo", "role": "operator", "tenants": ["acme"]}
    attach = "/admin/v2/namespaces/{}/orders/resourcegroup/gold"
    assert call(signed(), "POST", attach.format("acme")).status_code == 204
    assert call(signed(), "POST", attach.format("other")).status_code == 403


def confused() -> str:
    """A token whose *public* key was used as a shared secret."""
    public = KEY.public_key().public_bytes(
        Encoding.X962, PublicFormat.UncompressedPoint
    )
    claims = {"sub": "jo", "exp": int(time.time()) + 60, "aud": AUDIENCE}
    headers = {"kid": "k1"}
    wanted: dict[str, Any] = {**claims, "headgate_role": "admin"}
    return jwt.encode(wanted, public, algorithm="HS256", headers=headers)


@pytest.mark.parametrize(
    "token",
    [
        signed(key=STRANGER),
        signed(kid="k2"),
        signed(exp=1),
        signed(exp=None),
        signed(sub=None),
        signed(aud="other"),
        signed(aud=None),
        signed(headgate_role="king"),
        signed(headgate_role=None),
        signed(headgate_tenants="acme"),
        confused(),
        jwt.encode({"sub": "jo", "headgate_role": "admin"}, "", algorithm="none"),
    ],
)
def test_a_jwt_that_is_not_wholly_good_is_a_401(call: Call, token: str) -> None:
    assert call(token, "GET", "/api/v1/groups").status_code == 401


@pytest.mark.parametrize("role", ["viewer", "agent", "operator"])
def test_what_no_rule_allows_is_denied(role: Role) -> None:
    tenants = frozenset({"acme"}) if role == "operator" else None
    who = Principal(name="x", role=role, tenants=tenants)
    for path in ("/api/v1/new", "/admin/v2/new", "/api/v1/tokens/1", "/new"):
        for method in ("PUT", "POST", "DELETE", "PATCH", "QUERY"):
            assert not may(who, method, path)
