// Selecting rows: one by one, a range with Shift, the page, and then "all that match" with the exact number, which is
// counted by the office at that moment. The bar below says what is chosen; its form gets the ids or the query.
import { say } from "./dialog.js";
import { call } from "./forms.js";

let anchor = null;

function picks() {
  return [...document.querySelectorAll("tbody [data-pick]")];
}

function chosen() {
  return picks().filter((pick) => pick.checked);
}

function update(bar) {
  const ids = chosen().map((pick) => pick.value);
  const all = bar.dataset.all === "yes";
  bar.hidden = ids.length === 0;
  const page = picks().length;
  const whole = bar.querySelector("[data-all-matching]");
  if (whole) whole.hidden = all || ids.length !== page || !bar.dataset.query;
  bar.querySelector("[data-chosen]").textContent = all ? `all ${Number(bar.dataset.count).toLocaleString("en")} that match` : `${ids.length} on this page`;
  for (const field of bar.querySelectorAll("[data-ids]")) {
    field.value = ids.join(" ");
    field.disabled = all;
  }
  for (const field of bar.querySelectorAll("[data-query-field]")) {
    field.value = all ? bar.dataset.query : "";
    field.disabled = !all;
  }
  for (const field of bar.querySelectorAll("[data-expect]")) {
    field.value = all ? bar.dataset.count : "";
    field.disabled = !all;
  }
  for (const button of bar.querySelectorAll("[data-counted]")) button.dataset.confirm = all ? bar.dataset.count : ids.length;
  for (const link of bar.querySelectorAll("[data-plan]")) {
    const query = all ? bar.dataset.query : ids.length === 1 ? `id:${ids[0]}` : "";
    link.href = query ? `/replays/new?q=${encodeURIComponent(query)}` : `/replays/new?ids=${ids.join(",")}`;
  }
  const head = document.querySelector("thead [data-pick-all]");
  if (head) {
    head.checked = page > 0 && ids.length === page;
    head.indeterminate = ids.length > 0 && ids.length < page;
  }
}

function range(pick) {
  const all = picks();
  const [from, to] = [all.indexOf(anchor), all.indexOf(pick)].sort((a, b) => a - b);
  if (from < 0) return;
  for (const one of all.slice(from, to + 1)) one.checked = pick.checked;
}

async function takeAll(bar, button) {
  button.disabled = true;
  try {
    const answer = await call(`GET /api/v1/letters/count?q=${encodeURIComponent(bar.dataset.query)}`);
    if (answer.more) {
      say("More than a million letters match; make the query narrower.");
      return;
    }
    if (answer.count === 0) {
      say("None of the letters that match is open.");
      return;
    }
    bar.dataset.all = "yes";
    bar.dataset.count = answer.count;
  } catch (error) {
    say(error.message);
    return;
  } finally {
    button.disabled = false;
  }
  update(bar);
}

export function selection() {
  const bar = document.querySelector("[data-selection]");
  if (!bar) return;
  document.addEventListener("click", (event) => {
    const pick = event.target.closest("[data-pick]");
    if (pick) {
      if (event.shiftKey && anchor) range(pick);
      anchor = pick;
    }
    const all = event.target.closest("[data-pick-all]");
    if (all) for (const one of picks()) one.checked = all.checked;
    if (pick || all) {
      bar.dataset.all = "no";
      update(bar);
    }
    const whole = event.target.closest("[data-all-matching]");
    if (whole) takeAll(bar, whole);
  });
  update(bar);
}
