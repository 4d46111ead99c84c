// The API: one function, one kind of error, the bearer token.

const TOKEN = "headgate.token";

/** A refusal, as RFC 9457 says it: `errors` names fields and reasons. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.errors = body.errors || [];
  }
}

/** The server can't be reached. */
export class Unreachable extends Error {}

let askForToken = () => Promise.resolve(false);

/** Let `ask` obtain a token from the user when the API wants one. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** Keep the token as long as the browser's tab lives. */
export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/** Return the address of a path of `/api/v1`, below whatever the page lies under. */
export function address(path, query = {}) {
  const url = new URL(`api/v1${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Return headers that say who asks. */
export function authorization() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Obtain a token after a 401 to a request that had the headers `sent`; return whether
 * there is one to try. One that was entered since that request left is not asked for again. */
export async function tokenNeeded(sent) {
  const { Authorization: now } = authorization();
  return now !== undefined && now !== sent.Authorization ? true : askForToken();
}

/** Ask; return {value, etag, revision}. Throws Problem or Unreachable. */
export async function ask(method, path, { body, query, etag, onlyNew, signal } = {}) {
  const sent = authorization();
  const headers = { ...sent };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  if (onlyNew) headers["If-None-Match"] = "*";
  const response = await fetch(address(path, query), {
    method, headers, signal, cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(unreachable);
  if (response.status === 401 && (await tokenNeeded(sent))) {
    return ask(method, path, { body, query, etag, onlyNew, signal });
  }
  const text = await response.text().catch(unreachable); // it may stop amid its answer
  const value = parsed(text);
  if (!response.ok) throw new Problem(response.status, value ?? { detail: text.slice(0, 200) });
  return { value, etag: response.headers.get("ETag"), revision: response.headers.get("Headgate-Revision") };
}

/** GET and return the value. */
export async function get(path, query = {}, signal = undefined) {
  return (await ask("GET", path, { query, signal })).value;
}

/** Return the path of a group. */
export function groupPath(name, rest = "") {
  return `/groups/${encodeURIComponent(name)}${rest}`;
}

function unreachable(error) {
  if (error.name === "AbortError") throw error;
  throw new Unreachable("the server does not answer");
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
