// Draws every figure of the page from the JSON it holds, and again when its width changes.
(() => {
  const root = document.documentElement;
  // Left where a test, or a curious reader, can find it.
  window.addEventListener("error", (event) => { root.dataset.error = event.message; });

  const listeners = [];
  const shared = {
    methods: JSON.parse(document.getElementById("methods").textContent),
    // A method hidden in one chart is hidden in all: it is the same question everywhere.
    hidden: new Set(),
    onToggle(listener) { listeners.push(listener); },
    toggle(label) {
      if (!this.hidden.delete(label)) this.hidden.add(label);
      listeners.forEach((listener) => listener());
    },
  };

  const widths = new WeakMap();
  const draws = new WeakMap();
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const width = target.clientWidth;
      if (width && width !== widths.get(target)) {
        widths.set(target, width);
        draws.get(target)();
      }
    }
  });
  for (const figure of document.querySelectorAll("figure.chart")) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const plot = figure.querySelector(".plot");
    const draw = Unstale.kinds[figure.dataset.kind](figure, spec, shared);
    draw();
    draws.set(plot, draw);
    widths.set(plot, plot.clientWidth);
    observer.observe(plot);
  }
  // A table that is wider than the screen says so, until its end has been seen.
  for (const box of document.querySelectorAll(".scroll")) {
    const hint = Unstale.html("p", { class: "hint", "aria-hidden": "true" }, "Scroll the table sideways for more →");
    box.after(hint);
    const look = () => {
      const more = box.scrollWidth - box.clientWidth - box.scrollLeft > 4;
      box.classList.toggle("more", more);
      hint.hidden = !more;
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
  }
  root.dataset.ready = "true";
})();
