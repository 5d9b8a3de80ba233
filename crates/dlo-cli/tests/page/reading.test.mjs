// Reading needs no script: every screen says what it has to say with JavaScript switched off.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { browser, demo } from "./office.mjs";

let office;
let chrome;
let page;

before(async () => {
  [office, chrome] = await Promise.all([demo(), browser()]);
  page = await chrome.page({ javaScriptEnabled: false });
});
after(async () => {
  await chrome?.close();
  await office?.stop();
});

for (const [path, words] of [
  ["/", /What is new[^]*KeyError/],
  ["/groups", /KeyError/],
  ["/letters?q=class:KeyError", /not in tax table/],
  ["/replays", /Replays/],
  ["/sources", /orders/],
  ["/rules", /Rules/],
  ["/owners", /tax-team/],
  ["/audit", /captured/],
]) {
  test(`${path} can be read without a script`, async () => {
    const answer = await page.goto(office.url + path);
    assert.equal(answer.status(), 200);
    assert.match(await page.locator("main").innerText(), words);
  });
}

test("a page of fifty groups weighs less than 150 kB, scripts and style included", async () => {
  const letters = Array.from({ length: 50 }, (_, n) => JSON.stringify({
    source: "ledger", offset: n, payload: n, consumer: "billing", event_type: "invoice.paid", error_class: `Error${n}`, error_message: "the ledger did not answer within five seconds",
  }));
  const stored = await fetch(`${office.url}/api/v1/letters`, { method: "POST", headers: { "content-type": "application/json" }, body: `[${letters}]` });
  assert.equal((await stored.json()).stored, 50);
  const looking = await chrome.page();
  let weight = 0;
  looking.on("response", async (response) => { weight += (await response.body().catch(() => Buffer.alloc(0))).length; });
  await looking.goto(`${office.url}/groups`, { waitUntil: "load" });
  await looking.waitForFunction(() => document.readyState === "complete");
  assert.equal(await looking.locator("tr[data-row]").count(), 50);
  assert.ok(weight > 0 && weight < 150_000, `${weight} bytes`);
});
