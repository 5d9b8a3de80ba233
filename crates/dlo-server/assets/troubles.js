// The banner of what does not work, kept true: fetched every second while the page is seen, put in place when it says something
// else. The office draws it, here and in the page itself. It stays as it is while something in it is selected.
import { age } from "./ages.js";
import { showLive, stalePage } from "./live.js";

const APART = 1000;

/** What is said, without how long ago: that is counted on the page. */
const said = (section) => section.innerHTML.replace(/<time[^>]*>[^<]*/g, (time) => time.slice(0, time.indexOf(">")));

let shown = "";
let busy = false;

async function look(section) {
  if (busy || document.hidden) return;
  busy = true;
  try {
    const answer = await fetch("/banner", { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("troubles");
    const words = said(fresh);
    if (words === shown || section.contains(getSelection().anchorNode) && String(getSelection()).length > 0) return;
    shown = words;
    const open = section.querySelector("details")?.open;
    const focused = section.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    section.replaceChildren(...document.importNode(fresh, true).childNodes);
    section.hidden = fresh.hidden;
    if (open) section.querySelector("details")?.setAttribute("open", "");
    if (focused) [...section.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    age(section);
    showLive();
    stalePage();
  } catch {
    // The office does not answer; the button of the live updates says so.
  } finally {
    busy = false;
  }
}

export function troubles() {
  const section = document.getElementById("troubles");
  shown = said(section);
  setInterval(() => look(section), APART);
  document.addEventListener("visibilitychange", () => look(section));
}
