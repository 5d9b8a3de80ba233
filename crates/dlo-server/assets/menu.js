// Menus that open over the page (`details.menu`): one at a time, closed by Escape and by a click beside them, and the focus
// goes back to where it was. A button elsewhere opens one by its id: `data-opens="resolve"`.

const OPEN = "details.menu[open]";

function close(menu, { returns = false } = {}) {
  menu.open = false;
  if (returns) menu.querySelector("summary").focus();
}

function clicked(event) {
  for (const menu of document.querySelectorAll(OPEN)) if (!menu.contains(event.target)) close(menu);
  const opener = event.target.closest?.("[data-opens]");
  const menu = opener && document.getElementById(opener.dataset.opens);
  if (!menu) return;
  event.preventDefault();
  menu.open = true;
  menu.scrollIntoView({ block: "nearest" });
  menu.querySelector("form :is(input:not([type=hidden]), button)")?.focus();
}

function pressed(event) {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  const menu = document.querySelector(OPEN);
  if (!menu) return;
  // Escape leaves one thing at a time: the menu now, a selection by the next.
  event.stopPropagation();
  close(menu, { returns: menu.contains(document.activeElement) });
}

/** What opened below the fold is brought into sight. */
function toggled(event) {
  if (event.target.matches?.(OPEN)) event.target.querySelector(":scope > :not(summary)")?.scrollIntoView({ block: "nearest" });
}

export function menus() {
  // Such an event does not rise; it is caught on its way down.
  document.addEventListener("toggle", toggled, true);
  document.addEventListener("click", clicked);
  document.addEventListener("keydown", pressed);
}
