// What expires: letters that a rule discards within a day are one click away, and each says when it goes and by which rule.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser, serve, shots, sound } from "./office.mjs";

const RULES = `[[rules.automation]]
name = "telemetry is worthless after two days"
query = "source:telemetry age:>2d"
action = "discard"
`;
const HOUR = 3_600_000;

let home;
let office;
let chrome;
let page;

before(async () => {
  home = mkdtempSync(join(tmpdir(), "dlo-expiring-"));
  writeFileSync(join(home, "dlo.toml"), RULES);
  [office, chrome] = await Promise.all([serve(join(home, "data"), join(home, "dlo.toml")), browser()]);
  const letter = (source, hours) => ({
    source, payload: {}, error_class: "Late", error_message: `${hours} hours old`, failed_at: new Date(Date.now() - hours * HOUR).toISOString(),
  });
  const stored = await fetch(`${office.url}/api/v1/letters`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify([letter("telemetry", 30), letter("telemetry", 2), letter("orders", 30)]),
  });
  assert.equal((await stored.json()).stored, 3);
  page = await chrome.page();
});
after(async () => {
  await chrome?.close();
  await office?.stop();
  if (home) rmSync(home, { recursive: true, force: true });
});

test("what goes within a day is a view of letters", async () => {
  await page.goto(`${office.url}/letters`);
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Expiring" }).click();
  assert.match(await page.locator("#found").innerText(), /1 letter matches[^]*30 hours old/);
  assert.equal(await page.locator("tr[data-row]").count(), 1);
});

test("a letter says when it goes and by which rule, and one that stays says nothing", async () => {
  await page.getByRole("link", { name: /30 hours old/ }).click();
  assert.match(await page.locator("#letter").innerText(), /It will be discarded in 1[78] h, by the rule telemetry is worthless after two days/);
  await shots(page, "letter-expiring");
  await sound(page, "letter-expiring");
  await page.goto(`${office.url}/letters?q=source:orders`);
  await page.getByRole("link", { name: /30 hours old/ }).click();
  assert.doesNotMatch(await page.locator("#letter").innerText(), /will be discarded/);
});
