// The charts of the page: metrics of a run, how busy hosts are, and compared runs. Events of the server bring their data.

import { COLOURS, COLUMNS, FEW_POINTS, axes, clock, colour, colours, describeOdd, drawOdd, looked, looks, number, scales, tableOf, timeAxis, titleOf, xSeries } from "./curves.js";

// --- drawing: a chart is drawn once it is in view, and a frame draws only for a few milliseconds, so that a page of
// hundreds of charts scrolls smoothly
const FRAME = 12; // milliseconds
const waiting = new Set();
const charts = new WeakMap(); // by element

function drawNext() {
  const end = performance.now() + FRAME;
  try {
    for (const chart of waiting) {
      waiting.delete(chart);
      if (chart.isSeen && chart.isStale && chart.figure.isConnected) {
        chart.isStale = false;
        chart.draw(chart);
      }
      if (performance.now() > end) break;
    }
  } finally { // a chart that cannot be drawn must not keep the others from it
    if (waiting.size) requestAnimationFrame(drawNext);
  }
}

function drawSoon(chart) {
  chart.isStale = true;
  if (!chart.isSeen) return;
  if (!waiting.size) requestAnimationFrame(drawNext);
  waiting.add(chart);
}

const inView = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting, boundingClientRect } of entries) {
    const chart = charts.get(target);
    chart.isSeen = isIntersecting;
    chart.width = Math.max(boundingClientRect.width, 100); // to ask for it would make the browser lay out the page
    if (isIntersecting && chart.isStale) drawSoon(chart);
  }
}, { rootMargin: "200px" });

// Draw outside of the page, for the same reason: a canvas in it would ask for its style at each text.
function plotIn(chart, options, table) {
  const outside = document.createElement("div");
  const old = chart.plot;
  chart.plot = new uPlot(options, table, outside); // it draws in a microtask
  queueMicrotask(() => {
    old?.destroy();
    chart.box.replaceChildren(...outside.childNodes);
  });
}

function observe(chart) {
  charts.set(chart.figure, chart);
  inView.observe(chart.figure);
  return chart;
}

// --- the metrics of a run: a chart each, in groups by prefix, drawn once it is in view
const metrics = new Map(); // by name: its curve, its figure, and its plot
const box = document.querySelector("#metrics");

function groupOf(name) {
  const prefix = name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
  const known = [...box.children].find((each) => each.dataset.group === prefix);
  if (known) return known.querySelector(".metrics");
  const charts = document.createElement("div");
  charts.className = "metrics";
  const group = document.createElement(prefix ? "details" : "div");
  group.dataset.group = prefix;
  if (prefix) {
    const summary = document.createElement("summary");
    summary.textContent = `${prefix}/`;
    group.append(summary);
    group.open = true;
  }
  group.append(charts);
  if (prefix) box.append(group);
  else box.prepend(group);
  return charts;
}

function addMetric(name) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const chart = document.createElement("div");
  const note = document.createElement("p");
  caption.textContent = titleOf(name);
  caption.title = name;
  note.className = "warning note";
  figure.dataset.metric = name;
  figure.className = name === "loss" ? "wide" : "";
  figure.append(caption, chart, note);
  const charts = groupOf(name);
  if (name === "loss") charts.prepend(figure);
  else charts.append(figure);
  const metric = { name, figure, box: chart, note, curve: Object.fromEntries(COLUMNS.map((each) => [each, []])), plot: null, isSeen: false, isStale: true, draw: drawMetric };
  metrics.set(name, metric);
  return observe(metric);
}

function drawMetric(metric) {
  const { name, curve, note } = metric;
  note.textContent = describeOdd(curve);
  note.hidden = !note.textContent;
  const options = {
    width: metric.width,
    height: name === "loss" ? 240 : 150,
    scales: scales(),
    axes: looked(),
    series: [xSeries(), { label: name === "loss" ? name : "value", stroke: colour("--accent"), width: 1.6, points: { show: curve.steps.length <= FEW_POINTS }, value: (_, value) => number(value) }],
    cursor: { drag: { x: true, y: false } },
    hooks: { draw: [(plot) => drawOdd(plot, curve)] },
  };
  plotIn(metric, options, tableOf(curve));
}

