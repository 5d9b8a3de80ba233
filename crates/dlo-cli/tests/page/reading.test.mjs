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

test("a form that needs a script says so, and puts nothing that was typed into the address", async () => {
  await page.goto(`${office.url}/letters?q=class:KeyError`);
  await page.locator("td.cause a").first().click();
  await page.locator("#repair textarea").first().waitFor();
  // A browser that is only told not to run scripts draws this as if it ran them; the words are there for one without.
  assert.match(await page.content(), /<noscript>.*need them, and do nothing here/);
  const before = page.url();
  await page.locator("#repair textarea").first().fill('.card = "4111"');
  await page.locator("#repair form").first().getByLabel(/Why/).fill("typed without a script");
  await page.locator("#repair form").first().getByRole("button").click();
  assert.equal(page.url(), before);
});

test("a page of fifty groups weighs less than 150 kB, scripts and style included", async () => {
  const letters = Array.from({ length: 50 }, (_, n) => JSON.stringify({
    source: "ledger", offset: n, payload: n, consumer: "billing", event_type: "invoice.paid", error_class: `Error${n}`, error_message: "the ledger did not answer within five seconds",
  }));
  const stored = await fetch(`${office.url}/api/v1/letters`, { method: "POST", headers: { "content-type": "application/json" }, body: `[${letters}]` });
  assert.equal((await stored.json()).stored, 50);
  const looking = await chrome.page();
  const bodies = [];
  looking.on("response", (response) => {
    // What the page follows never ends.
    if (/event-stream/.test(response.headers()["content-type"])) return;
    bodies.push(response.body().catch(() => Buffer.alloc(0)));
  });
  await looking.goto(`${office.url}/groups`, { waitUntil: "load" });
  await looking.waitForFunction(() => document.readyState === "complete");
  assert.equal(await looking.locator("tr[data-row]").count(), 50);
  const weight = (await Promise.all(bodies)).reduce((sum, body) => sum + body.length, 0);
  assert.ok(weight > 20_000 && weight < 150_000, `${weight} bytes`);
});

test("where no rule takes letters away, it is said that nothing expires", async () => {
  await page.goto(`${office.url}/letters?q=is:expiring`);
  assert.match(await page.locator("#found").innerText(), /Nothing expires here/);
});
