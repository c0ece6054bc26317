// Opens pages in headless Chromium and reports what it saw, as one JSON value on standard output.
// Standard input: {"chromium": path, "axe": path, "pages": [{url, scheme, width, javascript, ready, actions, tabs}]}.
import fs from "node:fs";
import {chromium} from "playwright-core";

const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const axe = fs.readFileSync(asked.axe, "utf8");
const browser = await chromium.launch({
  executablePath: asked.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const found = [];
for (const page of asked.pages) {
  const context = await browser.newContext({
    viewport: {width: page.width, height: 900},
    colorScheme: page.scheme,
    javaScriptEnabled: page.javascript !== false,
    reducedMotion: "reduce",
  });
  const tab = await context.newPage();
  const seen = {url: page.url, scheme: page.scheme, width: page.width, console: [], requests: [], dialogs: 0, answers: []};
  tab.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
  tab.on("pageerror", (error) => seen.console.push(`error: ${error}`));
  tab.on("request", (request) => seen.requests.push(request.url()));
  tab.on("dialog", (dialog) => { seen.dialogs += 1; dialog.dismiss(); });
  await tab.goto(page.url, {waitUntil: "load"});
  if (page.javascript === false) {
    seen.text = await tab.innerText("body");
  } else {
    if (page.ready) await tab.waitForFunction(page.ready, undefined, {timeout: 30000});
    seen.load = await tab.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd);
    seen.overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await tab.evaluate(axe);
    const judged = await tab.evaluate(() => axe.run({resultTypes: ["violations"]}));
    seen.rules = judged.passes.length;
    seen.violations = judged.violations.map((one) => `${one.id} (${one.impact}): ${one.nodes[0].html.slice(0, 200)}`);
    for (const action of page.actions || []) seen.answers.push(await tab.evaluate(`(${action})()`));
    seen.focused = [];
    await tab.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
    for (let step = 0; step < (page.tabs || 0); step += 1) {
      await tab.keyboard.press("Tab");
      seen.focused.push(await tab.evaluate(() => {
        const here = document.activeElement;
        const style = getComputedStyle(here);
        const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
        return {name: here.id || here.className || here.tagName, ring};
      }));
    }
  }
  if (page.picture) await tab.screenshot({path: page.picture, fullPage: true});
  found.push(seen);
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(found));
