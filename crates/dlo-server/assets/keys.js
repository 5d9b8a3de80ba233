// The keyboard: small letters look, capitals change. Keys are named beside what they do: `data-key="R"` on a button or a
// link is pressed by that key; rows are walked with j and k.
import { open } from "./dialog.js";
import { nextTheme } from "./reader.js";
import { toggleLive } from "./live.js";

const ROOMS = { o: "/", g: "/groups", l: "/letters", r: "/replays", s: "/sources", u: "/rules", w: "/owners", a: "/audit" };
const FIXED = [
  ["/", "search"], ["j  k", "next and previous row"], ["Enter", "open the row"], ["x", "select the row"], ["Esc", "leave, or clear the selection"],
  ["g then o g l r s u w a", "go to Overview, Groups, Letters, Replays, Sources, Rules, Owners, Audit"],
  ["t", "theme"], ["f", "follow the office, or hold still"], ["?", "this list"],
];

let going = false;

function rows() {
  return [...document.querySelectorAll("tr[data-row]")];
}

function current() {
  return document.querySelector("tr[data-row].current");
}

function walk(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(current());
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  current()?.classList.remove("current");
  next.classList.add("current");
  next.querySelector("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function listed() {
  const own = [...document.querySelectorAll("[data-key]")].map((element) =>
    [element.dataset.key, element.getAttribute("aria-label") ?? element.labels?.[0]?.innerText ?? element.textContent.trim()]);
  return [...FIXED, ...own];
}

export async function showKeys() {
  const list = document.createElement("dl");
  list.className = "keys";
  for (const [key, what] of listed()) {
    const term = document.createElement("dt");
    const code = document.createElement("kbd");
    code.textContent = key;
    term.append(code);
    const text = document.createElement("dd");
    text.textContent = what;
    list.append(term, text);
  }
  await open("Keyboard", list, "Close", () => true, { asks: false });
}

function press(key) {
  const element = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key && !one.disabled && one.offsetParent);
  if (element?.matches("input, textarea")) element.focus();
  else element?.click();
  return element !== undefined;
}

function clear() {
  for (const pick of document.querySelectorAll("[data-pick]:checked")) pick.click();
  document.activeElement?.blur?.();
}

const LOOK = {
  "/": () => document.getElementById("q").focus(),
  "?": showKeys,
  j: () => walk(1),
  k: () => walk(-1),
  x: () => current()?.querySelector("[data-pick]")?.click(),
  g: () => { going = true; setTimeout(() => { going = false; }, 1200); },
  t: nextTheme,
  f: toggleLive,
  Escape: clear,
};

function typed(event) {
  const field = event.target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
  if (field) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (going && ROOMS[event.key]) {
    going = false;
    location.assign(ROOMS[event.key]);
  } else if (event.key === "Enter" && current() && !event.target.matches?.("a, button")) {
    current().querySelector("a")?.click();
  } else if (LOOK[event.key]) {
    event.preventDefault();
    LOOK[event.key]();
  } else if (event.key.length === 1 && press(event.key)) {
    event.preventDefault();
  }
}

export function keys() {
  addEventListener("keydown", typed);
  document.getElementById("help").addEventListener("click", showKeys);
}
