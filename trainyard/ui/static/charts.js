// The charts of the page: metrics of a run, how busy hosts are, and compared runs. Events of the server bring their data.

const looks = { by: "steps", log: false, smooth: false, find: "" };
const WEIGHT = 0.9;
const FEW_POINTS = 60; // each of them has a mark; a longer curve is a line
const COLUMNS = ["steps", "values", "times", "epochs"];
const COLOURS = ["--accent", "--link", "--warn", "--bad", "--good", "--start"];
const TITLES = { loss: "Loss", accuracy: "Accuracy", steps_per_second: "Steps a second" };
const AXES = { steps: "step", times: "time", epochs: "epoch" };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = (name) => (name.length > 60 ? `${name.slice(0, 59)}…` : name);
const titleOf = (name) => TITLES[name] ?? short(name);
const number = (value) => (value == null ? "–" : value.toPrecision(4));
const widthOf = (element) => Math.max(element.clientWidth, 100);
const clock = (seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(11, 16)); // UTC
const dayAndClock = (seconds) => new Date(seconds * 1000).toISOString().slice(5, 16).replace("T", " ");
const hours = (seconds) => (seconds == null ? "–" : `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`);

const INTERVALS = [1, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((minutes) => 60 * minutes), ...[1, 2, 4, 6, 12, 24, 48, 168].map((each) => 3600 * each)];

function tick(value) {
  if (value == null) return "";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(1) : value.toLocaleString("en", { maximumSignificantDigits: 5 });
}

function axes() {
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--soft"), width: 1 }, ticks: { stroke: colour("--edge") } };
  return [{ ...axis, size: 34 }, { ...axis, size: 62, values: (_, values) => values.map(tick) }];
}
const timeAxis = ([x, y]) => [{ ...x, space: 90, values: (_, times) => times.map(times.at(-1) - times[0] > 86400 ? dayAndClock : clock) }, y];
const hoursAxis = ([x, y]) => [{ ...x, space: 90, incrs: INTERVALS, values: (_, times) => times.map(hours) }, y];

// --- curves as the server sends them: columns, with texts for values that are not finite
function smoothed(values) {
  let mean = null;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = WEIGHT * (mean ?? 0) + (1 - WEIGHT) * value;
    weight = WEIGHT * weight + (1 - WEIGHT);
    return mean / weight;
  });
}

// Return the x and y of a curve as it is looked at. Points that have no x, such as an epoch, are left out.
function tableOf(curve) {
  const by = curve[looks.by] ?? curve.steps;
  const start = looks.by === "times" ? (by.find((at) => at != null) ?? 0) : 0;
  const rows = by.map((x, at) => [x == null ? null : x - start, curve.values[at]]).filter(([x]) => x !== null);
  rows.sort(([one], [other]) => one - other);
  const finite = rows.map(([, value]) => (typeof value === "number" && !(looks.log && value <= 0) ? value : null)); // a log axis has only positive values
  return [rows.map(([x]) => x), looks.smooth ? smoothed(finite) : finite];
}

// Return the points of a curve that have no place on the y axis.
const oddOf = (curve) => curve.values.flatMap((value, at) => (typeof value === "string" ? [[at, value]] : []));

function describeOdd(curve) {
  const odd = oddOf(curve);
  if (!odd.length) return "";
  const words = [...new Set(odd.map(([, text]) => (text === "NaN" ? "NaN (×)" : text === "Infinity" ? "infinity (▲)" : "−infinity (▼)")))].join(", ");
  return `${words} at ${odd.length === 1 ? "one point" : `${odd.length} points`}, first at step ${curve.steps[odd[0][0]]}`;
}

// NaN is a cross at the lower edge; infinity is a triangle at the edge towards which it lies.
function drawOdd(plot, curve) {
  const { ctx, bbox } = plot;
  const size = 4.5 * devicePixelRatio;
  const by = curve[looks.by] ?? curve.steps;
  const start = looks.by === "times" ? (by.find((at) => at != null) ?? 0) : 0;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--bad");
  ctx.lineWidth = 1.6 * devicePixelRatio;
  for (const [at, text] of oddOf(curve)) {
    if (by[at] == null) continue;
    const x = plot.valToPos(by[at] - start, "x", true);
    if (x < bbox.left - size || x > bbox.left + bbox.width + size) continue;
    const y = text === "Infinity" ? bbox.top + size : bbox.top + bbox.height - size;
    ctx.beginPath();
    if (text === "NaN") {
      for (const slope of [1, -1]) {
        ctx.moveTo(x - size, y - slope * size);
        ctx.lineTo(x + size, y + slope * size);
      }
      ctx.stroke();
    } else {
      const towards = text === "Infinity" ? -size : size;
      ctx.moveTo(x, y + towards);
      ctx.lineTo(x - size, y - towards);
      ctx.lineTo(x + size, y - towards);
      ctx.fill();
    }
  }
  ctx.restore();
}

const scales = () => ({ x: { time: false }, ...(looks.log && { y: { distr: 3 } }) });
const looked = () => (looks.by === "times" ? hoursAxis(axes()) : axes());
const xSeries = () => ({ label: AXES[looks.by], value: (_, at) => (looks.by === "times" ? hours(at) : (at ?? "–")) });

