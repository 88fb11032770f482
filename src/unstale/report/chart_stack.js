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
