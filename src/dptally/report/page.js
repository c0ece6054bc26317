
"use strict";
// Everything here is a convenience: without it the page says the same.
(() => {
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // Commands to copy.
  if (navigator.clipboard) {
    for (const block of document.querySelectorAll("pre.command")) {
      const text = block.textContent;
      const button = make("button", {type: "button", className: "copy", textContent: "Copy"});
      button.setAttribute("aria-label", "Copy this command");
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(block.firstChild);
          button.textContent = "Selected";
        }
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      block.append(button);
      block.classList.add("with-copy");
    }
  }

  // What is folded away belongs on paper too.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));

  // The table of keys: filter and sort.
  const table = document.getElementById("key-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent));
  const numbers = texts.map((cells) => cells.map((text) => Number(text.replaceAll(",", ""))));
  const words = [...table.tHead.rows[0].cells].map((cell) => cell.classList.contains("word") && !cell.classList.contains("rank"));
  const status = make("span", {className: "status"});
  status.setAttribute("role", "status");
  const input = make("input", {type: "search", id: "key-filter", autocomplete: "off", spellcheck: false});
  const label = make("label", {}, "Filter ", input);
  label.htmlFor = "key-filter";
  const region = table.closest(".scroll");
  region.before(make("div", {className: "tools"}, label, status));

  const filter = () => {
    const wanted = input.value.toLowerCase();
    let shown = 0;
    rows.forEach((row, place) => {
      const fits = texts[place].some((text, column) => words[column] && text.toLowerCase().includes(wanted));
      row.hidden = !fits;
      shown += fits;
    });
    status.textContent = wanted ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
  };
  input.addEventListener("input", filter);
  filter();

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", {type: "button"}, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") === "descending" ||
        (!head.hasAttribute("aria-sort") && (words[column] || head.classList.contains("rank")));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const order = rows.map((_, place) => place).sort((a, b) => {
        const [x, y] = words[column] ? [texts[a][column], texts[b][column]] : [numbers[a][column], numbers[b][column]];
        const step = words[column] ? x.localeCompare(y) : (Number.isNaN(x) ? -1 : x) - (Number.isNaN(y) ? -1 : y);
        return (rising ? step : -step) || a - b;
      });
      body.append(...order.map((place) => rows[place]));
    });
  });
})();
