// Shows the report page of a run, and the newer one as soon as there is one, at the same place.
(() => {
  const EVERY = 2000;
  const bar = document.getElementById("bar");
  const says = document.getElementById("says");
  const pages = document.getElementById("pages");
  let shown = null;
  let version = null;

  // Where the reader is: the section at the top of the screen and how far into it; a page that
  // has grown above it would otherwise move under the reader's eyes.
  const placeOf = (view) => {
    const sections = [...view.document.querySelectorAll("section[id]")];
    const above = sections.filter((one) => one.getBoundingClientRect().top <= 1).pop();
    return {
      x: view.scrollX,
      y: view.scrollY,
      section: above ? above.id : null,
      into: above ? -above.getBoundingClientRect().top : 0,
      open: [...view.document.querySelectorAll("details")].map((one) => one.open),
      sideways: [...view.document.querySelectorAll(".scroll")].map((one) => one.scrollLeft),
      hidden: [...view.document.querySelectorAll("button.legend[aria-pressed=false]")].map((one) => one.textContent),
    };
  };
  const goTo = (view, place) => {
    const page = view.document;
    page.querySelectorAll("details").forEach((one, i) => { one.open = place.open[i] ?? one.open; });
    for (const label of new Set(place.hidden)) {
      const button = [...page.querySelectorAll("button.legend[aria-pressed=true]")].find((one) => one.textContent === label);
      if (button) button.click();
    }
    page.querySelectorAll(".scroll").forEach((one, i) => { one.scrollLeft = place.sideways[i] ?? 0; });
    const section = place.section && page.getElementById(place.section);
    const y = section ? view.scrollY + section.getBoundingClientRect().top + place.into : place.y;
    view.scrollTo({ left: place.x, top: y, behavior: "instant" });
  };

  const load = (wanted) => new Promise((done) => {
    const next = document.createElement("iframe");
    next.className = "next";
    next.title = "The report";
    next.src = `/report?${wanted}`;
    next.addEventListener("load", () => {
      if (shown) {
        goTo(next.contentWindow, placeOf(shown.contentWindow));
        shown.remove();
      }
      shown = next;
      shown.className = "";
      document.documentElement.dataset.version = wanted;
      done();
    });
    pages.append(next);
  });

  const look = async () => {
    try {
      const state = await (await fetch("/state")).json();
      bar.dataset.status = state.status;
      says.textContent = state.says.join("\n");
      document.title = `${state.title} · Unstale`;
      if (state.version !== version) {
        version = state.version;
        await load(version);
      }
    } catch {
      bar.dataset.status = "gone";
      says.textContent = "No longer watched: `unstale watch` has ended. What is shown stays as it is.";
    }
    setTimeout(look, EVERY);
  };
  look();
})();
