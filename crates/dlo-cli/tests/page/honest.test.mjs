// What the page says when things go wrong and when they go right: a replay that stopped is no progress, a repair that died is
// no success, what is final is asked once, and an end that is good has a face.
import { test } from "node:test";
import assert from "node:assert/strict";
import { shots, sound, stage } from "./office.mjs";

const { office, page } = await stage(60000);
const { letters } = await until(async () => {
  const found = await ask("/api/v1/letters?q=status:open%20class:KeyError");
  return found.letters?.length >= 7 && found;
});
// The oldest go first, so this one is sent by the canary.
const first = letters.at(-1);
const group = first.group_id;

async function ask(path, init) {
  return (await fetch(office.url + path, init)).json();
}

/** Waits for a fact. */
async function until(look) {
  for (const end = Date.now() + 120000; Date.now() < end;) {
    const seen = await look();
    if (seen) return seen;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("it did not come true within two minutes");
}

const text = (place) => page.locator(place).innerText();
const repairs = () => page.locator("#repair .mend");

/** Stores what is made of the text in the editor, as a person does. */
async function byHand(change, why) {
  const before = await repairs().count();
  const editor = page.locator("#repair form", { has: page.locator("[name=payload]") });
  const field = editor.locator("[name=payload]");
  await field.fill(change(await field.inputValue()));
  await editor.locator(".preview .diff .in").first().waitFor();
  await editor.getByLabel(/Why/).fill(why);
  await editor.getByRole("button", { name: "Store the repair" }).click();
  // The page comes anew with one repair more.
  await repairs().nth(before).waitFor();
}

test("a payload is copied and edited as it is read, and a second edit keeps the first", async () => {
  await page.goto(`${office.url}/letters/${first.id}?payload=show`);
  await page.getByRole("button", { name: "Copy the payload as it is shown" }).waitFor();
  const field = page.locator("#repair [name=payload]");
  assert.match(await field.inputValue(), /^\{\n {2}"/);
  await byHand((json) => json.replace(/^\{/, '{\n  "note": "one",'), "the first edit");
  await byHand((json) => json.replace('"note": "one"', '"note": "one", "more": "two"'), "the second edit");
  assert.match(await text("#repair .mend >> nth=0"), /"note": "one"[^]*"more": "two"/);
  // One line of a difference is one line on the screen.
  const lines = await page.locator("#repair .mend .diff").first().evaluate((diff) => [diff.textContent, diff.children.length]);
  assert.ok(lines[1] > 3 && !lines[0].includes("\n\n"));
  assert.match(await text("#payload"), /This is the original[^]*Repair 2/);
  await shots(page, "letter-repaired");
});

test("looks at a payload are told once for a sitting", async () => {
  assert.equal(await page.getByText(/Its payload was looked at, \d+ times in one sitting/).count(), 1);
});

test("a repair is withdrawn, and the history says so", async () => {
  await page.getByText("Withdraw it").click();
  const form = page.locator(".withdraw form");
  await form.getByLabel(/Why/).fill("it was only tried");
  await form.getByRole("button", { name: "Withdraw repair 2" }).click();
  await page.getByText("withdrawn: a replay sends the original").waitFor();
  assert.match(await repairs().first().innerText(), /as it was captured/);
  assert.equal(await page.locator(".withdraw").count(), 0);
  assert.equal(await page.locator("#payload .warned").count(), 0);
  assert.match(await text("#story"), /Its repair was withdrawn[^]*it was only tried/);
});

test("a plan says that a letter goes out changed, and what is doubtful before the button", async () => {
  await page.goto(`${office.url}/letters/${first.id}?payload=show`);
  await byHand((json) => json.replace(/^\{/, '{\n  "note": "a repair that does not help",'), "a repair that does not help");
  await page.goto(`${office.url}/groups/${group}`);
  await page.getByRole("link", { name: /Plan a replay of/ }).click();
  await page.getByLabel(/Why: what was fixed/).fill("before the fix");
  await page.getByRole("button", { name: "Make the plan" }).click();
  await page.waitForURL(/\/replays\/[0-9a-f-]{36}/);
  await page.getByText(/1 of \d+ letters goes out changed/).waitFor();
  assert.equal(await page.locator("#items .badge", { hasText: "repaired" }).count(), 1);
  const above = async (selector) => (await page.locator(selector).first().boundingBox()).y;
  assert.ok(await above("#doubtful") < await above("#act"));
  await shots(page, "plan-changed");
  await sound(page, "plan-changed");
});

test("a replay that stopped is no progress: overview, group and letter say who holds what", async () => {
  await page.getByRole("button", { name: /^Start/ }).click();
  await page.locator("h1 .badge.stopped").waitFor();
  assert.match(await text("#replay"), /sent repaired/);
  assert.match(await text("#replay"), /0 of 5 whose outcome is known were handled/);
  assert.equal(await page.locator("#doubtful").count(), 0);
  const replay = page.url();
  await page.goto(office.url);
  assert.match(await text("#totals"), /Held by replays\s+[1-9]/);
  assert.match(await text("#halted"), /stopped[^]*holds [1-9]\d* letter/);
  await shots(page, "overview-stopped");
  await sound(page, "overview-stopped");
  await page.goto(`${office.url}/groups/${group}`);
  assert.match(await text("#answers"), /held by a replay[^]*stopped/);
  await shots(page, "group-stopped");
  await page.goto(`${office.url}/letters?q=status:claimed`);
  assert.equal(await page.locator(".tabs [aria-current]").innerText(), "Held by a replay");
  await page.locator("tr[data-row] a").first().click();
  await page.getByText("A replay holds it, and stands still").waitFor();
  assert.equal(new URL(await page.locator("#letter a[href^='/replays/']").getAttribute("href"), office.url).href, replay);
  await page.getByRole("button", { name: "Resume the replay" }).waitFor();
  await shots(page, "letter-held");
  await sound(page, "letter-held");
});

test("a letter whose repair died says that, and not that all is well", async () => {
  await page.goto(`${office.url}/letters/${first.id}?payload=show`);
  assert.match(await text(".answers"), /What failed was repair 4[^]*After a fix, or another repair/);
  assert.match(await repairs().first().innerText(), /it was sent, and died again/);
  assert.equal(await page.locator("#repair .badge.good").count(), 0);
  await shots(page, "letter-repair-died");
  await sound(page, "letter-repair-died");
});

test("a message that is itself wrong is to be repaired first, as its group says", async () => {
  await page.goto(`${office.url}/letters?q=status:open%20class:JSONDecodeError`);
  await page.locator("tr[data-row] a").first().click();
  await page.getByText("After a repair", { exact: true }).waitFor();
  assert.ok(await page.locator(".answers > section.no", { hasText: "After a repair" }).count() === 1);
  await shots(page, "letter-wrong");
});

test("discarding is final, asked once with its reason, and then says who and why", async () => {
  await page.getByLabel("Nothing more is needed, because").fill("cut off at the producer");
  await page.getByRole("button", { name: "Discard" }).click();
  const dialog = page.getByRole("dialog");
  assert.match(await dialog.innerText(), /final[^]*cut off at the producer/);
  await shots(page, "discard");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.locator("h1 .badge.open").count(), 1);
  await page.getByRole("button", { name: "Discard" }).click();
  await dialog.getByRole("button", { name: "Discard" }).click();
  await page.locator("h1 .badge.discarded").waitFor();
  assert.match(await text("#letter"), /It is discarded: ada: cut off at the producer/);
});

test("a switch that was pressed says what it did", async () => {
  await page.goto(office.url);
  await page.getByText("Demo only").waitFor();
  await page.getByRole("button", { name: "Fix the tax table" }).click();
  await page.getByText("Mended").waitFor();
  assert.equal(await page.getByRole("button", { name: "Fix the tax table" }).count(), 0);
});

test("a replay that worked leads on, and its group is resolved from there", async () => {
  await page.goto(`${office.url}/replays`);
  await page.locator("tr[data-row] a").first().click();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator("h1 .badge.cancelled").waitFor();
  await page.goto(`${office.url}/replays/new?q=class:KeyError`);
  await page.getByLabel(/Why: what was fixed/).fill("the tax table has the new districts");
  await page.getByRole("button", { name: "Make the plan" }).click();
  await page.waitForURL(/\/replays\/[0-9a-f-]{36}/);
  await page.getByRole("button", { name: /^Start/ }).click();
  await page.locator("h1 .badge.completed").waitFor();
  await page.getByRole("button", { name: "Resolve the group" }).waitFor();
  await shots(page, "replay-worked");
  await sound(page, "replay-worked");
  await page.goto(`${office.url}/groups/${group}`);
  assert.match(await text("#answers .yes >> nth=-1"), /every letter is handled/);
  await shots(page, "group-done");
  await sound(page, "group-done");
  await page.locator("#answers").getByRole("button", { name: "Resolve it" }).click();
  await page.locator("#resolve").getByRole("button", { name: "Resolved" }).click();
  await page.locator("h1 .badge.resolved").waitFor();
  await page.goto(office.url);
  assert.match(await text("#totals"), /Recovered\s+[1-9]/);
  assert.match(await text("#totals"), /Discarded\s+[1-9]/);
  await shots(page, "overview-after");
});
