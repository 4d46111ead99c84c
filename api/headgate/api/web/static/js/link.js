// The address of what is shown: its path and, after a question mark, how it is shown.

/** Return {path: steps, query} of the address: "#/group/gold?span=120". */
export function readHash() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decoded), query: new URLSearchParams(query) };
}

/** Keep how the page is shown in its address, so that a link shows the same. */
export function replaceQuery(values) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([name, value]) => [name, String(value)]));
  const text = query.toString();
  const path = location.hash.split("?")[0] || "#/";
  history.replaceState(null, "", text ? `${path}?${text}` : path);
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // typed by hand: not an encoded name
  }
}
