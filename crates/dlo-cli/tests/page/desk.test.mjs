// The desk: one letter from question to repair, a replay from plan to outcome by the keyboard, and the rooms that one looks
// into: sources, rules, owners, audit.
import { test } from "node:test";
import assert from "node:assert/strict";
import { shots, sound, stage } from "./office.mjs";

const { office, page } = await stage();
const letter = await until(async () => (await ask("/api/v1/letters?q=status:open%20class:KeyError&limit=1")).letters[0]?.id);

async function ask(path, init) {
  return (await fetch(office.url + path, init)).json();
}

/** Waits for a fact. */
async function until(look) {
  for (const end = Date.now() + 60000; Date.now() < end;) {
    const seen = await look();
    if (seen) return seen;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("it did not come true within a minute");
}

test("a letter answers what failed, who owns it and whether it can be replayed", async () => {
  await page.goto(`${office.url}/letters/${letter}`);
  for (const question of ["What failed?", "Who owns the fix?", "Can it be replayed?"]) {
    await page.getByRole("heading", { name: question }).waitFor();
  }
  assert.match(await page.locator(".answers").innerText(), /KeyError[^]*Yes/);
  assert.match(await page.locator("#story").innerText(), /Died[^]*Captured by the office/);
  await shots(page, "letter");
  await sound(page, "letter");
});

test("its payload is shown when it is asked for, pretty, raw and as hex", async () => {
  await page.getByRole("link", { name: "Show the payload", exact: true }).click();
  await page.locator("#payload pre").waitFor();
  assert.match(await page.locator("#payload pre").innerText(), /"ship_to": \{/);
  await page.getByRole("link", { name: "Hex" }).click();
  assert.match(await page.locator("#payload pre").innerText(), /^00000000 {2}7b/);
  await page.getByRole("link", { name: "Pretty" }).click();
});

test("a repair is previewed while one types, stored with a reason, and shown", async () => {
  const repair = page.locator("#repair form").first();
  const expression = repair.getByRole("textbox").first();
  await expression.fill(".note = ");
  await repair.locator(".preview .problem").waitFor();
  // A browser calls every refusal an error; this one was asked for.
  page.errors.length = 0;
  await expression.fill('.note = "looked at by hand"');
  await repair.locator(".preview .diff .in").first().waitFor();
  assert.match(await repair.locator(".preview .diff").innerText(), /looked at by hand/);
  await shots(page, "repair");
  await sound(page, "repair");
  await repair.getByLabel(/Why/).fill("shown to a new colleague");
  await repair.getByRole("button", { name: "Store the repair" }).click();
  await page.getByText("a replay sends this one").waitFor();
  assert.match(await page.locator("#repair .mend").innerText(), /shown to a new colleague[^]*looked at by hand/);
});

test("a repair that cannot be made, or makes no difference, is not lost in silence", async () => {
  const { letters } = await ask("/api/v1/letters?q=status:open%20class:KeyError&limit=2");
  await page.goto(`${office.url}/letters/${letters.find((one) => one.id !== letter).id}`);
  const repair = page.locator("#repair form").first();
  await repair.getByLabel(/Why/).fill("to be refused");
  await repair.getByRole("textbox").first().fill('error("no such district")');
  await repair.getByRole("button", { name: "Store the repair" }).click();
  await repair.getByText(/Nothing was stored: .*no such district/).waitFor();
  await repair.getByRole("textbox").first().fill(".");
  await repair.getByRole("button", { name: "Store the repair" }).click();
  await repair.getByText("Nothing was stored: the change makes no difference.").waitFor();
  assert.equal(await page.locator("#repair .mend").count(), 0);
});

test("letters that are no longer open are counted when others are discarded", async () => {
  const ids = [0, 1].map((n) => JSON.stringify({ source: "ledger", offset: n, payload: n, error_class: "Twice" }));
  const stored = await ask("/api/v1/letters", { method: "POST", headers: { "content-type": "application/json" }, body: `[${ids}]` });
  await page.goto(`${office.url}/letters?q=class:Twice`);
  await page.getByLabel("Select every letter of this page").check();
  const discard = { ids: [stored.results[0].id], reason: "by somebody else", dry_run: false };
  await ask("/api/v1/letters/discard", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(discard) });
  await page.getByLabel("Reason, kept in the audit log").fill("not needed");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("2");
  await page.getByRole("dialog").getByRole("button", { name: "Go on" }).click();
  await page.getByText("1 of 2: 1 was not open.").waitFor();
});

test("the keyboard alone leads from the letter to a plan and starts it", async () => {
  await fetch(`${office.url}/demo/fix`, { method: "POST" });
  await page.goto(`${office.url}/letters/${letter}`);
  await page.keyboard.press("R");
  await page.waitForURL(/\/replays\/new\?q=id/);
  assert.match(await page.locator("main").innerText(), /1 open letter as of now/);
  await page.goto(`${office.url}/replays/new?q=class:KeyError`);
  await page.getByLabel(/what was fixed/).focus();
  await page.keyboard.type("the tax table has the new districts");
  assert.match(await page.locator("#cli").innerText(), /--reason 'the tax table has the new districts'/);
  await shots(page, "planner");
  await sound(page, "planner");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/replays\/[0-9a-f-]{36}$/);
  assert.match(await page.locator("main").innerText(), /Nothing was sent yet/);
  await shots(page, "replay-planned");
  await sound(page, "replay-planned");
  await page.keyboard.press("S");
  await page.locator("h1 .badge.canary, h1 .badge.running, h1 .badge.completed").waitFor();
});

