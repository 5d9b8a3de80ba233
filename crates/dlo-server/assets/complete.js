// Completion of the search bar: the office knows the fields and the values that exist; this shows them. Arrows choose,
// Enter or Tab takes what was chosen, Escape leaves. Where nothing was chosen, Tab goes on to the next field as ever.

const WAIT = 120;

/** The office counts bytes, a field counts UTF-16: how many bytes stand before a place, and which place a byte is. */
const bytesBefore = (text, place) => new TextEncoder().encode(text.slice(0, place)).length;
const placeOf = (text, byte) => new TextDecoder().decode(new TextEncoder().encode(text).slice(0, byte)).length;

/** What can be taken, with what it stands for. */
function offered(answer) {
  const fields = answer.fields.map((field) => ({ text: field.insert, help: `${field.help}, such as ${field.example}` }));
  const values = answer.values.map((value) => ({ text: value.insert, help: value.open === null ? "" : `${value.open} open` }));
  return [...values, ...fields];
}

export function completion(input, list) {
  if (!input || !list) return;
  let timer;
  let asked = 0;
  let chosen = -1;
  let offers = [];
  let span = { from: 0, to: 0 };

  const leave = () => {
    list.hidden = true;
    chosen = -1;
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "false");
  };

  const mark = (at) => {
    chosen = at;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    if (at >= 0) {
      input.setAttribute("aria-activedescendant", `q-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    }
  };

  const take = (at) => {
    const { text } = offers[at];
    input.setRangeText(text, placeOf(input.value, span.from), placeOf(input.value, span.to), "end");
    leave();
    input.focus();
    if (text.endsWith(":")) look();
  };

  const show = (answer) => {
    offers = offered(answer);
    span = answer.replace;
    const wrong = answer.error && !answer.error.unfinished;
    input.setAttribute("aria-invalid", String(Boolean(wrong)));
    input.title = wrong ? answer.error.detail : "";
    list.replaceChildren(...offers.map((offer, at) => {
      const item = document.createElement("li");
      item.id = `q-${at}`;
      item.setAttribute("role", "option");
      const word = document.createElement("code");
      word.textContent = offer.text;
      const help = document.createElement("span");
      help.textContent = offer.help ?? "";
      item.append(word, help);
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(at); });
      return item;
    }));
    list.hidden = offers.length === 0 || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(-1);
  };

  const look = async () => {
    const turn = ++asked;
    const query = new URLSearchParams({ q: input.value, at: String(bytesBefore(input.value, input.selectionStart ?? input.value.length)) });
    try {
      const answer = await fetch(`/api/v1/complete?${query}`);
      if (turn === asked && answer.ok) show(await answer.json());
    } catch { /* Without completions one can still type. */ }
  };

  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");
  const soon = () => { clearTimeout(timer); timer = setTimeout(look, WAIT); };
  input.addEventListener("input", soon);
  input.addEventListener("focus", soon);
  input.addEventListener("blur", leave);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") mark((chosen + 1) % offers.length);
    else if (event.key === "ArrowUp") mark((chosen + offers.length - 1) % offers.length);
    else if (chosen >= 0 && (event.key === "Enter" || (event.key === "Tab" && !event.shiftKey))) take(chosen);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
