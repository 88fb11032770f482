"use strict";
// What every chart shares: SVG elements, scales, ticks, and the read-out under the pointer.
const Unstale = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  // Foreign text only ever enters through textContent and attributes, never as markup.
  function el(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
  }
  function html(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
  }
  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "style") node.style.cssText = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  function scale(from, to, start, end) {
    const span = to - from || 1;
    return (value) => start + ((value - from) / span) * (end - start);
  }

  // About `count` round numbers from 0 or `low` up to `high`.
  function ticks(low, high, count) {
    const raw = (high - low || 1) / Math.max(count, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.75);
    const found = [];
    // Adding 0 turns -0 into 0.
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step + 0);
    return found;
  }

  // Ticks read alike: all with as many digits as the finest of them needs.
  function tickText(values) {
    const digits = Math.max(...values.map((v) => (Number(v.toPrecision(6)).toString().split(".")[1] || "").length));
    return values.map((v) => v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }

  // A logarithmic axis goes from one of 1, 2, 5, 10, … below the lowest value upwards.
  function logScale(from, to, start, end) {
    const linear = scale(Math.log10(from), Math.log10(to), start, end);
    return (value) => linear(Math.log10(value));
  }
  function logRange(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const power = 10 ** Math.floor(Math.log10(low));
    const from = [5, 2, 1].map((m) => m * power).find((v) => v <= low * 1.000001);
    return [from, Math.max(high * 1.08, from * 2)];
  }
  // Powers of ten, with 2 and 5 between them where there is room; the lowest is the axis.
  function logTicks(low, high, count) {
    const found = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) {
      for (const m of [1, 2, 5]) found.push(Number((m * 10 ** k).toPrecision(1)));
    }
    const inside = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    if (inside.length < 3) return ticks(low, high, count).filter((v) => v > 0);
    const tens = inside.filter((v) => Number.isInteger(Math.round(Math.log10(v) * 1e6) / 1e6));
    if (inside.length <= count + 1) return inside;
    const every = Math.ceil(tens.length / count);
    return [inside[0], ...tens.filter((v, i) => i % every === 0 && v > inside[0] * 1.5)];
  }
  function logText(values) {
    return values.map((v) => (v >= 0.0001 && v < 1e5 ? v.toLocaleString("en", { maximumFractionDigits: 4 }) : v.toExponential(0)));
  }
  // Three digits that count, as people write them.
  function precise(value) {
    if (value === 0) return "0";
    return Math.abs(value) >= 0.0001 ? Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 }) : value.toExponential(1);
  }

  function number(value, digits) {
    return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: Number.isInteger(value) ? 0 : digits });
  }

  // Cut in the middle: long names often differ at their ends.
  function clip(text, length) {
    const head = Math.ceil((length - 1) / 2);
    return text.length > length ? `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}` : text;
  }

  // The canvas of a chart: an SVG with its title and description for those who cannot see it.
  function canvas(spec, id, width, height) {
    return el("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      el("title", { id: `${id}-title` }, spec.title), el("desc", { id: `${id}-desc` }, spec.desc));
  }

  function yAxis(svg, values, y, left, right, label, texts = tickText(values)) {
    texts.forEach((text, i) => {
      const at = y(values[i]);
      svg.append(el("line", { class: i ? "grid" : "axis", x1: left, x2: right, y1: at, y2: at }),
        el("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, text));
    });
    svg.append(el("text", { x: 0, y: 11 }, label));
  }

  function xAxis(svg, values, x, bottom, right, label, texts = tickText(values)) {
    values.forEach((value, i) => svg.append(el("text", { x: x(value), y: bottom + 18, "text-anchor": "middle" }, texts[i])));
    svg.append(el("text", { x: right, y: bottom + 34, "text-anchor": "end" }, label));
  }

  // A read-out that follows pointer, finger and arrow keys over `positions` (pixels).
  // The layer lies over the SVG, so the browser does not show the SVG's title as a tooltip too.
  function readout(plot) {
    let target = null;
    let at = -1;
    const tip = html("output", { class: "tip", hidden: true, "aria-live": "polite" });
    const hit = html("div", { class: "hit", tabindex: 0, role: "group", "aria-label": "Chart. Read values with the left and right arrow keys." });
    plot.append(hit, tip);

    function show(index) {
      at = Math.max(0, Math.min(index, target.positions.length - 1));
      const told = target.show(at);
      tip.replaceChildren(html("b", {}, told.title), ...told.rows.map((row) => html("div", { class: "row" },
        html("span", {}, row.style ? swatch(row) : null, row.label), html("span", {}, row.value))));
      tip.hidden = false;
      const [x, width] = [target.positions[at], plot.clientWidth];
      const left = x + 14 + tip.offsetWidth > width ? x - 14 - tip.offsetWidth : x + 14;
      tip.style.transform = `translate(${Math.max(0, Math.min(left, width - tip.offsetWidth))}px, ${target.top}px)`;
    }
    function hide() {
      at = -1;
      tip.hidden = true;
      if (target) target.hide();
    }
    function follow(event) {
      if (!target || !target.positions.length) return;
      const x = event.clientX - hit.getBoundingClientRect().left;
      let nearest = 0;
      target.positions.forEach((p, i) => { if (Math.abs(p - x) < Math.abs(target.positions[nearest] - x)) nearest = i; });
      show(nearest);
    }
    hit.addEventListener("pointermove", follow);
    hit.addEventListener("pointerdown", follow);
    // A finger that is lifted leaves the read-out standing, until it taps elsewhere.
    hit.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
    document.addEventListener("pointerdown", (event) => { if (event.target !== hit) hide(); });
    hit.addEventListener("blur", hide);
    hit.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return hide();
      if (!target || !target.positions.length) return;
      const last = target.positions.length - 1;
      const step = { ArrowRight: at + 1, ArrowLeft: at < 0 ? last : at - 1, Home: 0, End: last }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      show(step);
    });
    return (next) => { hide(); target = next; };
  }

  function swatch({ style, dash }) {
    const svg = el("svg", { class: "swatch", viewBox: "0 0 20 8", style, "aria-hidden": "true" });
    svg.append(el("line", { x1: 1, x2: 19, y1: 4, y2: 4, "stroke-dasharray": dash || null }));
    return svg;
  }

  return { el, html, scale, ticks, tickText, logScale, logRange, logTicks, logText, precise, number, clip, canvas, yAxis, xAxis, readout, swatch, kinds: {} };
})();