test("outcomes are told apart while it runs, and the page follows them", async () => {
  await page.locator("h1 .badge.completed").waitFor({ timeout: 120000 });
  const told = await page.locator(".outcomes").innerText();
  for (const outcome of ["confirmed", "passed", "presumed", "returned", "unknown", "in doubt"]) assert.match(told, new RegExp(outcome));
  assert.ok(await page.getByRole("button", { name: "Resume" }).isDisabled());
  await shots(page, "replay-completed");
  await sound(page, "replay-completed");
  await page.goto(`${office.url}/replays`);
  await page.locator("tr[data-row]").first().waitFor();
  await shots(page, "replays");
  await sound(page, "replays");
});

for (const [name, path, words] of [
  ["sources", "/sources", /orders/],
  ["source", "/sources/orders", /What the office may do[^]*What if the confirmation of a send is lost/],
  ["owners", "/owners", /Open letters/],
]) {
  test(`the room ${name} says what there is`, async () => {
    await page.goto(office.url + path);
    assert.match(await page.locator("main").innerText(), words);
    await shots(page, name);
    await sound(page, name);
  });
}

test("a rule is tried on history, and nothing is changed", async () => {
  await page.goto(`${office.url}/rules`);
  const trial = page.locator("#classify details");
  await trial.locator("summary").click();
  await trial.getByLabel("Rules, as JSON").fill('[{"when": {"class": "KeyError"}, "verdict": "retry"}]');
  await trial.getByLabel("On which letters").fill("class:KeyError");
  await trial.getByRole("button", { name: "Try" }).click();
  await trial.getByText("What would have been decided").waitFor();
  await shots(page, "rules");
  await sound(page, "rules");
  await trial.getByLabel("Rules, as JSON").fill("[{");
  await trial.getByRole("button", { name: "Try" }).click();
  assert.match(await trial.getByRole("alert").innerText(), /not JSON/);
});

test("the audit log says who did what, and that every letter is accounted for", async () => {
  await page.goto(`${office.url}/audit?author=ada`);
  assert.match(await page.locator("#audit").innerText(), /replay[^]*repaired/);
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByText(/Every one of [\d,]+ letters is accounted for/).waitFor();
  await shots(page, "audit");
  await sound(page, "audit");
});
