# Opens report.html in a browser, at laptop and phone size, in light and dark mode: nothing overlaps, is cut off or
# leaves the window; nothing is loaded, no script runs, the console is empty; and the last value of each curve is on the
# page as text. Screenshots are saved next to it.
# Debian: chromium
# PyPI: playwright==1.65.2
import json
import os
import pathlib
import shutil
import subprocess

from playwright.sync_api import sync_playwright

BETTY, EXAMPLES = os.environ["BETTY_RUN"], os.environ["BT_SOURCE_DIR"] + "/examples/"

# Finds overlapping elements: boxes in pixels. Only text in a scrolling box may extend beyond its edge.
LOOK = r"""
() => {
  const faults = [], wide = document.documentElement.clientWidth, seen = element => {
    const style = getComputedStyle(element);
    return style.visibility !== "hidden" && style.display !== "none";
  };
  const name = element => element.tagName + "." + (element.getAttribute("class") || "") + " " +
    (element.textContent || "").trim().slice(0, 40);
  if (document.documentElement.scrollWidth > wide) faults.push("the page is wider than the window");
  for (const element of document.body.querySelectorAll("*")) {
    if (!seen(element) || element.closest(".scroll, details:not([open]) > :not(summary), title")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.left < -0.5 || box.right > wide + 0.5)) faults.push("beyond the window: " + name(element));
  }
  for (const box of document.querySelectorAll(".scroll"))
    if (box.clientWidth && box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto")
      faults.push("cut: " + name(box));
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.data.trim() || !seen(element) || element.closest("title, details:not([open]) > :not(summary)")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const scroll = element.closest(".scroll"), edge = scroll && scroll.getBoundingClientRect();
    const svg = element.closest("svg.curves"), frame = svg && svg.getBoundingClientRect();
    const sticky = element.closest(".scroll") && element.closest("th:first-child, td:first-child");
    for (const box of range.getClientRects()) {
      if (frame && (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 2 ||
                    box.bottom > frame.bottom + 2))
        faults.push("outside of its picture: " + node.data.trim());
      if (!edge || (box.left < edge.right && !sticky))
        texts.push({box, words: node.data.trim().slice(0, 40), scroll});
    }
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  for (let i = 0; i < texts.length; i++)
    for (let k = i + 1; k < texts.length && texts[k].box.top < texts[i].box.bottom - 3; k++) {
      const a = texts[i].box, b = texts[k].box;
      if (texts[i].scroll !== texts[k].scroll) continue;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        faults.push("one on the other: " + texts[i].words + " | " + texts[k].words);
    }
  for (const svg of document.querySelectorAll("svg.curves")) { /* curves do not run through the values beside them */
    const lasts = [...svg.querySelectorAll(".last")].map(e => e.getBoundingClientRect());
    for (const line of svg.querySelectorAll(".line"))
      for (const last of lasts)
        if (line.getBoundingClientRect().right > last.left) faults.push("a curve runs into a value");
  }
  const small = [...document.querySelectorAll("svg.curves text")].map(e => e.getBoundingClientRect().height);
  if (small.length && Math.min(...small) < 11) faults.push("text of a picture is too small: " + Math.min(...small));
  return faults;
}
"""


def betty(*words):
    subprocess.run([BETTY, *words, "--threads", "1"] if words[0] != "--report" else [BETTY, *words], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_runs():
    short = ["--set", "engine.valid_step=50", "--set", "engine.log_step=1"]
    hpo = EXAMPLES + "logistic_hpo.ini"
    betty(hpo, "--seeds", "1..3", "--set", "model.lr=0.1|0.05", "--set", "engine.train_iters=200", "--output", "grid",
          *short)
    betty(hpo, "--check-hypergradient", "--output", "grid/model.lr=0.1,seed=1")
    betty(hpo, "--profile", "--set", "engine.train_iters=200", "--output", "one", *short)
    betty(hpo, "--ablate", "--plan", "--output", "ablation")
    with open("ablation/ablation.json") as file: # made-up times: measuring takes minutes
        ablation = json.load(file)
    for k, row in enumerate(ablation["rows"]):
        row["ms_per_step"] = [12.5 + k, 12 + k, 13.75 + k]
    with open("ablation/ablation.json", "w") as file:
        json.dump(ablation, file)
    betty(hpo, "--seeds", "1", "--set", "model.lr=" + "|".join(f"0.0{k}" for k in range(1, 10)) + "|0.1|0.11",
          "--set", "engine.train_iters=30", "--output", "many", *short)
    betty("--report", "grid", "ablation", "--output", "several")
    betty("--report", "one")
    betty("--report", "many")
    return ["several/report.html", "one/report.html", "many/report.html"]


def last_values(folder):
    """The last value of each metric of a run, of those that it logs."""
    last = {}
    for line in open(f"{folder}/metrics.jsonl"):
        last.update(json.loads(line))
    return {name: value for name, value in last.items()
            if name not in ("step", "time") and not name.endswith(".interval")}


def expect_values(page, folders, label):
    """Beside the end of each curve, and in its table, is the mean of the runs' last values."""
    runs = [last_values(folder) for folder in folders]
    for name in runs[0]:
        mean = sum(run[name] for run in runs) / len(runs)
        figure = page.locator("figure", has=page.locator(f'h4:text-is("{name}")'))
        words = figure.locator(".last").all_text_contents()
        due = f"{label}{mean:.4g}"
        assert len(words) > 9 or due in words or not words, (name, due, words)
        cells = figure.locator("tr").last.locator("td").all_text_contents()
        assert any(cell.split(" ")[0] == f"{mean:.5g}" for cell in cells), (name, mean, cells)


def look(browser, path, width, colours):
    complaints, requests = [], []
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    url = pathlib.Path(path).resolve().as_uri()
    page.goto(url)
    faults = page.evaluate(LOOK)
    stem = f"{path.split('/')[0]}-{width}-{colours}"
    page.screenshot(path=f"{stem}.png", full_page=True)
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    faults += ["opened: " + fault for fault in page.evaluate(LOOK)]
    page.screenshot(path=f"{stem}-opened.png", full_page=True)
    assert not faults, f"{stem}: {len(faults)}: " + "\n".join(faults[:20])
    assert not complaints, complaints
    assert [r for r in requests if not r.startswith("data:")] == [url], requests
    assert page.locator("script").count() == 0
    assert page.locator("svg.curves:not([role=img][aria-label])").count() == 0
    return page


reports = make_runs()
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"),
                                     args=["--no-sandbox"] if os.geteuid() == 0 else [])
    for path in reports:
        for width, colours in ((1366, "light"), (1366, "dark"), (390, "light"), (390, "dark")):
            page = look(browser, path, width, colours)
            if path.startswith("several"):
                for label, rate in (("A ", "0.1"), ("B ", "0.05")):
                    expect_values(page, [f"grid/model.lr={rate},seed={seed}" for seed in (1, 2, 3)], label)
                assert page.locator(".band").count() > 0
            elif path.startswith("one"):
                expect_values(page, ["one"], "")
            else:
                for k in range(1, 10):
                    expect_values(page, [f"many/model.lr=0.0{k},seed=1"], "")
            page.close()
    browser.close()
print(f"{len(reports)} pages, {', '.join(f'{os.path.getsize(path) / 1024:.0f} KiB' for path in reports)}")
