// What does not work is on top of every page: without a script, on a phone, live, and gone with its cause.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser, serve, shots, sound } from "./office.mjs";

// Nobody listens on port 1.
const BROKEN = `[brokers.shop]\nkind = "rabbitmq"\nurl = "amqp://clerk:secret@127.0.0.1:1/%2f"\n
[[sources]]\nname = "orders"\nowner = "shop"\nbroker = "shop"\nqueue = "orders"\ndlq = "orders.dlq"\n`;
const PAGES = ["/", "/groups", "/letters", "/replays", "/replays/new", "/sources", "/sources/orders", "/rules", "/owners", "/audit",
  "/letters/0197f3b0-0000-7000-8000-000000000001"];
/** From the recovery until the banner is gone. */
const BAR = 5000;

const home = mkdtempSync(join(tmpdir(), "dlo-trouble-"));
writeFileSync(join(home, "broken.toml"), BROKEN);
writeFileSync(join(home, "well.toml"), "");
const [broken, well, chrome] = await Promise.all([
  serve(join(home, "broken"), join(home, "broken.toml")),
  serve(join(home, "well"), join(home, "well.toml")),
  browser(),
]);
after(async () => {
  await chrome.close();
  await Promise.all([broken.stop(), well.stop()]);
  rmSync(home, { recursive: true, force: true });
});

const banner = (page) => page.locator("#troubles");
const word = (page) => page.locator("#live .word").innerText();

/** What a consumer reports of itself; without a reason that messages flow. */
async function report(consumer, why) {
  const paused = why ? { kind: "consumer_braked", why, held: 60 } : null;
  const body = JSON.stringify({ consumers: [{ queue: "orders", consumer, instance: "1", halted: why ?? null, paused }] });
  const answer = await fetch(`${well.url}/api/v1/consumers`, { method: "POST", headers: { "content-type": "application/json" }, body });
  assert.equal(answer.status, 200, await answer.text());
}

test("every page shows it on top, also on a phone and where no script runs", async () => {
  const plain = await chrome.page({ javaScriptEnabled: false });
  await plain.goto(broken.url);
  for (const width of [1280, 390]) {
    await plain.setViewportSize({ width, height: 844 });
    for (const path of PAGES) {
      await plain.goto(broken.url + path);
      const box = await banner(plain).boundingBox();
      assert.ok(box && box.y === 0 && box.height > 40 && box.width === width, `${path} at ${width}: ${JSON.stringify(box)}`);
      assert.match(await banner(plain).innerText(), /Source orders is not captured[^]*out of reach[^]*dlo check/, path);
    }
  }
});

test("the overview says nothing that sounds well while a source does not work", async () => {
  const page = await chrome.page();
  await page.goto(broken.url);
  await page.locator("#live").waitFor();
  assert.equal(await word(page), "Updating");
  assert.equal(await page.locator("#live").getAttribute("data-state"), "troubled");
  const text = await page.locator("main").innerText();
  assert.doesNotMatch(text, /No letters yet|fine/);
  assert.match(text, /No letter can be captured/);
  await page.locator("#troubles a", { hasText: "Source orders" }).waitFor();
  await shots(page, "trouble-overview");
  await sound(page, "the overview with a trouble");
  await page.locator("#troubles a").first().click();
  await page.getByText("Capture is interrupted and retries automatically.").waitFor();
});

test("it comes and goes by itself on a page that is open", async () => {
  const page = await chrome.page();
  for (const path of ["/", "/rules"]) {
    await page.goto(well.url + path);
    await banner(page).waitFor({ state: "hidden" });
    await report("pricing", "its brake is on, nearly everything fails for HTTP 404");
    await banner(page).waitFor({ state: "visible" });
    assert.match(await banner(page).innerText(), /Consumer pricing of orders holds back 60 messages[^]*HTTP 404[^]*brake = "warn"/);
    await report("pricing");
    const recovered = Date.now();
    await banner(page).waitFor({ state: "hidden" });
    const took = Date.now() - recovered;
    console.log(`${path}: the banner was gone after ${took} ms`);
    assert.ok(took < BAR, `${path}: ${took} ms`);
  }
  await page.goto(well.url);
  await page.locator("#live").waitFor();
  assert.equal(await word(page), "Live");
});

test("many troubles do not push the page away", async () => {
  const names = Array.from({ length: 10 }, (_, n) => `group-${n}`);
  for (const name of names) await report(name, "its breaker for tax is open");
  const page = await chrome.page();
  await page.goto(well.url);
  await banner(page).getByText("7 more").waitFor();
  assert.equal(await banner(page).locator("> ul > li").count(), 3);
  await banner(page).getByText("7 more").click();
  await banner(page).getByText("Consumer group-9 of orders").waitFor();
  // A change does not close what the reader has opened.
  await report("group-9");
  await banner(page).getByText("6 more").waitFor();
  await banner(page).getByText("Consumer group-8 of orders").waitFor();
  await shots(page, "trouble-many");
  await sound(page, "many troubles");
  for (const name of names) await report(name);
  await banner(page).waitFor({ state: "hidden" });
});
