// Keeps the forms that a reader submits before the page's script is loaded. `forms.js` takes them over and sends them.
// A classic script in the head, so that it runs before the first button can be pressed.
(() => {
  const early = new Map();
  const keep = (event) => {
    if (!event.target.matches("form[data-api]")) return;
    event.preventDefault();
    early.set(event.target, event.submitter);
  };
  document.addEventListener("submit", keep, true);
  globalThis.takeEarlySubmits = () => {
    document.removeEventListener("submit", keep, true);
    return early;
  };
})();