function redrawMetrics() {
  for (const metric of metrics.values()) {
    metric.figure.hidden = !metric.name.toLowerCase().includes(looks.find.toLowerCase());
    drawSoon(metric);
  }
}

const showTools = (element) => {
  const tools = element.closest(".card").querySelector("[data-chart-tools]");
  if (tools) tools.hidden = false;
};

function onMetrics(changes) {
  box.querySelector(":scope > .empty")?.remove();
  showTools(box);
  for (const [name, change] of Object.entries(changes)) {
    const metric = metrics.get(name) ?? addMetric(name);
    for (const column of COLUMNS) {
      metric.curve[column] = change.whole ? change[column] : metric.curve[column].concat(change[column]);
    }
    drawSoon(metric);
  }
  box.dataset.charts = metrics.size;
  box.dataset.points = metrics.get("loss")?.curve.steps.length ?? 0;
}

// --- all other charts: how busy hosts are, compared runs, and the best value of a study
const several = new Map(); // by element: its charts, and how they are drawn

// A ring at each rung of a curve, and a cross at the rung that stopped its trial.
function drawRungs(plot, rungs, series) {
  const { ctx, bbox } = plot;
  const size = 4.5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - size, bbox.top - size, bbox.width + 2 * size, bbox.height + 2 * size);
  ctx.clip();
  ctx.lineWidth = 1.6 * devicePixelRatio;
  for (const [at, marks] of rungs.entries()) {
    if (!plot.series[at + 1].show) continue;
    ctx.strokeStyle = series[at].stroke;
    for (const [step, value, stops] of marks) {
      const [x, y] = [plot.valToPos(step, "x", true), plot.valToPos(value, "y", true)];
      ctx.beginPath();
      if (stops) {
        for (const slope of [1, -1]) {
          ctx.moveTo(x - size, y - slope * size);
          ctx.lineTo(x + size, y + slope * size);
        }
      } else {
        ctx.arc(x, y, size, 0, 2 * Math.PI);
      }
      ctx.stroke();
    }
  }
  ctx.restore();
}

