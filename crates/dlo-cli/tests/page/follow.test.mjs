// The page follows the office, and what the reader did with it stays: the row, what was typed, a refusal to be read.
import { test } from "node:test";
import assert from "node:assert/strict";
import { stage } from "./office.mjs";

const { office, chrome, page } = await stage();

async function send(path, body) {
  const answer = await fetch(office.url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

test("a new group comes in by itself, and the row one stands on stays the row", async () => {
  await page.goto(`${office.url}/groups?view=all`);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const where = () => page.locator("tr.current td.cause a").getAttribute("href");
  const row = await where();
  await send("/api/v1/letters", { source: "ledger", offset: 1, payload: 1, error_class: "LedgerClosed" });
  await page.getByRole("link", { name: /LedgerClosed/ }).waitFor();
  assert.equal(await where(), row);
  await page.keyboard.press("k");
  assert.notEqual(await where(), row);
});

test("a live update while the mouse is down does not swallow the click", async () => {
  await page.goto(`${office.url}/groups?view=all`);
  await page.getByRole("link", { name: /LedgerClosed/ }).first().click();
  await page.getByRole("button", { name: "Give it to a team" }).hover();
  await page.mouse.down();
  const other = await chrome.page();
  await other.goto(page.url());
  await send("/api/v1/letters", { source: "ledger", offset: 2, payload: 2, error_class: "LedgerClosed" });
  await other.getByText("2 open of 2").first().waitFor();
  // The other page has followed; this one had the same time twice over, and holds still.
  await page.waitForTimeout(3000);
  await page.mouse.up();
  await page.locator("details#own[open]").waitFor();
  await other.close();
});

test("what is pressed before the page's script is loaded is done when it is", async () => {
  let load;
  const loaded = new Promise((resolve) => { load = resolve; });
  await page.route("**/assets/office.js", async (route) => {
    await loaded;
    await route.continue();
  });
  await page.goto(page.url(), { waitUntil: "commit" });
  await page.getByRole("button", { name: "Being fixed" }).click();
  load();
  await page.locator("h1 .badge.fixing").waitFor();
  await page.unroute("**/assets/office.js");
});

test("what the office refuses stays until it was read, and so does what was typed", async () => {
  const { id } = await send("/api/v1/replays", { query: "class:KeyError status:open", reason: "to be cancelled" });
  await page.goto(`${office.url}/replays/${id}`);
  const other = await chrome.page();
  await other.goto(`${office.url}/replays/${id}`);
  const rate = page.locator("#steer").getByLabel("Messages a second");
  await rate.fill("2000000");
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await page.locator("#steer .problem").waitFor();
  await send(`/api/v1/replays/${id}/cancel`, {});
  await other.locator("h1 .badge.cancelled").waitFor();
  // The other page has followed; this one had the same time twice over, and holds still.
  await page.waitForTimeout(3000);
  assert.match(await page.locator("#steer .problem").innerText(), /at most 1000000/);
  assert.equal(await rate.inputValue(), "2000000");
  await other.close();
});

test("an edited query is looked at before it is planned", async () => {
  await page.goto(`${office.url}/replays/new?q=class:KeyError`);
  const make = page.getByRole("button", { name: "Make the plan" });
  assert.ok(await make.isEnabled());
  const query = page.getByRole("textbox", { name: "Query" });
  await query.fill("class:JSONDecodeError");
  assert.ok(await make.isDisabled());
  await page.getByText("The query was edited: press Show").waitFor();
  await query.fill("class:KeyError");
  assert.ok(await make.isEnabled());
  assert.deepEqual(page.errors, []);
});
