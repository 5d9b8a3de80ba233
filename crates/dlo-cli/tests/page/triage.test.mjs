// Deciding about groups: menus that behave, a snooze that takes words, teams that are known, an end that has a face; and lists
// that can be read on a telephone.
import { test } from "node:test";
import assert from "node:assert/strict";
import { reloaded, shots, sound, stage } from "./office.mjs";

const { office, chrome, page } = await stage();

async function send(path, body) {
  const answer = await fetch(office.url + path, { method: "POST", headers: { "content-type": "application/json", "dlo-author": "ada" }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

/** A group of its own for a test: what one does with it is no other test's matter. */
async function group(error_class, letters = 1) {
  const all = Array.from({ length: letters }, (_, offset) => ({ source: error_class, offset, payload: offset, error_class, error_message: "the ledger is closed" }));
  const { results } = await send("/api/v1/letters", all);
  const { groups } = await (await fetch(`${office.url}/api/v1/groups?error_class=${error_class}`)).json();
  return { id: groups[0].id, letters: results.map((one) => one.id) };
}

const menu = (name) => page.locator("details.menu", { has: page.locator("summary", { hasText: name }) });
const opened = () => page.locator("details.menu[open]");

test("one menu is open at a time; Escape and a click beside it close it, and the focus goes back", async () => {
  const { id } = await group("MenusOpen");
  await page.goto(`${office.url}/groups/${id}`);
  await menu("Merge").locator("summary").click();
  await menu("Snooze").locator("summary").click();
  assert.equal(await opened().count(), 1);
  await menu("Snooze").getByLabel("For how long").focus();
  await page.keyboard.press("Escape");
  assert.equal(await opened().count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Snooze");
  await menu("Assign").locator("summary").click();
  await page.getByRole("heading", { name: "Latest letters" }).click();
  assert.equal(await opened().count(), 0);
});

test("on a narrow screen a menu stays on it", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const name of ["Resolve", "Snooze", "Assign", "Give to a team", "Merge"]) {
    await menu(name).locator("summary").click();
    const box = await opened().locator(":scope > :not(summary)").boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 390, `${name}: ${JSON.stringify(box)}`);
    // An open menu may lie over the next button.
    await page.keyboard.press("Escape");
  }
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("a snooze takes a duration, says what it cannot read where one sees it, and is told by the reader's clock", async () => {
  const { id } = await group("SnoozedFor");
  await page.goto(`${office.url}/groups/${id}`);
  await menu("Snooze").locator("summary").click();
  const until = menu("Snooze").getByLabel("For how long");
  await until.fill("whenever");
  await until.press("Enter");
  const refusal = menu("Snooze").getByRole("alert").filter({ hasText: "2h, 3d" });
  await refusal.waitFor();
  const box = await refusal.boundingBox();
  assert.ok(box.y >= 0 && box.y + box.height <= 900, JSON.stringify(box));
  await shots(page, "group-snooze");
  await sound(page, "group-snooze");
  await until.fill("2h");
  await until.press("Enter");
  await page.locator("h1 .badge.snoozed").waitFor();
  // The reader's clock comes with the script, a moment after the words of the office.
  await page.locator("#answers .hint").filter({ hasText: /Snoozed until \w+,? \d+ \w+(,| at)? \d\d:\d\d, in (11\d min|2 h)/ }).waitFor();
  await page.goto(`${office.url}/groups?view=snoozed`);
  assert.match(await page.locator("#found").innerText(), /SnoozedFor/);
  assert.deepEqual(page.errors, []);
});

test("until tomorrow at nine is one click", async () => {
  const { id } = await group("SnoozedOver");
  await page.goto(`${office.url}/groups/${id}`);
  await menu("Snooze").locator("summary").click();
  await page.getByRole("button", { name: "Tomorrow 09:00" }).click();
  await page.locator("h1 .badge.snoozed").waitFor();
  await page.locator("#answers .hint").filter({ hasText: /Snoozed until .*09:00, in \d+ (min|h)/ }).waitFor();
});

test("a team is chosen from those that are known, and one that no rule names is taken with a word of doubt", async () => {
  const { id } = await group("WhoseIsIt");
  await page.goto(`${office.url}/groups/${id}`);
  await page.getByRole("button", { name: "Give it to a team" }).click();
  const team = menu("Give to a team").getByLabel("The team that owns the fix");
  assert.ok(await team.evaluate((field) => field === document.activeElement));
  assert.ok(await team.evaluate((field) => [...field.list.options].some((option) => option.value === "tax-team")));
  await team.fill("checkout-taem");
  await reloaded(page, () => menu("Give to a team").getByRole("button").click());
  await page.locator("#answers").getByText("No rule names this team").waitFor();
  await menu("Give to a team").locator("summary").click();
  await team.fill("tax-team");
  await menu("Give to a team").getByRole("button").click();
  await page.locator("#answers .yes .big").filter({ hasText: "tax-team" }).waitFor();
});

test("groups that look alike are merged by a tick", async () => {
  const { id } = await group("AlikeOne");
  await send("/api/v1/letters", { source: "AlikeOne", offset: 77, payload: 1, error_class: "AlikeOne", error_message: "the ledger is closed for good" });
  await page.goto(`${office.url}/groups/${id}`);
  await menu("Merge").locator("summary").click();
  const alike = menu("Merge").getByRole("checkbox", { name: /closed for good/ });
  await alike.check();
  await shots(page, "group-merge");
  await menu("Merge").getByRole("button", { name: "Merge into this one" }).click();
  await page.getByText("Merged into it").waitFor();
});

test("a group whose letters are all handled says so, is found in a list, and is one click from resolved", async () => {
  const { id, letters } = await group("AllHandled", 2);
  await send("/api/v1/letters/discard", { ids: letters, reason: "made good by hand", dry_run: false });
  await page.goto(`${office.url}/groups`);
  await page.getByRole("link", { name: "All handled" }).click();
  await page.getByRole("link", { name: /AllHandled/ }).click();
  await page.waitForURL(`**/groups/${id}`);
  assert.match(await page.locator("#answers").innerText(), /Every letter is handled: 2 discarded[^]*Nobody has said yet that it is over/);
  await shots(page, "group-handled");
  await sound(page, "group-handled");
  await page.getByRole("button", { name: "Resolve it" }).click();
  await menu("Resolve").getByRole("button", { name: "Resolved" }).click();
  await page.locator("h1 .badge.resolved").waitFor();
});

test("the audit log names the group of a deed, and leads to it", async () => {
  await page.goto(`${office.url}/audit?what=group_resolved`);
  const row = page.locator("tr[data-row]").first();
  await row.getByRole("link", { name: /AllHandled/ }).click();
  await page.waitForURL(/\/groups\/[0-9a-f-]{36}/);
});

test("on a narrow screen the audit log has no squeezed rows, and charts begin with what is newest", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${office.url}/audit`);
  const heights = await page.locator("tr[data-row]").evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height));
  assert.ok(heights.length > 5 && Math.max(...heights) < 320, `${heights}`);
  await page.goto(office.url);
  const right = await page.getByRole("region", { name: "Failures of the last two days" }).evaluate((box) =>
    box.querySelector("svg").getBoundingClientRect().right - box.getBoundingClientRect().right);
  assert.ok(right <= 1, `${right} pixels are out of sight`);
  const rooms = await page.locator(".rooms [aria-current]").boundingBox();
  assert.ok(rooms.x >= 0 && rooms.x + rooms.width <= 390);
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("ages go on by themselves", async () => {
  const { id } = await group("StillLive");
  const looking = await chrome.page();
  await looking.clock.install();
  await looking.goto(`${office.url}/groups/${id}`);
  await looking.clock.fastForward(20 * 60 * 1000);
  await looking.locator("#answers").getByText(/First seen (19|2\d) min ago/).waitFor();
  assert.deepEqual(looking.errors, []);
});
