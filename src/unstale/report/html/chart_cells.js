// Charts made of rectangles: what clients hold, how stale updates were, what became of them.
Unstale.views = (figure, spec, draw) => {
  const { html } = Unstale;
  let current = 0;
  const controls = figure.querySelector(".controls");
  if (spec.views.length > 1) {
    const buttons = spec.views.map((view, i) => html("button", { type: "button", class: "view", "aria-pressed": String(i === 0) }, view.name));
    buttons.forEach((button, i) => button.addEventListener("click", () => {
      current = i;
      buttons.forEach((other, k) => other.setAttribute("aria-pressed", String(k === i)));
      draw(spec.views[current]);
    }));
    controls.append(...buttons);
  }
  return () => draw(spec.views[current]);
};

Unstale.kinds.clients = (figure, spec) => {
  const { el, html, scale, ticks, number, clip, canvas, readout } = Unstale;
  const plot = figure.querySelector(".plot");
  const aim = readout(plot);
  const redraw = Unstale.views(figure, spec, draw);
  figure.querySelector(".controls").append(html("span", { class: "key" },
    html("span", {}, html("i", { class: "slow" }), "slow client"),
    html("span", {}, html("i", { class: "fast" }), "fast client"),
    html("span", {}, html("span", { class: "mark" }, "◆ "), "affected class")));

  function draw(view) {
    const { clients, classes } = view;
    const affected = new Set(view.affected);
    const width = plot.clientWidth || 640;
    const letters = width < 500 ? 9 : 14;
    const longest = Math.min(letters, Math.max(...classes.map((c) => c.length)));
    const left = Math.max(34, 26 + 7 * longest);
    const right = width - 2;
    const row = Math.max(9, Math.min(22, 420 / classes.length));
    const [barTop, barBottom] = [24, 96];
    const top = barBottom + 12;
    const bottom = top + row * classes.length;
    const cell = (right - left) / clients.length;
    const gap = cell > 8 ? 1.5 : cell > 4 ? 0.75 : 0;
    const most = Math.max(1, ...clients.flatMap((c) => c.holds.map(([, n]) => n)));
    const latest = Math.max(1, ...clients.map((c) => c.latency));
    const bar = scale(0, latest, barBottom, barTop);
    const svg = canvas(spec, figure.id, width, bottom + 24);
    svg.append(el("text", { x: 0, y: 11 }, "latency in rounds"));
    for (const tick of ticks(0, latest, 2)) {
      svg.append(el("line", { class: tick ? "grid" : "axis", x1: left, x2: right, y1: bar(tick), y2: bar(tick) }),
        el("text", { x: left - 8, y: bar(tick) + 4, "text-anchor": "end" }, number(tick, 1)));
    }
    let marks = 0;
    classes.forEach((name, k) => {
      const every = Math.ceil(12 / row);
      const y = top + row * k;
      svg.append(el("rect", { class: "track", x: left, y: y + gap / 2, width: right - left - gap, height: row - gap }));
      if (k % every && !affected.has(k)) return;
      svg.append(el("text", { class: affected.has(k) ? "affected" : null, x: left - 8, y: y + row / 2 + 4, "text-anchor": "end" }, (affected.has(k) ? "◆ " : "") + clip(name, letters)));
    });
    clients.forEach((client, i) => {
      const kind = client.slow ? "slow" : "fast";
      const x = left + i * cell;
      svg.append(el("rect", { class: kind, x, y: Math.min(bar(client.latency), barBottom - 1.5), width: Math.max(cell - gap, 0.5), height: Math.max(barBottom - bar(client.latency), 1.5) }));
      for (const [k, n] of client.holds) {
        // Square root: a handful of examples beside hundreds should still be seen.
        svg.append(el("rect", { class: kind, x, y: top + row * k + gap / 2, width: Math.max(cell - gap, 0.5), height: row - gap, rx: cell > 8 ? 2 : 0, opacity: (0.08 + 0.92 * Math.sqrt(n / most)).toFixed(2) }));
        marks += 1;
      }
    });
    svg.append(el("text", { x: right, y: bottom + 18, "text-anchor": "end" }, `${clients.length} clients, the slowest first`));
    svg.append(el("text", { x: 0, y: bottom + 18 }, "class"));
    svg.dataset.marks = String(marks);
    const column = el("rect", { class: "column", y: barTop - 3, width: Math.max(cell - gap, 1) + 3, height: bottom - barTop + 6, rx: 3, visibility: "hidden" });
    svg.append(column);
    plot.querySelector(":scope > svg")?.remove();
    plot.prepend(svg);
    aim({
      positions: clients.map((_, i) => left + (i + 0.5) * cell),
      top: top + 4,
      hide: () => column.setAttribute("visibility", "hidden"),
      show(at) {
        const client = clients[at];
        column.setAttribute("x", left + at * cell - 1.5);
        column.setAttribute("visibility", "visible");
        const held = [...client.holds].sort((a, b) => b[1] - a[1]);
        const rows = held.slice(0, 6).map(([k, n]) => ({ label: `class ${classes[k]}${affected.has(k) ? " ◆" : ""}`, value: number(n, 0) }));
        if (held.length > 6) rows.push({ label: `${held.length - 6} more classes`, value: number(held.slice(6).reduce((sum, [, n]) => sum + n, 0), 0) });
        return { title: client.id, rows: [{ label: client.slow ? "slow, latency" : "latency", value: `${number(client.latency, 1)} rounds` }, ...rows] };
      },
    });
  }
  return redraw;
};

