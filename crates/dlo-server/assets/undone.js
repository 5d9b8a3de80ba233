// What an answer says that was not done. The office takes a request about many letters and lets each stand for itself, so
// "200 OK" may mean that nothing happened: a person who pressed a button is told so, in a sentence.

const number = (count) => count.toLocaleString("en");
const AGAIN = "Load the page again to see how they stand.";

/** `POST /repairs`: a change that cannot be made, makes no difference, or comes too late. */
function repair({ repaired, taken_back, unchanged, failed, skipped, failures }) {
  const done = repaired + taken_back;
  if (failed > 0) {
    const why = failures[0]?.error ?? "the office does not say why";
    return done === 0 ? `Nothing was stored: ${why}` : `${number(done)} repaired, ${number(failed)} not: ${why}`;
  }
  if (done > 0) return "";
  if (unchanged > 0) return "Nothing was stored: the change makes no difference.";
  return skipped > 0 ? `Nothing was stored: it is not open any more. ${AGAIN}` : "Nothing was stored: there is no such letter.";
}

/** Discarding and compensating: only open letters move. */
function decision({ matched, moved, skipped, missing }) {
  if (moved >= matched && matched > 0) return "";
  const why = [];
  if (skipped > 0) why.push(`${number(skipped)} ${skipped === 1 ? "was" : "were"} not open`);
  if (missing > 0) why.push(`${number(missing)} ${missing === 1 ? "is" : "are"} not here`);
  return `${number(moved)} of ${number(matched)}${why.length ? `: ${why.join(", ")}` : ""}. ${AGAIN}`;
}

/** Many groups: each says for itself why not; one of them is enough for a person. */
function changes({ changed, results }) {
  const why = results.find((one) => one.result !== "changed");
  if (!why) return "";
  return `${number(changed)} of ${number(results.length)}: ${why.detail ?? "there is no such group"}. ${AGAIN}`;
}

/** A sentence about what was left undone; nothing where everything was done. */
export function undone(answer) {
  if (answer.dry_run) return "";
  if ("repaired" in answer) return repair(answer);
  if ("moved" in answer) return decision(answer);
  if ("changed" in answer && answer.results) return changes(answer);
  if (answer.settled === 0) return `Nothing was settled: none of them is in doubt any more. ${AGAIN}`;
  return "";
}
