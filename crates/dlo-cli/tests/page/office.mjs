// What every test of the page needs: an office that runs, a browser that looks at it, pictures of what it saw.
//
// DLO_BIN is the binary, DLO_PAGE_MODULES where playwright-core and axe-core are installed, DLO_PAGE_SHOTS where pictures
// go. `./test page` sets them.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { after } from "node:test";

const modules = createRequire(join(process.env.DLO_PAGE_MODULES, "node_modules", "x.js"));
const { chromium } = modules("playwright-core");
const AXE = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

export const SHOTS = process.env.DLO_PAGE_SHOTS ?? join(tmpdir(), "dlo-page");
mkdirSync(SHOTS, { recursive: true });

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** The demo, started and told to its end. */
export async function demo(orders = 20000) {
  const data = mkdtempSync(join(tmpdir(), "dlo-page-"));
  const child = spawn(process.env.DLO_BIN, ["demo", "--listen", "127.0.0.1:0", "--data", join(data, "office"), "--orders", String(orders)],
    { stdio: ["ignore", "pipe", "pipe"] });
  const url = await said(child, /(http:\/\/127\.0\.0\.1:\d+)/);
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      await new Promise((resolve) => child.once("exit", resolve));
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** An office on a data directory that is there already, by a config file if one is named. */
export async function serve(data, config) {
  const child = spawn(process.env.DLO_BIN, [...(config ? ["--config", config] : []), "serve", "--listen", "127.0.0.1:0", "--data", data], { stdio: ["ignore", "pipe", "pipe"] });
  const url = await said(child, /(http:\/\/127\.0\.0\.1:\d+)/);
  return { url, stop: () => new Promise((resolve) => { child.once("exit", resolve); child.kill("SIGTERM"); }) };
}

/** Waits until the program says what is looked for. */
function said(child, wanted) {
  return new Promise((resolve, reject) => {
    let all = "";
    const take = (bytes) => {
      all += bytes;
      const found = wanted.exec(all);
      if (found) resolve(found[1]);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.once("exit", (code) => reject(new Error(`dlo ended with ${code} and said:\n${all}`)));
    setTimeout(() => reject(new Error(`dlo did not say ${wanted}; it said:\n${all}`)), 120000).unref();
  });
}

/** A browser. A page that logs an error or breaks the policy fails the test that looks at it. */
export async function browser() {
  const running = await chromium.launch({ executablePath: process.env.DLO_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  return {
    async page(options = {}) {
      const context = await running.newContext({ viewport: { width: 1280, height: 900 }, ...options });
      // The machine may be busy with other things; a test that waits for a fact waits long enough to see it.
      context.setDefaultTimeout(120000);
      const page = await context.newPage();
      page.errors = [];
      page.on("pageerror", (error) => page.errors.push(String(error)));
      // That the office refuses something is shown on the page, and the browser notes it too: no defect.
      const refused = (text) => /Failed to load resource: .* status of 4\d\d/.test(text);
      page.on("console", (message) => { if (message.type() === "error" && !refused(message.text())) page.errors.push(message.text()); });
      return page;
    },
    close: () => running.close(),
  };
}

/** What most tests begin with: the demo, a browser, and a page whose reader has a name; all of it goes with the last test. */
export async function stage(...about) {
  const [office, chrome] = await Promise.all([demo(...about), browser()]);
  after(async () => {
    await chrome.close();
    await office.stop();
  });
  const page = await chrome.page();
  await introduce(page, office.url);
  return { office, chrome, page };
}

/** The name in the audit log, so that no deed asks for it. */
export async function introduce(page, url, name = "ada") {
  await page.context().addCookies([{ name: "dlo-author", value: name, url }]);
}

/**
 * Does something after which the page loads again, and waits for the load. A live update may show the result earlier, and
 * what a test types before the load is lost.
 */
export async function reloaded(page, action) {
  const load = page.waitForEvent("load");
  await action();
  await load;
}

/** Pictures of a page in both themes and both widths. */
export async function shots(page, name) {
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
}

/** No barrier that axe calls serious or critical, in either theme; nothing wider than the page; nothing in the console. */
export async function sound(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // Through the debugger: the page's own policy lets no script in that is not the office's.
    await page.evaluate(AXE);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const grave = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
    const told = grave.map((one) => `${one.id}: ${one.help}\n  ${one.nodes.slice(0, 3).map((node) => node.html).join("\n  ")}`);
    assert.equal(grave.length, 0, `${name}, ${colorScheme}:\n${told.join("\n")}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${name} is ${wide} wide at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  assert.deepEqual(page.errors, [], `${name} logged errors`);
}
