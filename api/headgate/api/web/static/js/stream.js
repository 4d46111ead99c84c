// Server-sent events by fetch: unlike EventSource it can send a bearer token.
// Connects again for as long as it is not closed, and says how things stand.

import { address, authorization, tokenNeeded } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

/** Without a word for so long the connection is dead: the server speaks each second. */
const SILENCE_MS = 6000;

const GONE = "gone";
const listeners = new Set();
let state = "connecting";

/** Call `listener` with "connecting", "live", "lost", "refused" or "denied" now and on each change.
 * Returns a function that ends it. */
export function onState(listener) {
  listeners.add(listener);
  listener(state);
  return () => listeners.delete(listener);
}

function become(next) {
  if (next === state) return;
  state = next;
  for (const listener of listeners) listener(state);
}

/** Follow `/events`; `on` maps event names to functions: `gone` is called with {detail} once
 * there is nothing of that name, and nothing after it. Returns a function that ends it. */
export function follow(query, on) {
  const ended = new AbortController();
  run(query, on, ended.signal);
  return () => ended.abort();
}

async function run(query, on, ended) {
  let wait = FIRST_WAIT_MS;
  while (!ended.aborted) {
    const heard = await connect(query, on, ended);
    if (ended.aborted || heard === GONE) return;
    if (heard !== null) become("lost");
    wait = heard ? FIRST_WAIT_MS : Math.min(wait * 1.7, LONGEST_WAIT_MS);
    await pause(wait * (0.75 + Math.random() / 2), ended);
  }
}

/** Follow one connection to its end; return whether anything was heard on it, null
 * when it was refused for want of a token, GONE when there is nothing of that name. */
async function connect(query, on, ended) {
  const broken = new AbortController();
  const abort = () => broken.abort();
  ended.addEventListener("abort", abort);
  let heard = false;
  let timer = setTimeout(abort, SILENCE_MS);
  const sent = authorization();
  try {
    const response = await fetch(address("/events", query), {
      headers: sent, signal: broken.signal, cache: "no-store",
    });
    if (response.status === 401 || response.status === 403) {
      clearTimeout(timer);
      if (response.status === 401 && await tokenNeeded(sent)) return await connect(query, on, ended);
      become(response.status === 401 ? "refused" : "denied");
      return null;
    }
    if (response.status === 404) {
      become("live"); // it answers
      on.gone?.(await response.json());
      return GONE;
    }
    if (!response.ok) return false;
    for await (const event of events(response.body)) {
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_MS);
      if (ended.aborted) return heard;
      heard = true;
      become("live");
      on[event.name]?.(event.value);
      if (event.name === GONE) return GONE;
    }
  } catch (error) {
    if (!(error instanceof TypeError) && error.name !== "AbortError") console.error(error);
  } finally {
    clearTimeout(timer);
    ended.removeEventListener("abort", abort);
    broken.abort();
  }
  return heard;
}

/** Yield {name, value} of a stream of events. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event) yield event;
    }
  }
}

function parsed(block) {
  let name = "message";
  const lines = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) lines.push(line.slice(6));
  }
  return lines.length ? { name, value: JSON.parse(lines.join("\n")) } : null;
}

function pause(ms, ended) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    ended.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
