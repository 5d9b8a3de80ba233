// Keeping up: when the office says that something changed, the parts of this page that are marked `data-live` are fetched
// again and put in place. It holds still while something is selected, a dialog or a menu is open, or a field has the focus.
import { say } from "./dialog.js";

const APART = 1500;

let on = true;
let stale = false;
let busy = false;

function held() {
  return document.querySelector("dialog[open], [data-pick]:checked, .combo [role=listbox]:not([hidden])") !== null
    || document.activeElement?.matches?.("main input, main textarea, main select") === true
    || String(getSelection()).length > 0;
}

/** This page, without what is looked at on purpose: looking into payloads is written down, and following is not looking. */
function here() {
  const url = new URL(location.href);
  for (const name of ["look", "payload"]) url.searchParams.delete(name);
  return url;
}

async function refresh() {
  if (busy || !stale || !on || document.hidden || held()) return;
  busy = true;
  stale = false;
  try {
    const answer = await fetch(here(), { headers: { accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (held()) { stale = true; return; }
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.outerHTML !== part.outerHTML) swap(part, next);
    }
  } catch {
    stale = true;
  } finally {
    busy = false;
  }
}

/** Puts the new part in place; the focus stays on the same row or link. */
function swap(part, next) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const address = focused?.getAttribute("href") ?? focused?.id;
  part.replaceWith(document.importNode(next, true));
  if (!address) return;
  const again = [...document.getElementById(next.id).querySelectorAll("a[href], [id]")];
  again.find((element) => element.getAttribute("href") === address || element.id === address)?.focus();
}

function show(state) {
  const button = document.getElementById("live");
  button.hidden = false;
  button.setAttribute("aria-pressed", String(on));
  button.dataset.state = on ? state : "paused";
  button.querySelector(".word").textContent = !on ? "Paused" : state === "away" ? "Not connected" : "Live";
}

export function toggleLive() {
  on = !on;
  show("live");
  say(on ? "The page follows the office" : "The page holds still");
}

export function live() {
  const where = document.getElementById("main").dataset.events;
  if (!where || !document.querySelector("[data-live]")) return;
  let first = true;
  const events = new EventSource(where);
  const changed = () => {
    show("live");
    // The first one is the present, which this page shows already.
    if (!first) stale = true;
    first = false;
  };
  for (const name of ["stats", "replay"]) events.addEventListener(name, changed);
  events.addEventListener("replay", (event) => {
    // It is over: there is nothing more to follow, and the page shows its end.
    if (!["completed", "cancelled"].includes(JSON.parse(event.data).state)) return;
    stale = true;
    events.close();
  });
  events.addEventListener("error", () => show("away"));
  events.addEventListener("open", () => show("live"));
  document.getElementById("live").addEventListener("click", toggleLive);
  // Ends with the page, so that a browser's few connections are not all spent on pages one has left.
  addEventListener("pagehide", () => events.close());
  setInterval(refresh, APART);
}
