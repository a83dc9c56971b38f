"use strict";
// Draws one figure of the report for a screen: panels with the same axes, zoomed by dragging, with values under the
// pointer. Owns no state of the page; page.js tells it which peers are hidden.

const SPACE = "http://www.w3.org/2000/svg";

// How values are spread over an axis: forth to a place, and back.
const SPREADS = {
  linear: { to: (v) => v, from: (v) => v },
  log: { to: (v) => Math.log10(Math.max(v, 1e-6)), from: (v) => 10 ** v },
  nines: { to: (v) => -Math.log10(1 - Math.min(Math.max(v, 0), 99.999999) / 100), from: (v) => 100 * (1 - 10 ** -v) },
  doubling: { to: (v) => Math.log2(Math.max(v, 1e-6)), from: (v) => 2 ** v },
};

function shape(name, attributes, parent) {
  const element = document.createElementNS(SPACE, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

function words(parent, text, attributes) {
  shape("text", attributes, parent).textContent = text;
}

function told(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

// Three significant digits, one below the other.
function exact(value) {
  const size = Math.abs(value);
  return size >= 100 ? told(value) : value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

// A name that fits beside a plot; the whole of it is in the legend.
function cut(label) {
  const letters = [...label];
  return letters.length <= 17 ? label : letters.slice(0, 16).join("") + "…";
}

function percent(value) {
  const nines = value >= 99.99 ? 5 : value >= 99 ? 3 : 1;
  return Number(value.toFixed(nines)) + "%";
}

function steps(low, high, about) {
  const rough = (high - low) / Math.max(about, 1);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) || rough;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-9) && found.length < 60; at += 1) {
    found.push(Number((at * step).toPrecision(10)));
  }
  return found;
}

function ticks(spread, low, high, about) {
  let found;
  if (spread === "nines") {
    found = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999].filter((v) => v >= low - 1e-9 && v <= high + 1e-9);
    if (found.length < 2) return steps(low, high, about);
    return low === 0 ? found.filter((v) => v !== 50) : found;
  }
  if (spread === "doubling") {
    found = [...Array(12).keys()].map((power) => 2 ** power);
  } else if (spread === "log") {
    const decades = Math.log10(high / low);
    if (decades < 1) return steps(low, high, about);
    const kinds = decades * 3 <= about ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / Math.max(about, 1)));
    found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every) {
      for (const kind of kinds) found.push(Number((kind * 10 ** power).toPrecision(6)));
    }
  } else {
    return steps(low, high, about);
  }
  const within = found.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9));
  return within.length > 1 || spread === "doubling" ? within : steps(low, high, about);
}

// The ends of an axis that holds the values.
function ends(spread, values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (spread === "log" && value <= 0) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) [low, high] = [0.1, 1];
  if (spread === "linear") return [Math.min(low, 0), high > 0 ? high * 1.02 : 1];
  if (spread === "nines") return [0, Math.min(Math.max(high, 90), 99.9999)];
  if (spread === "doubling") return [Math.max(low, 1), Math.max(high, low * 2)];
  const outwards = (value, up) => {
    const power = 10 ** Math.floor(Math.log10(value));
    const kinds = [1, 2, 5, 10].map((kind) => kind * power);
    return up ? kinds.find((k) => k >= value * 0.999999) : kinds.reverse().find((k) => k <= value * 1.000001);
  };
  const [from, to] = [outwards(low, false) || low, outwards(high, true) || high];
  return to > from ? [from, to] : [from, from * 10];
}

class Plot {
  constructor(figure, place, hidden) {
    this.figure = figure;
    this.place = place;
    this.hidden = hidden;
    this.zoom = null;
    this.spread = figure.y.spread;
    this.width = 0;
    this.tip = document.createElement("div");
    this.tip.className = "tip hidden";
  }

  visible(panel) {
    return panel.series.filter((series) => !this.hidden.has(series.peer));
  }

  // The ends of both axes: those of what is visible, or of the zoom.
  domain() {
    if (this.zoom) return this.zoom;
    const values = [[], []];
    for (const panel of this.figure.panels) {
      for (const series of this.visible(panel)) {
        if (series.look === "failures") continue;
        series.points.forEach((value, at) => values[at % 2].push(value));
      }
    }
    return { x: ends(this.figure.x.spread, values[0]), y: ends(this.spread, values[1]) };
  }

