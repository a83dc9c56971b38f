// The page: which peers are hidden, light or dark, and a plot in each figure. Draws nothing itself.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent).figures;
  const hidden = new Set();
  const plots = new Map();

  function button(text, name, parent) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "tool " + name;
    made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function shown() {
    for (const key of document.querySelectorAll(".key")) {
      key.setAttribute("aria-pressed", String(!hidden.has(key.dataset.peer)));
    }
    for (const bar of document.querySelectorAll(".bars g[data-peer]")) {
      bar.classList.toggle("hidden", hidden.has(bar.dataset.peer));
    }
    for (const plot of plots.values()) if (plot.width > 0) plot.draw();
  }

  function prepare(element) {
    const figure = figures[Number(element.dataset.figure)];
    const plot = new Plot(figure, element.querySelector(".live"), hidden);
    const legend = element.querySelector(".legend");
    if (figure.y.spread === "log") {
      const spread = button("linear axis", "spread", legend);
      spread.addEventListener("click", () => {
        plot.spread = plot.spread === "log" ? "linear" : "log";
        spread.textContent = plot.spread === "log" ? "linear axis" : "logarithmic axis";
        plot.reset();
      });
    }
    const reset = button("reset zoom", "reset", legend);
    reset.classList.add("hidden");
    reset.addEventListener("click", () => plot.reset());
    plot.zoomed = (on) => reset.classList.toggle("hidden", !on);
    plots.set(element, plot);
  }

  // A figure is drawn when it comes near the screen: a phone need not draw a hundred panels at once.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const plot = plots.get(entry.target);
      if (entry.isIntersecting && plot.width === 0) plot.draw();
    }
  }, { rootMargin: "600px" });

  document.documentElement.classList.add("alive");
  for (const element of document.querySelectorAll(".plot")) {
    prepare(element);
    near.observe(element);
    // Room for what is not drawn yet, so that the page does not jump.
    const box = element.querySelector("svg.static").viewBox.baseVal;
    plots.get(element).place.style.minHeight = Math.min(box.height, 400) + "px";
  }

  document.addEventListener("click", (event) => {
    const key = event.target.closest(".key");
    if (!key) return;
    const peer = key.dataset.peer;
    if (!hidden.delete(peer)) hidden.add(peer);
    shown();
  });

  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      for (const plot of plots.values()) {
        if (plot.width > 0 && plot.width !== Math.floor(plot.place.clientWidth)) plot.draw();
      }
    });
  });

  // On paper everything is open; afterwards as the reader had it.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  const theme = document.getElementById("theme");
  const root = document.documentElement;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
})();