// --- the metrics of a run: a chart each, in groups by prefix, drawn once it is in view
const metrics = new Map(); // by name: its curve, its figure, and its plot
const box = document.querySelector("#metrics");
const inView = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const metric = metrics.get(target.dataset.metric);
    metric.isSeen = isIntersecting;
    if (isIntersecting && metric.isStale) drawMetric(metric);
  }
}, { rootMargin: "200px" });

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
  const metric = { name, figure, chart, note, curve: Object.fromEntries(COLUMNS.map((each) => [each, []])), plot: null, isSeen: false, isStale: true };
  metrics.set(name, metric);
  inView.observe(figure);
  return metric;
}

function drawMetric(metric) {
  const { name, curve, chart, note } = metric;
  metric.isStale = false;
  metric.plot?.destroy();
  note.textContent = describeOdd(curve);
  note.hidden = !note.textContent;
  const options = {
    width: widthOf(chart),
    height: name === "loss" ? 240 : 150,
    scales: scales(),
    axes: looked(),
    series: [xSeries(), { label: name === "loss" ? name : "value", stroke: colour("--accent"), width: 1.6, points: { show: curve.steps.length <= FEW_POINTS }, value: (_, value) => number(value) }],
    cursor: { drag: { x: true, y: false } },
    hooks: { draw: [(plot) => drawOdd(plot, curve)] },
  };
  metric.plot = new uPlot(options, tableOf(curve), chart);
}

function redrawMetrics() {
  for (const metric of metrics.values()) {
    metric.figure.hidden = !metric.name.toLowerCase().includes(looks.find.toLowerCase());
    metric.isStale = true;
    if (metric.isSeen) drawMetric(metric);
  }
}

function onMetrics(changes) {
  box.querySelector(":scope > .empty")?.remove();
  for (const [name, change] of Object.entries(changes)) {
    const metric = metrics.get(name) ?? addMetric(name);
    for (const column of COLUMNS) {
      if (change.whole) metric.curve[column] = change[column];
      else metric.curve[column].push(...change[column]);
    }
    metric.isStale = true;
    if (metric.isSeen) drawMetric(metric);
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

function drawSeveral(element, charts, { time = false, height = 130 } = {}) {
  for (const each of several.get(element)?.plots ?? []) each.destroy();
  element.replaceChildren();
  const plots = charts.map(({ title, curves, tables = curves.map(tableOf), labels = curves.map((each) => each.label), x = "step", steps = false, log = false, note = "" }) => {
    if (title) {
      const heading = document.createElement("h3");
      heading.textContent = titleOf(title);
      heading.title = title;
      element.append(heading);
    }
    const series = labels.map((label, at) => ({ label, stroke: colour(COLOURS[at % COLOURS.length]), width: 1.6, spanGaps: tables.length > 1, points: { show: tables[0][0].length <= FEW_POINTS }, value: (_, value) => number(value) }));
    if (steps) { // marks for the values, and a step for each new best one
      Object.assign(series[0], { paths: () => null, points: { show: true } });
      Object.assign(series[1], { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
    }
    const rungs = looks.by === "steps" ? (curves ?? []).map((each) => each.rungs ?? []) : [];
    const options = {
      width: widthOf(element),
      height,
      scales: curves ? scales() : { x: { time }, ...(log && { y: { distr: 3 } }), ...(time && { y: { range: (_, low, high) => [0, high * 1.05 || 1] } }) },
      axes: curves ? looked() : time ? timeAxis(axes()) : axes(),
      series: [curves ? xSeries() : time ? { label: "UTC", value: (_, at) => clock(at) } : { label: x }, ...series],
      cursor: { drag: { x: true, y: false } },
      hooks: { draw: [(plot) => drawRungs(plot, rungs, series), ...(curves ?? []).map((curve) => (plot) => drawOdd(plot, curve))] },
    };
    const made = new uPlot(options, tables.length > 1 ? uPlot.join(tables) : tables[0], element);
    const odd = (curves ?? []).flatMap((curve) => (describeOdd(curve) ? [`${curve.label}: ${describeOdd(curve)}`] : []));
    for (const text of [...odd, note].filter(Boolean)) {
      const line = document.createElement("p");
      line.className = "dim note";
      line.textContent = text;
      element.append(line);
    }
    return made;
  });
  several.set(element, { plots, again: () => drawSeveral(element, charts, { time, height }) });
  element.dataset.charts = plots.length;
}

function onUsage({ charts }) {
  const drawn = charts.map(({ title, x, series }) => ({ title, labels: series.map((each) => each.label), tables: [[x, ...series.map((each) => each.y)]] }));
  drawSeveral(document.querySelector("#usage"), drawn, { time: true });
}

function onCompared({ charts }) {
  if (!charts.length) return;
  const element = document.querySelector("#compared");
  drawSeveral(element, charts, { height: 200 });
  element.dataset.rungs = charts.flatMap(({ curves }) => curves.flatMap((each) => each.rungs ?? [])).length;
}

function onBest({ charts }) {
  const drawn = charts.map(({ title, by, x, values, best, log }) => ({ title, x: by, steps: true, log, labels: ["value", "best"], tables: [[x, values, best]] }));
  drawSeveral(document.querySelector("#best"), drawn);
}

// --- how all charts look
function redraw() {
  redrawMetrics();
  for (const { again } of [...several.values()]) again();
}

new ResizeObserver(() => {
  for (const { plot, chart } of metrics.values()) plot?.setSize({ width: widthOf(chart), height: plot.height });
  for (const [element, { plots }] of several) {
    for (const each of plots) each.setSize({ width: widthOf(element), height: each.height });
  }
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
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
