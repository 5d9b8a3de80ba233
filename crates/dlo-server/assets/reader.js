// What the reader chooses for this browser: the light, and the name that stands in the audit log. Both are cookies,
// because the office draws the page before any script runs.
import { ask, say } from "./dialog.js";

const YEAR = 365 * 24 * 3600;
const THEMES = { auto: "light", light: "dark", dark: "auto" };

function remember(name, value) {
  document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=${value ? YEAR : 0}; samesite=strict`;
}

/** The name under which things are done here; asked for once, before the first deed. */
export async function author() {
  const who = document.getElementById("who");
  return who.dataset.who || (await introduce());
}

async function introduce() {
  const who = document.getElementById("who");
  const name = await ask("Who are you?", "Your name stands in the audit log beside what you do.", who.dataset.who);
  if (!name) return who.dataset.who;
  remember("dlo-author", name);
  who.dataset.who = name;
  who.textContent = name;
  return name;
}

function shade(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  remember("dlo-theme", theme === "auto" ? "" : theme);
}

export function nextTheme() {
  const next = THEMES[document.documentElement.dataset.theme ?? "auto"];
  shade(next);
  say(next === "auto" ? "Theme as your system has it" : `${next === "dark" ? "Dark" : "Light"} theme`);
}

async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Plain HTTP has no clipboard: a field that is selected and copied the old way.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  say("Copied");
}

export function reader() {
  for (const id of ["who", "theme", "help"]) document.getElementById(id).hidden = false;
  const who = document.getElementById("who");
  if ("proven" in who.dataset) who.title = "This name came with your token";
  else who.addEventListener("click", introduce);
  document.getElementById("theme").addEventListener("click", nextTheme);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}
