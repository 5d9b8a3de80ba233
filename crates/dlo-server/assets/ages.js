// Ages that stay true: "4 min ago" is counted on from the exact time behind it, in the words the office uses, and pointing at
// it tells the reader's own clock. Moments (`time.moment`) are written by that clock. Nothing is asked of the office.

const OFTEN = 15000;

function span(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function told(text, at) {
  const seconds = Math.floor((Date.now() - at) / 1000);
  if (/^in /.test(text)) return seconds < 0 ? `in ${span(-seconds)}` : "now";
  if (!/(ago|now)$/.test(text)) return seconds < 5 ? "moments" : span(seconds);
  return seconds < 5 ? "just now" : `${span(seconds)} ago`;
}

const LOCAL = { dateStyle: "medium", timeStyle: "long" };
const MOMENT = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };

/** Only what says how long ago, or how soon; a time that is written out stays as it is. */
const RELATIVE = /^(just now|moments|(in )?\d+ (s|min|h|d)|\d+ (s|min|h|d) ago)$/;

/** Brings the times within up to date. */
export function age(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = time.textContent;
    if (time.classList.contains("moment")) time.textContent = new Date(at).toLocaleString("en-GB", MOMENT);
    else if (RELATIVE.test(text)) {
      const next = told(text, at);
      if (next !== text) time.textContent = next;
    } else continue;
    if (!time.dataset.local) {
      time.dataset.local = "yes";
      time.title = `${new Date(at).toLocaleString("en-GB", LOCAL)} (${time.dateTime})`;
    }
  }
}

export function ages() {
  age();
  setInterval(() => { if (!document.hidden) age(); }, OFTEN);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) age(); });
}
