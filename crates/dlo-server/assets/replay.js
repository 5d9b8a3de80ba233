// The planner: the command line follows what is chosen, and a queue that is named goes before the choice of a target.

const form = document.querySelector("form[data-plan]");

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

function follow() {
  const target = form.elements.target;
  target.disabled = form.elements["target.queue"].value.trim() !== "";
  const which = form.elements.came_back_from ? `--came-back-from ${form.elements.came_back_from.value}` : quoted(form.elements.query.value);
  const flags = [...form.elements].filter((field) => !field.disabled).map(flag).filter(Boolean);
  const line = `dlo replay plan ${which} ${flags.join(" ")}`.trim();
  document.getElementById("cli").textContent = line;
  document.getElementById("cli-copy").dataset.copy = line;
}

if (form) {
  form.addEventListener("input", follow);
  follow();
}
