// The repair editor: what a change would make of this letter, as a difference, while one types. The office computes it;
// nothing is stored before the form is sent.
import { call, gather } from "./forms.js";

const PAUSE = 600;
const MARKS = { "+": "in", "-": "out", "@": "place" };

function line(text) {
  const span = document.createElement("span");
  span.className = MARKS[text[0]] ?? "both";
  span.textContent = `${text}\n`;
  return span;
}

function sentence(text, kind = "hint") {
  const p = document.createElement("p");
  p.className = kind;
  p.textContent = text;
  return p;
}

function shown(sample, replaces) {
  if (!sample) return [sentence("The letter is not here any more.", "problem")];
  if (sample.outcome === "failed") return [sentence(sample.error, "problem")];
  if (sample.outcome === "unchanged") return [sentence(replaces ? "This is the original: stored, it withdraws the repair above." : "This changes nothing.")];
  const diff = document.createElement("pre");
  diff.className = "diff";
  diff.tabIndex = 0;
  diff.setAttribute("aria-label", "What would change");
  diff.append(...sample.diff.replace(/\n$/, "").split("\n").map(line));
  const fits = sample.schema ? "The result fits its schema." : "No schema is configured for it, so only its form was checked.";
  return [sentence(fits), diff];
}

function editor(form) {
  const place = form.querySelector(".preview");
  const field = form.elements.expression ?? form.elements.payload;
  const first = field.value;
  let timer;
  let asked = 0;

  async function look() {
    const mine = ++asked;
    const { reason, dry_run, ...change } = gather(form);
    if (!(field.name in change) || field.value === first) {
      place.replaceChildren();
      return;
    }
    let parts;
    try {
      parts = shown((await call(`POST ${form.dataset.preview}`, change, { looks: true })).letters[0], "replaces" in form.dataset);
    } catch (error) {
      parts = [sentence(error.message, "problem")];
    }
    // An answer to what was typed before is not shown over a later one.
    if (mine === asked) place.replaceChildren(...parts);
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
}

for (const form of document.querySelectorAll("form[data-preview]")) editor(form);
