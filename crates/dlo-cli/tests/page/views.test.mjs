// Saved views: what one looks at gets a name, is one click away for oneself or for everybody, and goes again.
import { test } from "node:test";
import assert from "node:assert/strict";
import { introduce, shots, sound, stage } from "./office.mjs";

const { office, chrome, page } = await stage();

const saved = (looking) => looking.getByRole("navigation", { name: "Saved views" });

async function save(name, everybody) {
  await page.getByText("Save this view").click();
  await page.getByLabel("Name of the view").fill(name);
  if (everybody) await page.getByLabel("For everybody").check();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await saved(page).getByRole("link", { name }).waitFor();
}

test("a search is saved for oneself, and found again as a link", async () => {
  await page.goto(`${office.url}/letters?q=${encodeURIComponent('class:KeyError "tax table"')}`);
  await save("Tax & pins", false);
  await page.goto(`${office.url}/letters`);
  await saved(page).getByRole("link", { name: "Tax & pins" }).click();
  assert.equal(await page.locator("#q").inputValue(), 'class:KeyError "tax table"');
  assert.equal(await saved(page).getByRole("link", { name: "Tax & pins" }).getAttribute("aria-current"), "page");
  assert.equal(await page.getByText("Save this view").count(), 0);
  await shots(page, "views-letters");
  await sound(page, "views-letters");
});

test("a list of groups is saved for everybody with its words and its order", async () => {
  await page.goto(`${office.url}/groups?view=all&text=KeyError&order=most_open`);
  await save("Keys by weight", true);
  await shots(page, "views-groups");
  await sound(page, "views-groups");
});

test("somebody else sees what is shared and nothing else, also without a script", async () => {
  const other = await chrome.page({ javaScriptEnabled: false });
  await introduce(other, office.url, "bob");
  await other.goto(`${office.url}/groups`);
  await saved(other).getByRole("link", { name: "Keys by weight" }).click();
  assert.match(other.url(), /\/groups\?view=all&text=KeyError&order=most(_|%5F)open$/);
  assert.match(await other.locator("#found").innerText(), /KeyError/);
  await other.goto(`${office.url}/letters`);
  assert.equal(await saved(other).count(), 0);
});

test("a view that nobody needs is taken away", async () => {
  await page.goto(`${office.url}/letters?q=${encodeURIComponent('class:KeyError "tax table"')}`);
  await page.getByRole("button", { name: "Remove “Tax & pins”" }).click();
  await page.getByText("Save this view").waitFor();
  assert.equal(await saved(page).count(), 0);
});

test("what cannot be saved says why, in the form", async () => {
  await page.getByText("Save this view").click();
  await page.getByLabel("Name of the view").fill(" \u{7f} ");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "a name of 1 to 256 characters" }).waitFor();
});
