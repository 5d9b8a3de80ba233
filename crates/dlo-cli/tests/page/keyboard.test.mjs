// The keyboard alone: find the group, open a letter, plan a replay, start it. No mouse, no tricks.
import { test } from "node:test";
import assert from "node:assert/strict";
import { stage } from "./office.mjs";

const { office, page } = await stage();

test("from the overview to a running replay without a mouse", async () => {
  const { keyboard } = page;
  await page.goto(office.url);
  // Two keys are one word if they follow each other within a second, which a busy machine may not manage at once.
  while (!/\/groups/.test(page.url())) {
    await keyboard.press("g");
    await keyboard.press("g");
    await page.waitForURL(/\/groups/, { timeout: 5000 }).catch(() => {});
  }
  // The group with the tax table, wherever it stands. The page holds still, so that no row moves while they are walked.
  await keyboard.press("f");
  await keyboard.press("j");
  const rows = await page.locator("tr[data-row]").count();
  for (let row = 1; row < rows && !(await page.locator("tr.current").innerText()).includes("KeyError"); row += 1) await keyboard.press("j");
  assert.match(await page.locator("tr.current").innerText(), /KeyError/);
  await keyboard.press("Enter");
  await page.waitForURL(/\/groups\/[0-9a-f-]{36}/);
  await keyboard.press("j");
  await keyboard.press("Enter");
  await page.waitForURL(/\/letters\/[0-9a-f-]{36}/);
  await page.goBack();
  await keyboard.press("R");
  await page.waitForURL(/\/replays\/new/);
  await tabTo(/Why: what was fixed/);
  await keyboard.type("by the keyboard");
  await keyboard.press("Enter");
  await page.waitForURL(/\/replays\/[0-9a-f-]{36}/);
  await keyboard.press("S");
  await page.locator("h1 .badge:not(.planned)").waitFor();
});

test("the list of keys names those of the screen", async () => {
  await page.goto(`${office.url}/letters`);
  await page.keyboard.press("?");
  const words = await page.locator("dialog").innerText();
  assert.match(words, /search/);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
});

test("completions are taken with the arrows", async () => {
  await page.goto(office.url);
  await page.keyboard.press("/");
  await page.keyboard.type("class:Key");
  await page.getByRole("option", { name: /KeyError/ }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await page.locator("#q").inputValue(), /^class:KeyError/);
});

test("Tab goes on to the next field where no completion was chosen, and takes the one that was", async () => {
  const { keyboard } = page;
  const field = page.locator("#q");
  for (const [key, value] of [["Tab", "class:Key"], ["Shift+Tab", "class:Key"]]) {
    await page.goto(office.url);
    await keyboard.press("/");
    await keyboard.type("class:Key");
    await page.getByRole("option", { name: /KeyError/ }).waitFor();
    await keyboard.press(key);
    assert.equal(await field.inputValue(), value);
    assert.equal(await field.evaluate((element) => element === document.activeElement), false);
  }
  await page.goto(office.url);
  await keyboard.press("/");
  await keyboard.type("class:Key");
  await page.getByRole("option", { name: /KeyError/ }).waitFor();
  await keyboard.press("ArrowDown");
  await keyboard.press("Tab");
  assert.match(await field.inputValue(), /^class:KeyError/);
  assert.ok(await field.evaluate((element) => element === document.activeElement));
});

/** Presses Tab until the field with this label has the focus. */
async function tabTo(label) {
  for (let presses = 0; presses < 60; presses += 1) {
    const focused = await page.evaluate(() => document.activeElement?.labels?.[0]?.innerText ?? "");
    if (label.test(focused)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`Tab never reached ${label}`);
}
