// What a page does beside being read: tables sort and filter, figures say their values. Without it nothing is hidden.
"use strict";
(() => {
  const make = (tag, name, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text) node.textContent = text;
    return node;
  };

  // Tables: a click or Enter on a head sorts, a second one turns it round, a third brings back the order of the page.
  const key = (row, place) => {
    const cell = row.cells[place];
    if (cell.dataset.by !== undefined) return parseFloat(cell.dataset.by);
    const text = cell.textContent.trim();
    const number = parseFloat(text.replace(/−/g, "-").replace(/,/g, ""));
    return /^[−+-]?[\d.,]+(e[−+-]?\d+)?%?( (to|of) .+)?$/.test(text) ? number : text;  // "1 to 2" is sorted by 1
  };
  const compare = (a, b, way) => {
    const first = typeof a === "number", second = typeof b === "number";
    if (first && second) return way * (a - b);
    if (first !== second) return first ? -1 : 1;  // what is no number stands last, either way
    return way * a.localeCompare(b, undefined, { numeric: true });
  };
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const sort = (table, order, place, head) => {
    const way = next[head.getAttribute("aria-sort")];
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", way);
    const rows = order.map((row, at) => [key(row, place), at, row]);
    if (way !== "none") rows.sort((a, b) => compare(a[0], b[0], way === "ascending" ? 1 : -1) || a[1] - b[1]);
    table.tBodies[0].append(...rows.map((row) => row[2]));
  };
  const filterBox = (table) => {
    const label = make("label", "filter", "Filter ");
    const box = make("input");
    const count = make("span", "count");
    box.type = "search";
    box.setAttribute("aria-label", `Filter: ${table.caption.textContent}`);
    count.setAttribute("aria-live", "polite");
    const apply = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
    };
    box.addEventListener("input", apply);
    label.append(box, count);
    table.parentElement.before(label);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const order = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, order, place, head));
    });
    if ("filter" in table.dataset) filterBox(table);
  }

  // A link to runs opens the list they are in, and marks the runs of that arm.
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    for (const row of document.querySelectorAll("tr.lit")) row.classList.remove("lit");
    if (target.tagName === "TR") {
      for (const row of target.parentElement.rows) {
        row.classList.toggle("lit", row.cells[0].textContent === target.cells[0].textContent);
      }
      const box = target.closest(".scroll").previousElementSibling?.querySelector("input");
      if (box) {  // a filter must not hide them
        box.value = "";
        box.dispatchEvent(new Event("input"));
      }
    }
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });
  if (location.hash) follow();

  // Figures: what is pointed at, touched or reached by the arrow keys says its values.
  const tip = make("div", "tip");
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let lit = null;
  const show = (node, text, x, y) => {
    if (lit) lit.classList.remove("on");
    lit = node;
    if (node) node.classList.add("on");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect(), edge = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(x + 12, edge - box.width - 4)) + scrollX}px`;
    const above = y - box.height - 12;
    tip.style.top = `${(above > 4 ? above : y + 18) + scrollY}px`;
  };
  const hide = () => show(null, "");
  // A finger leaves when it is lifted, and what it touched stays said until it touches something else.
  const leave = (event) => { if (event.pointerType !== "touch") hide(); };
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("svg")) hide(); });
  const middle = (node) => {
    const box = node.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 3];
  };
  for (const plot of document.querySelectorAll("svg.plot")) {
    const marks = [...plot.querySelectorAll(".mark")];
    for (const mark of marks) {
      mark.dataset.tip = mark.querySelector("title").textContent;
      mark.querySelector("title").remove();
    }
    if (!marks.length) continue;
    plot.tabIndex = 0;
    const point = (event) => {
      const mark = event.target.closest(".mark");
      mark ? show(mark, mark.dataset.tip, event.clientX, event.clientY) : hide();
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", hide);
    let at = -1;
    const go = (place) => {
      at = (place + marks.length) % marks.length;
      show(marks[at], marks[at].dataset.tip, ...middle(marks[at]));
    };
    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) go(Math.max(at, 0)); });
    plot.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!way) return;
      event.preventDefault();
      go(at + way);
    });
  }
  for (const map of document.querySelectorAll("svg.map")) {
    const rows = map.dataset.counts.split(";").map((row) => row.split(","));
    const each = Number(map.dataset.each), size = rows.length, name = map.dataset.name;
    const cursor = map.querySelector(".cursor");
    const classes = (cell) => (each === 1 ? `${cell}` : `${cell * each} to ${cell * each + each - 1}`);
    let at = [0, 0];
    const say = (column, row, x, y) => {
      at = [column, row];
      const [low, high] = column < row ? [column, row] : [row, column];
      cursor.setAttribute("x", column);
      cursor.setAttribute("y", row);
      const pair = column !== row ? `classes ${classes(row)} and ${classes(column)}` : `classes ${classes(row)}, each with the others`;
      const count = `${rows[low][high - low]} shared batches`;
      show(cursor, each === 1 && column === row ? `${name}\nclass ${row} with itself: no pair` : `${name}\n${pair}\n${count}`, x, y);
    };
    const inside = (value) => Math.max(0, Math.min(size - 1, value));
    const point = (event) => {
      const box = map.getBoundingClientRect();
      const [column, row] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      say(inside(Math.floor(column * size)), inside(Math.floor(row * size)), event.clientX, event.clientY);
    };
    const key = () => {
      const box = cursor.getBoundingClientRect();
      say(...at, box.right, box.top);
    };
    map.tabIndex = 0;
    map.addEventListener("pointermove", point);
    map.addEventListener("pointerdown", point);
    map.addEventListener("pointerleave", leave);
    map.addEventListener("blur", hide);
    map.addEventListener("focus", () => { if (map.matches(":focus-visible")) key(); });
    map.addEventListener("keydown", (event) => {
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (event.key === "Escape") hide();
      if (!way) return;
      event.preventDefault();
      at = [inside(at[0] + way[0]), inside(at[1] + way[1])];
      cursor.setAttribute("x", at[0]);
      cursor.setAttribute("y", at[1]);
      key();
    });
  }
  addEventListener("scroll", () => { if (!tip.hidden && document.activeElement?.tagName !== "svg") hide(); }, { passive: true });
})();
