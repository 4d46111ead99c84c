// The address of what is shown: its path and, after a question mark, how it is shown.

/** Return {path: steps, query} of the address: "#/group/gold?span=120". */
export function readHash() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decoded), query: new URLSearchParams(query) };
}

/** Keep how the page at `path` is shown in its address, so that a link shows the same. */
export function replaceAddress(path, values) {
  history.replaceState(null, "", withQuery(path, values));
}

/** Return the address of a page that is shown as `values` say; empty ones are left out. */
export function withQuery(path, values) {
  const said = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  // A colon needs no escape there, and a moment is easier to read with it.
  const text = new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString().replaceAll("%3A", ":");
  return text ? `${path}?${text}` : path;
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // typed by hand: not an encoded name
  }
}