  draw() {
    const width = Math.floor(this.place.clientWidth);
    if (width < 50) return;
    this.width = width;
    const count = this.figure.panels.length;
    const single = count === 1;
    const columns = Math.min(count, Math.max(1, Math.floor(width / 320)), count === 4 ? 2 : 3);
    const cell = { width: width / columns, height: single ? Math.min(380, Math.max(280, width * 0.42)) : 220 };
    const svg = shape("svg", {
      width, height: cell.height * Math.ceil(count / columns), role: "img", "aria-label": this.figure.title,
    });
    const domain = this.domain();
    this.frames = this.figure.panels.map((panel, at) => {
      const left = (at % columns) * cell.width + 50;
      const top = Math.floor(at / columns) * cell.height + (single ? 24 : 40);
      const right = single && width > 560 ? 126 : 26;
      const frame = {
        panel, left, top, single,
        width: cell.width - 50 - right,
        height: cell.height - (single ? 24 : 40) - 38,
        labels: single && width > 560,
      };
      frame.x = this.scale(this.figure.x.spread, domain.x, frame.left, frame.width);
      frame.y = this.scale(this.spread, domain.y, frame.top + frame.height, -frame.height);
      this.frame(svg, frame, at);
      return frame;
    });
    this.svg = svg;
    this.place.style.minHeight = "";
    this.place.replaceChildren(svg, this.tip);
    this.listen(svg);
  }

  scale(name, [low, high], start, length) {
    const spread = SPREADS[name];
    const [from, to] = [spread.to(low), spread.to(high)];
    const width = to - from || 1;
    return {
      name, low, high,
      at: (value) => start + ((spread.to(value) - from) / width) * length,
      value: (place) => spread.from(from + ((place - start) / length) * width),
    };
  }

  frame(svg, frame, number) {
    const { left, top, width, height, panel } = frame;
    const bottom = top + height;
    const group = shape("g", { class: "panel", "data-panel": number }, svg);
    if (!frame.single) words(group, panel.title, { class: "panel", x: left - 44, y: top - 24 });
    words(group, this.figure.y.label, { class: "axis", x: left - 44, y: top - 9 });
    for (const value of ticks(frame.y.name, frame.y.low, frame.y.high, Math.floor(height / 26))) {
      const y = frame.y.at(value);
      shape("line", { class: "grid", x1: left, x2: left + width, y1: y, y2: y }, group);
      words(group, told(value), { class: "tick end y", x: left - 6, y: y + 3.5 });
    }
    let free_from = -Infinity;
    for (const value of ticks(frame.x.name, frame.x.low, frame.x.high, Math.max(4, Math.floor(width / 80)))) {
      const x = frame.x.at(value);
      shape("line", { class: "base", x1: x, x2: x, y1: bottom, y2: bottom + 4 }, group);
      if (x < free_from) continue;
      free_from = x + (frame.x.name === "nines" ? 52 : 30);
      // The last one must not stand beyond the edge.
      const last = frame.x.name === "nines" && x > left + width - 4;
      const place = last ? { class: "tick end x", x: left + width + 24 } : { class: "tick middle x", x };
      words(group, frame.x.name === "nines" ? percent(value) : told(value), { ...place, y: bottom + 16 });
    }
    shape("line", { class: "base", x1: left, x2: left + width, y1: bottom, y2: bottom }, group);
    words(group, this.figure.x.label, { class: "axis end", x: left + width, y: bottom + 31 });
    // Each panel cuts off what a zoom moves out of it.
    const id = "clip-" + this.place.parentNode.dataset.figure + "-" + number;
    const clip = shape("clipPath", { id }, group);
    shape("rect", { x: left - 3, y: top - 3, width: width + 6, height: height + 4 }, clip);
    const inner = shape("g", { "clip-path": `url(#${id})` }, group);
    this.events(inner, frame);
    for (const series of this.visible(panel)) this.series(inner, frame, series);
    if (frame.labels) this.labels(group, frame);
  }

  events(group, frame) {
    for (const [at, label] of frame.panel.events) {
      const x = frame.x.at(at);
      shape("line", { class: "event", x1: x, x2: x, y1: frame.top, y2: frame.top + frame.height }, group);
      if (frame.single && frame.width > 600) {
        words(group, label, { class: "event", transform: `translate(${x - 3} ${frame.top + 2}) rotate(-90)` });
      }
    }
  }

  series(group, frame, series) {
    const own = shape("g", { class: `${series.colour} ${series.look}`, "data-peer": series.peer }, group);
    const count = series.points.length / 2;
    const x = (at) => frame.x.at(series.points[at * 2]).toFixed(1);
    const y = (at) => frame.y.at(series.points[at * 2 + 1]).toFixed(1);
    if (series.look === "failures") {
      const bottom = frame.top + frame.height;
      for (let at = 0; at < count; at += 1) {
        shape("line", { class: "failure", x1: x(at), x2: x(at), y1: bottom - 8, y2: bottom }, own);
      }
      return;
    }
    if (count > 1) {
      let d = `M${x(0)} ${y(0)}`;
      for (let at = 1; at < count; at += 1) {
        d += series.look === "steps" ? `H${x(at)}V${y(at)}` : `L${x(at)} ${y(at)}`;
      }
      shape("path", { d }, own);
    }
    for (let at = 0; at < count && series.look === "dotted"; at += 1) {
      shape("circle", { cx: x(at), cy: y(at), r: 3 }, own);
    }
  }