Unstale.kinds.arrivals = (figure, spec) => {
  const { el, html, scale, ticks, number, canvas, yAxis, xAxis, readout } = Unstale;
  const plot = figure.querySelector(".plot");
  const aim = readout(plot);
  const redraw = Unstale.views(figure, spec, draw);
  figure.querySelector(".controls").append(html("span", { class: "key" },
    html("span", {}, html("i", { class: "slow" }), "stale"),
    html("span", {}, html("i", { class: "fast" }), "fresh"),
    html("span", {}, html("i", { class: "stroke" }), "mean of all")));

  function draw(view) {
    const width = plot.clientWidth || 640;
    const height = Math.round(Math.max(230, Math.min(width * 0.3, 300)));
    const oldest = Math.max(1, (view.rows - 1) * view.width);
    const left = 16 + 7 * Math.max(String(oldest).length, 2);
    const [right, top, bottom] = [width - 10, 26, height - 40];
    const last = Math.max(spec.x.max, 1);
    const x = scale(0, last, left, right);
    // Row 0 (fresh) has a strip of its own, so that it stays visible when ages go up to 500.
    const strip = Math.max(8, (bottom - top) / view.rows);
    const y = scale(0, oldest, bottom - strip, top);
    const svg = canvas(spec, figure.id, width, height);
    yAxis(svg, ticks(0, oldest, 4), (v) => (v === 0 ? bottom : y(v)), left, right, "staleness in versions");
    xAxis(svg, ticks(0, last, Math.max(2, Math.min(10, (right - left) / 80))), x, bottom, right, spec.x.label);
    const most = Math.max(...view.columns.flatMap((c) => c.cells.map(([, n]) => n)), 1e-9);
    let marks = 0;
    const edges = (row) => (row === 0 ? [bottom - strip, bottom] : [y(row * view.width), y((row - 1) * view.width)]);
    for (const column of view.columns) {
      const [from, to] = [x(column.first - 1), x(column.last)];
      for (const [row, n] of column.cells) {
        const [high, low] = edges(row);
        svg.append(el("rect", { class: row ? "slow" : "fast", x: from, y: high, width: Math.max(to - from - 0.5, 0.5), height: Math.max(low - high - 0.5, 2), opacity: (0.12 + 0.78 * Math.sqrt(n / most)).toFixed(2) }));
        marks += 1;
      }
    }
    const middle = (column) => x((column.first - 1 + column.last) / 2);
    const height0 = (mean) => (mean ? y(mean) : bottom - strip / 2);
    svg.append(el("path", { class: "mean", d: "M" + view.columns.map((c) => `${middle(c).toFixed(1)},${height0(c.mean).toFixed(1)}`).join("L") }));
    const cursor = el("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
    svg.append(cursor);
    svg.dataset.marks = String(marks);
    plot.querySelector(":scope > svg")?.remove();
    plot.prepend(svg);
    aim({
      positions: view.columns.map(middle),
      top,
      hide: () => cursor.setAttribute("visibility", "hidden"),
      show(at) {
        const column = view.columns[at];
        cursor.setAttribute("x1", middle(column));
        cursor.setAttribute("x2", middle(column));
        cursor.setAttribute("visibility", "visible");
        const age = (row) => (row === 0 ? "fresh" : view.width === 1 ? `staleness ${row}` : `staleness ${(row - 1) * view.width + 1} to ${row * view.width}`);
        const stale = [...column.cells].sort((a, b) => b[0] - a[0]).slice(0, 8);
        return {
          title: column.first === column.last ? `round ${column.last}` : `rounds ${column.first} to ${column.last}`,
          rows: [{ label: "mean staleness", value: number(column.mean, 1) }, ...stale.map(([row, n]) => ({ label: age(row), value: `${number(n, 1)} per round` }))],
        };
      },
    });
  }
  return redraw;
};

// Columns over rounds, divided by what became of the updates.
Unstale.kinds.stack = (figure, spec) => {
  const { el, html, scale, ticks, number, canvas, yAxis, xAxis, readout } = Unstale;
  const plot = figure.querySelector(".plot");
  const aim = readout(plot);
  const redraw = Unstale.views(figure, spec, draw);
  figure.querySelector(".controls").append(html("span", { class: "key" },
    ...spec.fates.map((fate) => html("span", {}, html("i", { class: `fate ${fate.key}` }), fate.name))));

  function draw(view) {
    const width = plot.clientWidth || 640;
    const height = Math.round(Math.max(220, Math.min(width * 0.26, 280)));
    const present = spec.fates.filter((fate) => view.values[fate.key]);
    const total = (i) => present.reduce((sum, fate) => sum + view.values[fate.key][i], 0);
    const most = Math.max(...view.x.map((_, i) => total(i)), 1e-9);
    // No parts of an update where whole ones are counted.
    const yTicks = ticks(0, most * 1.06, Math.max(1, Math.min(4, Math.floor(most))));
    const left = 16 + 7 * Math.max(...yTicks.map((t) => number(t, 1).length), 3);
    const [right, top, bottom] = [width - 10, 26, height - 40];
    const last = Math.max(spec.x.max, 1);
    const x = scale(0, last, left, right);
    const y = scale(0, most * 1.06, bottom, top);
    const svg = canvas(spec, figure.id, width, height);
    yAxis(svg, yTicks, y, left, right, spec.y.label);
    xAxis(svg, ticks(0, last, Math.max(2, Math.min(10, (right - left) / 80))), x, bottom, right, spec.x.label);
    // A column goes from the round after the one before it to its own.
    const from = (i) => (i ? view.x[i - 1] : Math.max(0, view.x[0] - (view.x.length > 1 ? view.x[1] - view.x[0] : 1)));
    let marks = 0;
    view.x.forEach((end, i) => {
      let below = 0;
      for (const fate of present) {
        const n = view.values[fate.key][i];
        if (!n) continue;
        const [x0, x1] = [x(from(i)), x(end)];
        const gap = x1 - x0 > 4 ? 1 : 0;
        svg.append(el("rect", { class: `fate ${fate.key}`, x: x0, y: y(below + n), width: Math.max(x1 - x0 - gap, 0.5), height: y(below) - y(below + n) }));
        below += n;
        marks += 1;
      }
    });
    const cursor = el("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
    svg.append(cursor);
    svg.dataset.marks = String(marks);
    plot.querySelector(":scope > svg")?.remove();
    plot.prepend(svg);
    const middle = (i) => x((from(i) + view.x[i]) / 2);
    aim({
      positions: view.x.map((_, i) => middle(i)),
      top,
      hide: () => cursor.setAttribute("visibility", "hidden"),
      show(at) {
        cursor.setAttribute("x1", middle(at));
        cursor.setAttribute("x2", middle(at));
        cursor.setAttribute("visibility", "visible");
        const [first, end] = [from(at) + 1, view.x[at]];
        const rows = present.filter((fate) => view.values[fate.key][at]).map((fate) => ({ label: fate.name, value: `${number(view.values[fate.key][at], 1)} per round` }));
        return {
          title: first === end ? `round ${end}` : `rounds ${first} to ${end}`,
          rows: rows.length ? rows : [{ label: "no stale update", value: "" }],
        };
      },
    });
  }
  return redraw;
};
