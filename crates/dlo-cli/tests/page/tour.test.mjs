// The five-minute tour as a person takes it who has never seen the office: find why orders fail, who owns it, repair one,
// replay the group, see that it worked.
import { test } from "node:test";
import assert from "node:assert/strict";
import { introduce, reloaded, shots, sound, stage } from "./office.mjs";

const { office, page } = await stage(60000);

test("the overview says what is new and leads to it", async () => {
  await page.goto(office.url);
  await page.getByRole("heading", { name: "What is new" }).waitFor();
  const link = page.getByRole("link", { name: /KeyError/ }).first();
  await link.waitFor();
  await shots(page, "overview");
  await sound(page, "overview");
  await link.click();
  await page.getByRole("heading", { name: "Who owns the fix" }).waitFor();
});

test("a group answers three questions, and remembers what people write beside it", async () => {
  await page.goto(office.url);
  await page.getByRole("link", { name: /KeyError/ }).first().click();
  const answers = page.locator("#answers");
  assert.match(await answers.innerText(), /tax-team/);
  await reloaded(page, () => page.getByRole("button", { name: "Acknowledge" }).click());
  await page.locator("h1 .badge.acknowledged").waitFor();
  await page.getByLabel("Write a note").fill("The tax table lacks Bengaluru.");
  await reloaded(page, () => page.getByRole("button", { name: "Add" }).first().click());
  await page.getByText("The tax table lacks Bengaluru.").waitFor();
  await shots(page, "group");
  await sound(page, "group");
});

test("what a button cannot do now it says", async () => {
  const button = page.getByRole("button", { name: "Acknowledge" });
  assert.ok(await button.isDisabled());
  assert.match(await button.getAttribute("title"), /acknowledged already/);
});

test("a letter is found by what stands in its payload", async () => {
  await page.goto(office.url);
  await page.keyboard.press("/");
  await page.keyboard.type("payload.ship_to.city:Bengaluru");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/letters\?q=/);
  assert.ok((await page.locator("tr[data-row]").count()) >= 2);
  await shots(page, "letters");
  await sound(page, "letters");
});

test("a query with a mistake points at it", async () => {
  await page.goto(`${office.url}/letters?q=stauts:open`);
  assert.match(await page.getByRole("alert").innerText(), /stauts[^]*\^/);
});

test("selecting the page and then all that match counts exactly", async () => {
  await page.goto(`${office.url}/letters?q=class:KeyError`);
  await page.getByLabel("Select every letter of this page").check();
  await page.getByRole("button", { name: "Select all open letters that match" }).click();
  await page.getByText(/all \d+ that match/).waitFor();
  assert.match(await page.getByRole("link", { name: "Plan a replay" }).getAttribute("href"), /class%3AKeyError/);
  await page.keyboard.press("Escape");
});

test("before the fix the replay stops by itself and says why; after it, it completes", async () => {
  await page.goto(`${office.url}/groups`);
  await replay(page, "the tax table, I believe");
  await page.locator("h1 .badge.stopped").waitFor({ timeout: 60000 });
  assert.match(await page.locator("#replay").innerText(), /came back|does not work/);
  await shots(page, "replay-stopped");
  await sound(page, "replay-stopped");

  // What was not sent is open again, and the next plan has all seven.
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("h1 .badge.cancelled").waitFor();

  await page.goto(office.url);
  await page.getByRole("button", { name: "Fix the tax table" }).click();
  await page.getByText("can be sent on").waitFor();

  await page.goto(`${office.url}/groups`);
  await replay(page, "the tax table knows the new districts");
  await page.locator("h1 .badge.completed").waitFor({ timeout: 60000 });
  assert.match(await page.locator("#replay").innerText(), /7 confirmed/i);
  await shots(page, "replay-completed");
  await sound(page, "replay-completed");
  await page.goto(`${office.url}/letters?q=class:KeyError`);
  assert.equal(await page.locator(".badge.recovered").count(), 7);
});

/** From the list of groups to a replay that runs, by the mouse. */
async function replay(page, reason) {
  await page.getByRole("link", { name: /KeyError/ }).first().click();
  await page.getByRole("link", { name: /Plan a replay of/ }).click();
  await page.getByLabel(/Why: what was fixed/).fill(reason);
  await page.getByRole("button", { name: "Make the plan" }).click();
  await page.waitForURL(/\/replays\/[0-9a-f-]{36}/);
  await page.getByRole("button", { name: /^Start/ }).click();
}

test("a name that no header can hold as it is stands in the audit log as it was written", async () => {
  await introduce(page, office.url, encodeURIComponent("Žofia 山田"));
  await page.goto(`${office.url}/groups?view=all`);
  await page.getByRole("link", { name: /JSONDecodeError/ }).first().click();
  await page.getByRole("button", { name: "Being fixed" }).click();
  await page.locator("h1 .badge.fixing").waitFor();
  await page.goto(`${office.url}/audit`);
  assert.match(await page.locator("main").innerText(), /Žofia 山田/);
  await introduce(page, office.url);
});

test("whoever does not say who they are changes nothing", async () => {
  await page.context().clearCookies();
  await page.goto(`${office.url}/groups?view=all`);
  await page.getByRole("link", { name: /JSONDecodeError/ }).first().click();
  await page.getByRole("button", { name: "Ignore" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Nothing was done").waitFor();
  await page.reload();
  assert.equal(await page.locator("h1 .badge.ignored").count(), 0);
  await introduce(page, office.url);
});

test("letters that were selected one by one are planned by their ids", async () => {
  await page.goto(`${office.url}/letters`);
  await page.locator("tbody [data-pick]").nth(0).check();
  await page.locator("tbody [data-pick]").nth(1).check();
  await reloaded(page, () => page.getByRole("link", { name: "Plan a replay" }).click());
  await page.getByText("2 letters").first().waitFor();
  await page.getByLabel(/Why: what was fixed/).fill("these two");
  assert.match(await page.locator("#cli").innerText(), /^dlo replay plan [0-9a-f-]{36} [0-9a-f-]{36} --reason 'these two'$/);
  await sound(page, "planner-selected");
});
