// The planner: the command line follows what is chosen, a queue that is named goes before the choice of a target, and a
// query that was edited but not looked at plans nothing: what is planned is what the page shows.

const form = document.querySelector("form[data-plan]");
const asked = document.querySelector("form[data-asks] [name=q]");

function quoted(text) {
  return /^[\w\-./:=@%+,]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function flag(field) {
  const chosen = field.selectedOptions?.[0];
  if (chosen?.dataset.flag) return chosen.dataset.flag;
  const name = field.dataset.flag;
  if (!name || field.value.trim() === "") return name === "--reason" ? "--reason …" : "";
  // The command line writes words with a dash.
  const value = field.tagName === "SELECT" && name === "--doubts" ? field.value.replaceAll("_", "-") : field.value;
  return `${name} ${quoted(value)}`;
}

/** The letters that are meant: those that came back, those that were selected, or a query. */
function which() {
  const { came_back_from, ids, query } = form.elements;
  if (came_back_from) return `--came-back-from ${came_back_from.value}`;
  return ids ? ids.value : quoted(query.value);
}

function follow() {
  const target = form.elements.target;
  target.disabled = form.elements["target.queue"].value.trim() !== "";
  const flags = [...form.elements].filter((field) => !field.disabled).map(flag).filter(Boolean);
  const line = `dlo replay plan ${which()} ${flags.join(" ")}`.trim();
  document.getElementById("cli").textContent = line;
  document.getElementById("cli-copy").dataset.copy = line;
}

/** While the query above is not the one whose letters are shown, the button waits and says why. */
function compare(button, why) {
  const words = why.textContent;
  const { disabled } = button;
  return () => {
    const edited = asked.value.trim() !== asked.defaultValue.trim();
    button.disabled = disabled || edited;
    why.textContent = edited ? "The query was edited: press Show to see which letters it means, then plan." : words;
  };
}

if (form) {
  form.addEventListener("input", follow);
  follow();
  const same = compare(form.querySelector("[data-key=P]"), document.getElementById("why-plan"));
  asked.addEventListener("input", same);
  same();
}
