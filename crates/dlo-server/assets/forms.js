// Forms that speak to the API: `data-api="POST /api/v1/…"` sends the named fields as JSON, `data-then` says where to go.
// What the office refuses is shown in the form, in the office's own words.
import { confirmCount, say, sure } from "./dialog.js";
import { author } from "./reader.js";
import { undone } from "./undone.js";

function put(into, path, value) {
  const names = path.split(".");
  const last = names.pop();
  for (const name of names) into = into[name] ??= {};
  into[last] = value;
}

/** A time that names no zone is one of the reader's clock; everything else ("2h", "3d", an exact time) the office reads itself. */
function moment(text) {
  const local = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?$/.exec(text.trim());
  const at = local && new Date(`${local[1]}T${local[2] ?? "09:00"}`);
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : text.trim();
}

/** What a button means by the reader's clock: `tomorrow` and `monday`, both at nine in the morning. */
function atNine(word) {
  const at = new Date();
  at.setDate(at.getDate() + (word === "monday" ? (8 - at.getDay()) % 7 || 7 : 1));
  at.setHours(9, 0, 0, 0);
  return at.toISOString();
}

function valueOf(field) {
  const text = field.value;
  switch (field.dataset.type) {
    case "number": return Number(text);
    case "json": return JSON.parse(text);
    case "list": return text.split(/[\s,]+/).filter(Boolean);
    case "moment": return moment(text);
    default: return text;
  }
}

/** The fields of a form as the API takes them; empty ones are left out, unless nothing is a value too (`data-keep-empty`). */
export function gather(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || field.type === "submit") continue;
    // Several fields of one list are one list.
    if (field.dataset.type === "list") {
      const listed = field.type !== "checkbox" || field.checked ? valueOf(field) : [];
      if (listed.length) put(body, field.name, [...(body[field.name] ?? []), ...listed]);
    } else if (field.type === "checkbox") put(body, field.name, field.checked);
    else if (field.type === "radio") { if (field.checked) put(body, field.name, valueOf(field)); }
    else if (field.value.trim() !== "" || "keepEmpty" in field.dataset) put(body, field.name, valueOf(field));
  }
  return body;
}

/** A header holds bytes, not letters: the name as UTF-8, byte by byte. */
function encodeName(name) {
  return String.fromCharCode(...new TextEncoder().encode(name));
}

/**
 * One request to the API. Throws an `Error` whose message is the problem's detail. Looking needs no name, also where it is
 * asked for with a `POST`; whoever does not want to say it does nothing else.
 */
export async function call(what, body, { looks = what.startsWith("GET ") } = {}) {
  const [method, path] = what.split(" ");
  const headers = { accept: "application/json" };
  if (!looks) {
    const name = await author();
    if (!name) throw new Error("Nothing was done: it needs your name for the audit log.");
    headers["dlo-author"] = encodeName(name);
  }
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("The office does not answer. Is it running? Nothing was changed that you can see here; look again before you repeat it.");
  }
  const text = await answer.text();
  let parsed;
  try { parsed = text ? JSON.parse(text) : {}; } catch { parsed = { text: text.trim() }; }
  if (!answer.ok) throw new Error(parsed.detail ?? `The office answered ${answer.status}.`);
  return parsed;
}

function problem(form, text) {
  // A preview inside the form may have a problem of its own.
  let place = form.querySelector(":scope > .problem");
  if (!place) {
    place = document.createElement("p");
    place.className = "problem";
    place.setAttribute("role", "alert");
    form.append(place);
  }
  place.textContent = text;
  place.hidden = !text;
  if (text) place.scrollIntoView({ block: "nearest" });
}

function follow(form, answer) {
  const left = undone(answer);
  if (left) throw new Error(left);
  const then = form.dataset.then ?? "reload";
  if (then === "say") say(answer.text ?? "Done.");
  if (then === "reload") location.reload();
  else if (then.startsWith("/")) location.assign(then.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer[name] ?? "")));
  form.dispatchEvent(new CustomEvent("answered", { detail: answer, bubbles: true }));
}

async function send(event) {
  const form = event.target.closest("form[data-api]");
  if (!form) return;
  event.preventDefault();
  // Also those that stand elsewhere and name the form.
  const buttons = [...form.elements].filter((field) => field.type === "submit" && !field.disabled);
  try {
    problem(form, "");
    const body = gather(form);
    const { submitter } = event;
    if (submitter?.name) put(body, submitter.name, submitter.dataset.type === "at-nine" ? atNine(submitter.value) : submitter.value);
    const count = submitter?.dataset.confirm ?? form.dataset.confirm;
    if (count && !(await confirmCount(submitter?.textContent ?? "Are you sure?", count))) return;
    const question = submitter?.dataset.sure ?? form.dataset.sure;
    if (question && !(await sure(question, [body.reason, body.reference].filter(Boolean).join(", "), submitter?.textContent ?? "Go on"))) return;
    for (const button of buttons) button.disabled = true;
    follow(form, await call(submitter?.dataset.api ?? form.dataset.api, body));
  } catch (error) {
    problem(form, error instanceof SyntaxError ? `That is not JSON: ${error.message}` : error.message);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

/** Sends forms from now on, and those that were submitted before this script was loaded. */
export function forms(root) {
  root.addEventListener("submit", send);
  // After the scripts of this page, which are modules too and follow this one.
  addEventListener("DOMContentLoaded", () => {
    for (const [form, submitter] of globalThis.takeEarlySubmits()) form.requestSubmit(submitter);
  }, { once: true });
}
