// A group that is two causes: a condition is tried, made, told, and taken back; trying and reading need no script.
import { test } from "node:test";
import assert from "node:assert/strict";
import { introduce, shots, sound, stage } from "./office.mjs";

const { office, chrome, page } = await stage();

const told = async (path) => (await fetch(`${office.url}${path}`)).json();
const [group] = (await told("/api/v1/groups?text=KeyError&order=most_open")).groups;
const { letters } = await told(`/api/v1/letters?q=${encodeURIComponent(`group:${group.id} status:open`)}`);
const { key } = letters.find((letter) => letter.key);
const condition = `key:"${key}"`;

test("a condition that changes later is refused by name, without a script", async () => {
  const plain = await chrome.page({ javaScriptEnabled: false });
  await introduce(plain, office.url, "bob");
  await plain.goto(`${office.url}/groups/${group.id}`);
  await plain.getByLabel("Letters that are another cause").fill("status:open");
  await plain.getByRole("button", { name: "How many match?" }).click();
  assert.match(await plain.locator("#trial").innerText(), /`status:open` cannot split a group/);
});

test("a condition says how many match, and splits them off", async () => {
  await page.goto(`${office.url}/groups/${group.id}`);
  await page.getByLabel("Letters that are another cause").fill(condition);
  await page.getByRole("button", { name: "How many match?" }).click();
  assert.match(await page.locator("#trial").innerText(), /[1-9]\d* of its \d+ letters match now/);
  await shots(page, "split-trial");
  await sound(page, "split-trial");
  await page.getByLabel("Name of the new group").fill("One customer");
  await page.getByRole("button", { name: "Split them off" }).click();
  await page.locator("#splits").getByRole("link", { name: "One customer" }).waitFor();
  await shots(page, "split-made");
  await sound(page, "split-made");
});

test("the new group says what made it", async () => {
  await page.locator("#splits").getByRole("link", { name: "One customer" }).click();
  await page.getByRole("heading", { level: 1, name: /One customer/ }).waitFor();
  assert.match(await page.locator("#split-off").innerText(), new RegExp(`split off by the condition key:`));
  await shots(page, "split-group");
  await sound(page, "split-group");
});

test("joining it again takes it back", async () => {
  await page.goto(`${office.url}/groups/${group.id}`);
  await page.getByRole("button", { name: "Join again: One customer" }).click();
  await page.locator("#splits").waitFor({ state: "detached" });
  await page.getByText("Merged into it").waitFor();
});
