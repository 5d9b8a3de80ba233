// Answers that are shown where they were asked: a trial of rules on history, and the count of every letter.

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function link(id) {
  const a = element("a", id.slice(0, 13) + "…");
  a.href = `/letters/${encodeURIComponent(id)}`;
  return a;
}

function table(heads, rows) {
  const cell = (name, value) => value instanceof Node ? element(name, "", value) : element(name, String(value ?? ""));
  const head = element("tr", "", ...heads.map((text) => { const th = element("th", text); th.scope = "col"; return th; }));
  const body = rows.map((row) => element("tr", "", ...row.map((value) => cell("td", value))));
  const box = element("div", "", element("table", "", element("thead", "", head), element("tbody", "", ...body)));
  box.className = "scroll";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Answer");
  return box;
}

const words = (code) => code === null ? "nobody" : String(code).replaceAll("_", " ");

function samples(ids) {
  const box = document.createElement("span");
  ids.forEach((id, at) => box.append(at ? ", " : "", link(id)));
  return box;
}

function changes(title, list) {
  if (list.length === 0) return [];
  const rows = list.map((one) => [one.count, words(one.from), words(one.to), one.rule ?? "", samples(one.samples)]);
  return [element("h3", title), table(["Letters", "Was", "Would be", "By rule", "Such as"], rows)];
}

const SHOW = {
  verify(answer) {
    if (answer.holds) return [element("p", `Every one of ${answer.letters.toLocaleString("en")} letters is accounted for.`)];
    return [element("p", "It does not hold:"), element("ul", "", ...answer.problems.map((problem) => element("li", problem)))];
  },
  rules(answer) {
    const parts = [element("p", `${answer.scanned.toLocaleString("en")} letters were looked at${answer.next_cursor ? ", and there are more" : ""}. Nothing was changed.`)];
    const told = [...changes("What would have been decided", answer.verdicts), ...changes("Whose they would be", answer.owners), ...changes("Attempts that would have been decided otherwise", answer.attempts)];
    return told.length ? [...parts, ...told] : [...parts, element("p", "Nothing would have been different.")];
  },
  automation(answer) {
    const action = (what) => typeof what === "string" ? what : JSON.stringify(what);
    const rows = answer.automation.map((one) => [one.name, action(one.action), one.letters, samples(one.samples)]);
    const heads = ["Rule", "What would be done", "Open letters", "Such as"];
    return [table(heads, rows)];
  },
};

document.addEventListener("answered", (event) => {
  const form = event.target.closest("form[data-show]");
  if (!form) return;
  form.querySelector(".answer").replaceChildren(...SHOW[form.dataset.show](event.detail));
});
