// Keeping up: when the office says that something changed, the parts of this page that are marked `data-live` are fetched
// again and put in place. It holds still while something is selected, a dialog or a menu is open, a field has the focus, a
// button of the mouse is down, and while a part holds what would be lost: something typed, or a refusal that is to be read.
import { age } from "./ages.js";
import { say } from "./dialog.js";

const APART = 1500;

let on = true;
/** A button of the mouse is down: a part that is replaced before it is up again would swallow the click. */
let pressing = false;
let stale = false;
let busy = false;
/** What the office drew in each part: a script marks rows and opens folds, which is no change of the office. */
const drawn = new WeakMap();

const HOLDS = "dialog[open], details.menu[open], [data-pick]:checked, .combo [role=listbox]:not([hidden]), [data-live] .problem:not([hidden])";

function edited(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  // A choice that names no first one begins with the first.
  if (field.options) return field.selectedIndex !== Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
  return field.value !== field.defaultValue;
}

function held() {
  return pressing
    || document.querySelector(HOLDS) !== null
    || document.activeElement?.matches?.("main input, main textarea, main select") === true
    || String(getSelection()).length > 0
    || [...document.querySelectorAll("[data-live] form :is(input, textarea, select)")].some(edited);
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
    if (!answer.ok) throw new Error(`the office answered ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (held()) { stale = true; return; }
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.outerHTML !== drawn.get(part)) swap(part, next);
    }
  } catch {
    stale = true;
  } finally {
    busy = false;
  }
}

/** Puts the new part in place; what the reader did with the old one stays: the focus, the row, folds, how far it is scrolled. */
function swap(part, next) {
  const fresh = document.importNode(next, true);
  drawn.set(fresh, next.outerHTML);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const address = focused?.getAttribute("href") ?? focused?.id;
  const row = part.querySelector("tr.current a[href]")?.getAttribute("href");
  const far = scrolled(part);
  unfold(part, fresh);
  const links = [...fresh.querySelectorAll("a[href], [id]")];
  const same = (wanted) => links.find((element) => element.getAttribute("href") === wanted || element.id === wanted);
  if (row) same(row)?.closest("tr")?.classList.add("current");
  age(fresh);
  part.replaceWith(fresh);
  for (const box of fresh.querySelectorAll(".scroll")) box.scrollLeft = far.get(box.getAttribute("aria-label")) ?? 0;
  if (address) same(address)?.focus({ preventScroll: true });
}

function scrolled(part) {
  return new Map([...part.querySelectorAll(".scroll")].map((box) => [box.getAttribute("aria-label"), box.scrollLeft]));
}

function unfold(part, fresh) {
  const name = (fold) => fold.querySelector("summary")?.textContent;
  const open = new Set([...part.querySelectorAll("details[open]")].map(name));
  for (const fold of fresh.querySelectorAll("details")) fold.open ||= open.has(name(fold));
}

let state = "live";

function show(now) {
  state = now;
  document.getElementById("live").hidden = false;
  showLive();
}

/** A green "Live" reads as "all is well", so while something does not work it is neither. Pages that do not live have no button. */
export function showLive() {
  const button = document.getElementById("live");
  if (button.hidden) return;
  const troubled = !document.getElementById("troubles").hidden;
  button.setAttribute("aria-pressed", String(on));
  button.dataset.state = !on ? "paused" : state === "live" && troubled ? "troubled" : state;
  button.querySelector(".word").textContent = !on ? "Paused" : state === "away" ? "Not connected" : troubled ? "Updating" : "Live";
}

/** What is on the page may say something else by now. */
export function stalePage() {
  stale = true;
}

export function toggleLive() {
  on = !on;
  show("live");
  say(on ? "The page follows the office" : "The page holds still");
}

/** Listens until the page is left, or what it follows is over. */
function listen(where) {
  const events = new EventSource(where);
  let first = true;
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
  // Ends with the page, so that a browser's few connections are not all spent on pages one has left.
  addEventListener("pagehide", () => events.close(), { once: true });
}

export function live() {
  const where = document.getElementById("main").dataset.events;
  const parts = document.querySelectorAll("[data-live][id]");
  if (!where || parts.length === 0) return;
  for (const part of parts) drawn.set(part, part.outerHTML);
  listen(where);
  // A page that one comes back to is shown as it was left: it listens again, and what it missed is fetched.
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    stale = true;
    listen(where);
  });
  document.getElementById("live").addEventListener("click", toggleLive);
  addEventListener("pointerdown", () => { pressing = true; }, true);
  // The click comes right behind `pointerup`, before any timer.
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => { pressing = false; }), true);
  setInterval(refresh, APART);
}