  // Names at the ends of lines, moved apart where they would cover each other.
  labels(group, frame) {
    const right = frame.left + frame.width;
    const named = this.visible(frame.panel)
      .filter((series) => series.points.length > 1 && series.look !== "failures" && series.look !== "faint")
      .map((series) => {
        let at = series.points.length - 2;
        while (at > 0 && frame.x.at(series.points[at]) > right + 1) at -= 2;
        return { series, y: Math.min(Math.max(frame.y.at(series.points[at + 1]), frame.top), frame.top + frame.height) };
      })
      .sort((a, b) => a.y - b.y);
    let free = frame.top - 8;
    // Enough room must be left below for those that follow.
    let last = frame.top + frame.height - 13 * named.length;
    for (const { series, y } of named) {
      last += 13;
      const place = Math.max(Math.min(y, last), free);
      free = place + 13;
      words(shape("g", { class: series.colour }, group), cut(series.label), { class: "name", x: right + 7, y: place + 3.5 });
    }
  }

  at(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  under([x, y]) {
    return this.frames.find((frame) => x >= frame.left - 4 && x <= frame.left + frame.width + 4
      && y >= frame.top - 4 && y <= frame.top + frame.height + 4);
  }

  listen(svg) {
    let begun = null;
    let selection = null;
    svg.addEventListener("pointerdown", (event) => {
      const place = this.at(event);
      const frame = this.under(place);
      if (!frame || event.button !== 0) return;
      begun = { frame, place };
      if (event.pointerType !== "touch") svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const place = this.at(event);
      if (!begun) return this.hover(place);
      this.tip.classList.add("hidden");
      selection = selection || shape("rect", { class: "selection" }, svg);
      const box = this.box(begun, place);
      for (const key in box) selection.setAttribute(key, box[key]);
    });
    svg.addEventListener("pointerup", (event) => {
      const box = begun && this.box(begun, this.at(event));
      const frame = begun && begun.frame;
      begun = null;
      if (selection) selection.remove();
      selection = null;
      if (box && box.width > 8) this.into(frame, box);
    });
    svg.addEventListener("pointercancel", () => {
      begun = null;
      if (selection) selection.remove();
      selection = null;
    });
    svg.addEventListener("pointerleave", () => this.leave());
    svg.addEventListener("dblclick", () => this.reset());
  }

  // What is dragged over; nearly horizontal it is the whole height.
  box({ frame, place }, [x, y]) {
    const clamp = (value, low, length) => Math.min(Math.max(value, low), low + length);
    const xs = [place[0], x].map((v) => clamp(v, frame.left, frame.width)).sort((a, b) => a - b);
    let ys = [place[1], y].map((v) => clamp(v, frame.top, frame.height)).sort((a, b) => a - b);
    if (ys[1] - ys[0] < 24) ys = [frame.top, frame.top + frame.height];
    return { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0] };
  }

  into(frame, box) {
    this.zoom = {
      x: [frame.x.value(box.x), frame.x.value(box.x + box.width)],
      y: [frame.y.value(box.y + box.height), frame.y.value(box.y)],
    };
    this.zoomed(true);
    this.draw();
  }

  reset() {
    this.zoom = null;
    this.zoomed(false);
    this.draw();
  }

  leave() {
    this.tip.classList.add("hidden");
    if (this.cursor) this.cursor.remove();
    this.cursor = null;
  }

  hover(place) {
    const frame = this.under(place);
    this.leave();
    if (!frame) return;
    const x = Math.min(Math.max(place[0], frame.left), frame.left + frame.width);
    this.cursor = shape("line", {
      class: "cursor", x1: x, x2: x, y1: frame.top, y2: frame.top + frame.height, "pointer-events": "none",
    }, this.svg);
    this.say(frame, x, place);
  }

  say(frame, x, place) {
    const wanted = frame.x.value(x);
    const rows = [];
    for (const series of this.visible(frame.panel)) {
      if (series.look === "failures" || series.points.length === 0) continue;
      let best = 0;
      for (let at = 0; at < series.points.length; at += 2) {
        if (Math.abs(frame.x.at(series.points[at]) - x) < Math.abs(frame.x.at(series.points[best]) - x)) best = at;
      }
      if (Math.abs(frame.x.at(series.points[best]) - x) > 40) continue;
      rows.push([series, series.points[best + 1]]);
    }
    rows.sort((a, b) => b[1] - a[1]);
    const head = document.createElement("div");
    head.textContent = frame.x.name === "nines" ? percent(wanted) : `${told(wanted)} ${this.figure.x.label}`;
    const near = frame.panel.events.find(([at]) => Math.abs(frame.x.at(at) - x) < 5);
    if (near) head.textContent += `: ${near[1]}`;
    this.tip.replaceChildren(head, ...rows.map(([series, value]) => {
      const row = document.createElement("div");
      const dot = document.createElement("i");
      dot.className = `dot ${series.colour}`;
      const figure = document.createElement("b");
      figure.textContent = exact(value);
      row.append(dot, series.label, figure);
      return row;
    }));
    this.tip.classList.remove("hidden");
    const over = place[0] > this.width / 2;
    const left = over ? place[0] - this.tip.offsetWidth - 14 : place[0] + 14;
    this.tip.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, place[1] - 20)}px)`;
  }
}
