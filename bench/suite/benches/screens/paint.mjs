// Loads pages in Chromium, each so many times with nothing cached, and says of each in a line of JSON when it had something
// to read and what came for it: `node paint.mjs <loads> <url>...`. The driver is the one of the page's tests.
import { gzipSync } from "node:zlib";
import { browser } from "../../../../crates/dlo-cli/tests/page/office.mjs";

const [loads, ...urls] = process.argv.slice(2);
const chrome = await browser();

/** One load by a browser that has never been here. */
async function load(url) {
  const page = await chrome.page();
  const came = [];
  // Events go on for as long as the page is open; what still comes when it is left has no body any more.
  const body = (response) => response.body().catch(() => Buffer.alloc(0));
  page.on("response", (response) => { if (!response.url().includes("/api/v1/events")) came.push(body(response)); });
  await page.goto(url, { waitUntil: "load" });
  const paint = await page.evaluate(() => new Promise((seen) => {
    new PerformanceObserver((list) => {
      const first = list.getEntriesByName("first-contentful-paint")[0];
      if (first) seen(first.startTime);
    }).observe({ type: "paint", buffered: true });
  }));
  const bodies = await Promise.all(came);
  await page.context().close();
  return { paint, bodies };
}

// The browser's own start is not the office's.
await load(urls[0]);
for (const url of urls) {
  const paints = [];
  let last;
  for (let n = 0; n < Number(loads); n += 1) {
    last = await load(url);
    paints.push(last.paint);
  }
  const sum = (weigh) => last.bodies.reduce((all, body) => all + weigh(body), 0);
  console.log(JSON.stringify({ paints, sent: sum((body) => body.length), compressed: sum((body) => gzipSync(body).length) }));
}
await chrome.close();
