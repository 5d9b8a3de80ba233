// Questions and short sentences. A dialog is the browser's own: focus stays inside, Escape closes it.

let last;

/** A sentence that goes away by itself, read aloud by screen readers. */
export function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(last);
  last = setTimeout(() => said.classList.remove("shown"), 4000);
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Opens a dialog around `body` and answers with what `done` makes of it, or `undefined` when it was left. */
export function open(title, body, label, done, { asks = true } = {}) {
  return new Promise((resolve) => {
    const ok = element("button", { type: "submit", textContent: label });
    const leave = element("button", { type: "button", className: "quiet", textContent: "Cancel" });
    const form = element("form", { method: "dialog" },
      element("h2", { textContent: title, id: "dialog-title" }), body, element("p", { className: "row" }, ok, ...(asks ? [leave] : [])));
    const dialog = element("dialog", {}, form);
    dialog.setAttribute("aria-labelledby", "dialog-title");
    let answer;
    form.addEventListener("submit", (event) => {
      answer = done();
      if (answer === undefined) event.preventDefault();
    });
    leave.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks for one line of text. */
export function ask(title, help, value = "") {
  const input = element("input", { value, required: true, maxLength: 200, autocomplete: "name" });
  const body = element("p", {}, element("label", {}, element("span", { className: "hint", textContent: help }), input));
  return open(title, body, "Save", () => input.value.trim() || undefined);
}

/** Lets a person type the number of letters that something happens to. Answers whether it was the right one. */
export async function confirmCount(title, count) {
  const input = element("input", { required: true, inputMode: "numeric", autocomplete: "off" });
  const wrong = element("p", { className: "problem", hidden: true });
  wrong.setAttribute("role", "alert");
  const body = element("div", {},
    element("label", {}, element("span", { textContent: `This cannot be undone here. Type ${count} to go on.` }), input), wrong);
  const typed = await open(title, body, "Go on", () => {
    if (input.value.replaceAll(/[\s,.]/g, "") === String(count)) return true;
    wrong.textContent = `That is not ${count}.`;
    wrong.hidden = false;
    return undefined;
  });
  return typed === true;
}

/** Asks once before something final, with the reason as it will be kept. Answers whether to go on. */
export async function sure(question, reason, label) {
  const body = element("div", {}, element("p", { textContent: question }));
  if (reason) body.append(element("p", { className: "hint", textContent: "The reason that is kept:" }), element("p", { className: "message", textContent: reason }));
  return (await open(label, body, label, () => true)) === true;
}
