// Lines over rounds, one for each method, with bands, direct labels and a legend that toggles.
Unstale.kinds.lines = (figure, spec, shared) => {
  const { el, html, scale, ticks, tickText, logScale, logRange, logTicks, logText, precise, number, clip, canvas, yAxis, xAxis, readout, swatch } = Unstale;
  // A tip with more lines than this would cover the chart.
  const MAX_TOLD = 12;
  const told = (value) => (spec.y.log ? precise(value) : number(value, spec.y.digits));
  const nameOf = (s) => [s.name ? (labels.length > 1 ? `${s.method}, ${s.name}` : s.name) : s.method, s.variant].filter(Boolean).join(", ");
  const plot = figure.querySelector(".plot");
  const aim = readout(plot);
  const labels = [...new Set(spec.series.map((s) => s.method))];
  const look = (label) => shared.methods[label] || { css: "--c:var(--muted)", dash: "" };
  buildLegend();

  function buildLegend() {
    const controls = figure.querySelector(".controls");
    for (const label of labels) {
      const button = html("button", { type: "button", class: "legend", "aria-pressed": "true" }, swatch({ style: look(label).css, dash: look(label).dash }), label);
      button.addEventListener("click", () => shared.toggle(label));
      // To point at a name is to ask which line it is.
      for (const [on, off] of [["pointerenter", "pointerleave"], ["focus", "blur"]]) {
        button.addEventListener(on, () => light(label));
        button.addEventListener(off, () => light(null));
      }
      shared.onToggle(() => button.setAttribute("aria-pressed", String(!shared.hidden.has(label))));
      controls.append(button);
    }
    shared.onToggle(draw);
  }

  function light(label) {
    const svg = plot.querySelector(":scope > svg");
    const found = [...svg.querySelectorAll(".series")];
    found.forEach((g) => g.classList.toggle("lit", g.dataset.method === label));
    svg.classList.toggle("dimmed", found.some((g) => g.classList.contains("lit")));
  }

  function draw() {
    const width = plot.clientWidth || 640;
    const height = spec.small ? 210 : Math.round(Math.max(270, Math.min(width * 0.42, spec.hero ? 430 : 340)));
    const shown = spec.series.filter((s) => !shared.hidden.has(s.method));
    const values = spec.series.flatMap((s) => [...(s.low || []), ...(s.high || []), ...s.mean]);
    const [yMin, yMax] = spec.y.log ? logRange(values) : [spec.y.min ?? 0, spec.y.max ?? Math.max(...values, 1e-9) * 1.06];
    const yTicks = (spec.y.log ? logTicks : ticks)(yMin, yMax, spec.small ? 4 : 5);
    const yTexts = (spec.y.log ? logText : tickText)(yTicks);
    const named = !spec.small && !spec.thin && width > 620 && new Set(shown.map((s) => s.method)).size <= 12;
    const longest = Math.max(0, ...labels.map((l) => clip(l, 18).length));
    const longestValue = Math.max(0, ...shown.map((s) => told(s.mean[s.mean.length - 1]).length));
    const left = 16 + 7 * Math.max(...yTexts.map((text) => text.length), 3);
    const right = width - (named ? 32 + 7.2 * longest + 7 * longestValue : 10);
    const [top, bottom] = [26, height - 40];
    const xMax = Math.max(spec.x.max, spec.x.log ? 2 : 1);
    const x = spec.x.log ? logScale(1, xMax, left, right) : scale(0, xMax, left, right);
    const y = (spec.y.log ? logScale : scale)(yMin, yMax, bottom, top);
    const svg = canvas(spec, figure.id, width, height);
    yAxis(svg, yTicks, y, left, right, spec.y.label, yTexts);
    const xCount = Math.max(2, Math.min(10, (right - left) / 80));
    const xTicks = spec.x.log ? logTicks(1, xMax, Math.max(xCount, 8)) : ticks(0, xMax, xCount);
    xAxis(svg, xTicks, x, bottom, right, spec.x.label, (spec.x.log ? logText : tickText)(xTicks));
    for (const mark of spec.marks || []) {
      svg.append(el("line", { class: "target", x1: left, x2: right, y1: y(mark.y), y2: y(mark.y) }));
    }
    // The ceiling lies beneath what is measured against it.
    const ordered = [...shown].sort((a, b) => (look(b.method).oracle ? 1 : 0) - (look(a.method).oracle ? 1 : 0));
    for (const series of ordered) svg.append(drawSeries(series, x, y));
    // Above the lines, so that none runs through the words.
    for (const mark of spec.marks || []) svg.append(el("text", { class: "halo", x: left + 6, y: y(mark.y) - 6 }, mark.label));
    if (named) svg.append(...endLabels(shown, x, y, top, bottom, right));
    svg.dataset.marks = String(shown.reduce((n, s) => n + s.x.length, 0));
    plot.querySelector(":scope > svg")?.remove();
    plot.prepend(svg);
    aim(crosshair(svg, shown, x, y, top, bottom));
  }

  function drawSeries(series, x, y) {
    const style = look(series.method);
    const group = el("g", { class: spec.thin ? "series thin" : "series", style: style.css, "data-method": series.method });
    const path = (values) => values.map((v, i) => `${x(series.x[i]).toFixed(1)},${y(v).toFixed(1)}`);
    if (series.low && !series.variant) {
      group.append(el("path", { class: "band", d: `M${path(series.high).join("L")}L${path(series.low).reverse().join("L")}Z` }));
    }
    if (series.raw) group.append(el("path", { class: "raw", d: `M${path(series.raw).join("L")}` }));
    group.append(el("path", { class: series.variant ? "line variant" : "line", d: `M${path(series.mean).join("L")}`, "stroke-dasharray": (!series.variant && style.dash) || null }));
    // Where points lie far apart, a line alone would not say what was measured and what lies between.
    if ((x(series.x[series.x.length - 1]) - x(series.x[0])) / series.x.length > 12 || series.x.length <= 12) {
      series.mean.forEach((v, i) => group.append(el("circle", { class: "dot", cx: x(series.x[i]), cy: y(v), r: 2.5 })));
    }
    return group;
  }

  // Names at the ends of their lines, pushed apart where lines end close together.
  function endLabels(shown, x, y, top, bottom, right) {
    const gap = 15;
    const ends = shown.filter((s) => !s.variant).map((s) => ({ method: s.method, value: s.mean[s.mean.length - 1], fromX: x(s.x[s.x.length - 1]), from: y(s.mean[s.mean.length - 1]) }));
    // By the very numbers: two that fall on one pixel still have an order.
    ends.sort((a, b) => b.value - a.value);
    ends.forEach((end, i) => { end.at = Math.max(end.from, i ? ends[i - 1].at + gap : top); });
    for (let i = ends.length - 1, limit = bottom; i >= 0; i--, limit -= gap) {
      ends[i].at = Math.min(ends[i].at, limit);
      limit = ends[i].at;
    }
    return ends.map((end) => el("g", { class: "series", style: look(end.method).css, "data-method": end.method },
      el("line", { class: "lead", x1: end.fromX + 2, x2: right + 11, y1: end.from, y2: end.at }),
      el("text", { class: "end", x: right + 15, y: end.at + 4 }, clip(end.method, 18), el("tspan", { class: "value", dx: 5 }, told(end.value)))));
  }

  function crosshair(svg, shown, x, y, top, bottom) {
    const rounds = [...new Set(shown.flatMap((s) => s.x))].sort((a, b) => a - b);
    const cursor = el("g", { visibility: "hidden" });
    svg.append(cursor);
    return {
      positions: rounds.map(x),
      top,
      hide: () => cursor.setAttribute("visibility", "hidden"),
      show(at) {
        const round = rounds[at];
        const found = shown.map((s) => ({ s, i: s.x.indexOf(round) })).filter(({ i }) => i >= 0).sort((a, b) => b.s.mean[b.i] - a.s.mean[a.i]);
        cursor.replaceChildren(el("line", { class: "cursor", x1: x(round), x2: x(round), y1: top, y2: bottom }),
          ...found.map(({ s, i }) => el("circle", { class: "point", style: look(s.method).css, cx: x(round), cy: y(s.mean[i]), r: 4 })));
        cursor.setAttribute("visibility", "visible");
        const rows = found.slice(0, MAX_TOLD).map(({ s, i }) => ({
          style: look(s.method).css,
          dash: s.variant ? "2 2" : look(s.method).dash,
          label: nameOf(s),
          value: told(s.mean[i]),
        }));
        if (found.length > MAX_TOLD) rows.push({ label: `and ${found.length - MAX_TOLD} more`, value: "" });
        const from = Math.max(1, round - (spec.window || 1) + 1);
        return { title: from < round ? `${spec.x.label}s ${from} to ${round}` : `${spec.x.label} ${round}`, rows };
      },
    };
  }

  return draw;
};
