
"use strict";
(() => {
  const token = new URLSearchParams(location.search).get("token") || "";
  const visitor = crypto.randomUUID();
  const by = (id) => document.getElementById(id);

  const post = async (place, asked, signal) => {
    const answer = await fetch(place, {
      method: "POST",
      headers: {"Content-Type": "application/json", "X-Dptally-Token": token},
      body: JSON.stringify(asked),
      signal,
    });
    const kind = answer.headers.get("Content-Type") || "";
    const found = kind.startsWith("application/json") ? await answer.json() : {error: await answer.text()};
    if (!answer.ok) throw new Error(found.error || "The server did not answer.");
    return found;
  };
  const sentence = (error) => error instanceof TypeError ? "The server has stopped; start dptally explore again." : error.message;

  // ---- parameters ----

  const sliders = [...document.querySelectorAll(".slider")].map((box) => ({
    name: box.dataset.name,
    number: box.querySelector("input:not([type=range])"),
    slider: box.querySelector("input[type=range]"),
    whole: box.dataset.name === "max_keys_per_unit",
  }));
  const rounded = (one, exponent) => {
    const number = 10 ** exponent;
    if (one.whole) return String(Math.round(number));
    return String(Number(number.toPrecision(2)));
  };
  const show = (one) => {
    one.slider.setAttribute("aria-valuetext", one.number.value);
  };
  const fromNumber = (one) => {
    const parts = one.number.value.split("/").map(Number);
    const number = parts.length === 2 ? parts[0] / parts[1] : parts[0];
    if (number > 0) one.slider.value = String(Math.log10(number));
    show(one);
  };
  const settings = () => Object.fromEntries(sliders.map((one) => [one.name, one.number.value.trim()]));

  // ---- curves ----

  const rows = [...document.querySelectorAll("#mechanisms tbody tr")].map((row) => ({
    row,
    name: row.dataset.mechanism,
    box: row.querySelector("input"),
    cells: [...row.querySelectorAll("td")],
  }));
  const chart = by("curves");
  let paints = 0;
  const paint = async () => {
    paints += 1;
    const mine = paints;
    const mechanisms = rows.filter((one) => one.box.checked).map((one) => one.name);
    try {
      const found = await post("/api/chart", {...settings(), mechanisms});
      if (mine === paints) chart.innerHTML = found.drawing;
    } catch (error) {
      if (mine === paints) by("problem").textContent = sentence(error);
    }
  };

  let turn = 0;
  let stop = new AbortController();
  const fetchCurve = async (one, asked, signal) => {
    try {
      const found = await post("/api/curve", {...asked, mechanism: one.name, visitor, turn: asked.turn}, signal);
      if (asked.turn !== turn || found.superseded) return;
      [found.half, found.likely, found.surely].forEach((frequency, place) => {
        one.cells[place].textContent = frequency === null ? "–" : frequency.toLocaleString("en");
      });
    } catch (error) {
      if (error.name === "AbortError" || asked.turn !== turn) return;
      one.cells.forEach((cell) => { cell.textContent = "–"; });
      by("problem").textContent = sentence(error);
    }
    one.row.classList.remove("waiting");
    paint();
  };
  const quoted = (text) => /^[\w.\/-]+$/.test(text) ? text : "?";
  const refresh = async () => {
    turn += 1;
    stop.abort();
    stop = new AbortController();
    const asked = {...settings(), turn};
    const signal = stop.signal;
    by("problem").textContent = "";
    by("command").textContent = `dptally plan --epsilon ${quoted(asked.epsilon)} --delta ${quoted(asked.delta)}` +
      ` --max-keys-per-unit ${quoted(asked.max_keys_per_unit)}` +
      (Number(asked.rate) === 1 ? "" : ` --sampling ppswor:${quoted(asked.rate)}`);
    rows.forEach((one) => one.row.classList.add("waiting"));
    const mine = turn;
    const tell = () => {
      if (mine !== turn) return;
      const left = rows.filter((one) => one.row.classList.contains("waiting")).length;
      by("progress").textContent = left ? `Computing ${left} more…` : "Exact, from the output distribution of each mechanism.";
    };
    tell();
    await Promise.all(rows.map((one) => fetchCurve(one, asked, signal).then(tell)));
  };
  let later = 0;
  const soon = () => { clearTimeout(later); later = setTimeout(refresh, 150); };
  for (const one of sliders) {
    one.slider.addEventListener("input", () => { one.number.value = rounded(one, Number(one.slider.value)); show(one); soon(); });
    one.number.addEventListener("input", () => { fromNumber(one); soon(); });
    fromNumber(one);
  }
  by("settings").addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
  rows.forEach((one) => one.box.addEventListener("change", paint));
  refresh();

  // ---- the release ----

  const form = by("ask");
  if (!form) return;
  let page = 0;
  let asks = 0;
  const ask = async () => {
    asks += 1;
    const mine = asks;
    by("question-problem").textContent = "";
    by("where").removeAttribute("aria-invalid");
    try {
      const found = await post("/api/ask", {where: by("where").value, of: by("of").value, page});
      if (mine !== asks) return;
      by("answer").textContent = found.sum.text;
      const body = by("rows").tBodies[0];
      const words = [...by("rows").tHead.rows[0].cells].map((cell) => cell.className);
      body.replaceChildren(...found.rows.map((cells) => {
        const row = document.createElement("tr");
        cells.forEach((text, place) => {
          const cell = row.insertCell();
          cell.className = words[place];
          const part = document.createElement("bdi");
          part.textContent = text;
          cell.append(part);
        });
        return row;
      }));
      page = found.page;
      by("previous").disabled = page === 0;
      by("next").disabled = page + 1 >= found.pages;
      by("where-we-are").textContent = `Page ${page + 1} of ${found.pages.toLocaleString("en")}, ${found.found.toLocaleString("en")} keys`;
    } catch (error) {
      if (mine !== asks) return;
      by("question-problem").textContent = sentence(error);
      by("where").setAttribute("aria-invalid", "true");
      by("answer").textContent = "";
    }
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); page = 0; ask(); });
  by("previous").addEventListener("click", () => { page -= 1; ask(); });
  by("next").addEventListener("click", () => { page += 1; ask(); });
  ask();
})();