function drawOne(chart) {
  const { given, time, height } = chart;
  const { curves, x = "step", steps = false, log = false } = given;
  const tables = given.tables ?? curves.map(tableOf);
  const labels = given.labels ?? curves.map((each) => each.label);
  const series = labels.map((label, at) => ({ label, stroke: colour(COLOURS[at % COLOURS.length]), width: 1.6, spanGaps: tables.length > 1, points: { show: tables[0][0].length <= FEW_POINTS }, value: (_, value) => number(value) }));
  if (steps) { // marks for the values, and a step for each new best one
    Object.assign(series[0], { paths: () => null, points: { show: true } });
    Object.assign(series[1], { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
  }
  const rungs = looks.by === "steps" ? (curves ?? []).map((each) => each.rungs ?? []) : [];
  const options = {
    width: chart.width,
    height,
    scales: curves ? scales() : { x: { time }, ...(log && { y: { distr: 3 } }), ...(time && { y: { range: (_, low, high) => [0, high * 1.05 || 1] } }) },
    axes: curves ? looked() : time ? timeAxis(axes()) : axes(),
    series: [curves ? xSeries() : time ? { label: "UTC", value: (_, at) => clock(at) } : { label: x }, ...series],
    cursor: { drag: { x: true, y: false } },
    hooks: { draw: [(made) => drawRungs(made, rungs, series), ...(curves ?? []).map((curve) => (made) => drawOdd(made, curve))] },
  };
  plotIn(chart, options, tables.length > 1 ? uPlot.join(tables) : tables[0]);
}

function addChart(element, given, time, height) {
  const figure = document.createElement("figure");
  const box = document.createElement("div");
  figure.style.minHeight = `${height + 65}px`; // its place is kept until it is drawn
  if (given.title) {
    const heading = document.createElement("h3");
    heading.textContent = titleOf(given.title);
    heading.title = given.title;
    figure.append(heading);
  }
  figure.append(box);
  const odd = (given.curves ?? []).flatMap((curve) => (describeOdd(curve) ? [`${curve.label}: ${describeOdd(curve)}`] : []));
  for (const text of [...odd, given.note].filter(Boolean)) {
    const line = document.createElement("p");
    line.className = "dim note";
    line.textContent = text;
    figure.append(line);
  }
  element.append(figure);
  return observe({ figure, box, given, time, height, plot: null, isSeen: false, isStale: true, draw: drawOne });
}

function drawSeveral(element, drawn, { time = false, height = 130 } = {}) {
  for (const { plot, figure } of several.get(element) ?? []) {
    plot?.destroy();
    inView.unobserve(figure);
  }
  element.style.minHeight = `${element.offsetHeight}px`; // what is below must not jump
  element.replaceChildren();
  several.set(element, drawn.map((given) => addChart(element, given, time, height)));
  element.style.minHeight = "";
  element.dataset.charts = drawn.length;
}

// The charts of many hosts have three lines. The lines of one host are added when it is chosen.
const usage = { charts: [], own: new Map(), hosts: [] };
const usageHost = document.querySelector("#usage-host");

function drawUsage() {
  const drawn = usage.charts.map(({ title, x, series, note }) => {
    const own = usage.own.get(title);
    const tables = [[x, ...series.map((each) => each.y)], ...(own ? [[own.x, ...own.series.map((each) => each.y)]] : [])];
    return { title, note, tables, labels: [...series, ...(own?.series ?? [])].map((each) => each.label) };
  });
  drawSeveral(document.querySelector("#usage"), drawn, { time: true });
}

async function readOwn() {
  const answer = usageHost.value && (await fetch(`${location.pathname}/usage?host=${encodeURIComponent(usageHost.value)}`));
  const { charts: found } = answer && answer.ok ? await answer.json() : { charts: [] };
  usage.own = new Map(found.map((each) => [each.title, each]));
  drawUsage();
}

function onUsage({ charts: drawn, hosts }) {
  usage.charts = drawn;
  document.querySelector("[data-usage-tools]").hidden = !hosts.length;
  if (usage.hosts.join() !== hosts.join()) {
    const chosen = usageHost.value;
    usageHost.replaceChildren(usageHost.firstElementChild, ...hosts.map((host) => new Option(host, host, false, host === chosen)));
    usage.hosts = hosts;
  }
  if (usageHost.value) readOwn();
  else drawUsage();
}
usageHost?.addEventListener("change", readOwn);

function onCompared({ charts: drawn }) {
  if (!drawn.length) return;
  const element = document.querySelector("#compared");
  showTools(element);
  drawSeveral(element, drawn, { height: 200 });
  element.dataset.rungs = drawn.flatMap(({ curves }) => curves.flatMap((each) => each.rungs ?? [])).length;
}

function onBest({ charts: best }) {
  const drawn = best.map(({ title, by, x, values, best: most, log }) => ({ title, x: by, steps: true, log, labels: ["value", "best"], tables: [[x, values, most]] }));
  drawSeveral(document.querySelector("#best"), drawn);
}

// --- how all charts look
const everyChart = () => [...metrics.values(), ...[...several.values()].flat()];

function redraw() {
  redrawMetrics();
  for (const chart of [...several.values()].flat()) drawSoon(chart);
}

let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return; // only its height has changed
  width = document.body.clientWidth;
  for (const chart of everyChart()) {
    if (chart.isSeen) {
      chart.width = Math.max(chart.figure.clientWidth, 100);
      chart.plot?.setSize({ width: chart.width, height: chart.plot.height });
    } else if (chart.plot) { // drawn again once it is in view
      chart.plot.destroy();
      chart.plot = null;
      chart.isStale = true;
    }
  }
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours.clear();
  redraw();
});
for (const input of document.querySelectorAll("[data-look]")) {
  input.addEventListener("input", () => {
    looks[input.dataset.look] = input.type === "checkbox" ? input.checked : input.value;
    redraw();
  });
}

// --- data from the server
const CHARTS = { metrics: onMetrics, usage: onUsage, compared: onCompared, best: onBest };
for (const [name, draws] of Object.entries(CHARTS)) {
  document.querySelector("#live")?.addEventListener(name, (event) => draws(JSON.parse(event.detail.data)));
}
