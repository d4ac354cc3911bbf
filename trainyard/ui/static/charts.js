// The charts of the page: the loss, other measures, how busy hosts are, and compared runs. Events of the server bring their data.

// --- the curve
const box = document.querySelector("#curve");
const points = { steps: [], losses: [] };
const looks = { log: false, smooth: false };
const WEIGHT = 0.9;
const FEW_POINTS = 60; // each of them has a mark; a longer curve is a line
let plot = null;

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

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const positive = (values) => values.map((value) => (value > 0 ? value : null)); // a log axis has no other values
const shown = (values) => (looks.log ? positive(values) : values);
const curveData = () => [points.steps, shown(points.losses), looks.smooth ? smoothed(shown(points.losses)) : points.losses.map(() => null)];
const curveWidth = () => Math.max(box.clientWidth, 100);

const number = (value) => (value == null ? "–" : value.toPrecision(4));

function axes() {
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--soft"), width: 1 }, ticks: { stroke: colour("--edge") } };
  return [{ ...axis, size: 34 }, { ...axis, size: 58 }];
}

function draw() {
  plot?.destroy();
  box.replaceChildren();
  plot = new uPlot(
    {
      width: curveWidth(),
      height: 240,
      scales: { x: { time: false }, y: { distr: looks.log ? 3 : 1 } },
      axes: axes(),
      series: [
        { label: "step" },
        { label: "loss", stroke: colour("--accent"), width: looks.smooth ? 0.75 : 1.6, alpha: looks.smooth ? 0.5 : 1, points: { show: points.steps.length <= FEW_POINTS }, value: (_, value) => number(value) },
        { label: "smooth", show: looks.smooth, stroke: colour("--ink"), width: 1.8, points: { show: false }, value: (_, value) => number(value) },
      ],
      cursor: { drag: { x: true, y: false } },
    },
    curveData(),
    box,
  );
}

function onCurve({ whole, steps, losses }) {
  if (whole) {
    points.steps = steps;
    points.losses = losses;
  } else {
    points.steps.push(...steps);
    points.losses.push(...losses);
  }
  box.dataset.points = points.steps.length;
  if (plot && points.steps.length > FEW_POINTS + steps.length) plot.setData(curveData());
  else draw();
}

// --- all other charts: measures beside the loss, how busy hosts are, and the losses of compared runs
const several = new Map(); // by element: its charts, and how they are drawn
const COLOURS = ["--accent", "--link", "--warn", "--bad", "--good", "--start"];
const clock = (seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(11, 16)); // UTC
const dayAndClock = (seconds) => new Date(seconds * 1000).toISOString().slice(5, 16).replace("T", " ");
const timeAxis = ([x, y]) => [{ ...x, space: 90, values: (_, times) => times.map(times.at(-1) - times[0] > 86400 ? dayAndClock : clock) }, y];

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

function drawSeveral(element, charts, { time = false, height = 130, looked = false } = {}) {
  for (const each of several.get(element)?.plots ?? []) each.destroy();
  element.replaceChildren();
  const width = Math.max(element.clientWidth, 100);
  const plots = charts.map(({ title, tables, labels, x = "step", steps = false, log = false, rungs = [], note = "" }) => {
    if (title) {
      const heading = document.createElement("h3");
      heading.textContent = title;
      element.append(heading);
    }
    const series = labels.map((label, at) => ({ label, stroke: colour(COLOURS[at % COLOURS.length]), width: 1.6, spanGaps: tables.length > 1, points: { show: tables[0][0].length <= FEW_POINTS }, value: (_, value) => number(value) }));
    if (steps) { // marks for the values, and a step for each new best one
      Object.assign(series[0], { paths: () => null, points: { show: true } });
      Object.assign(series[1], { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
    }
    const drawn = looked ? tables.map(([x, ...columns]) => [x, ...columns.map(shown).map((values) => (looks.smooth ? smoothed(values) : values))]) : tables;
    const options = {
      width,
      height,
      scales: { x: { time }, ...((log || (looked && looks.log)) && { y: { distr: 3 } }), ...(time && { y: { range: (_, low, high) => [0, high * 1.05 || 1] } }) },
      axes: time ? timeAxis(axes()) : axes(),
      series: [time ? { label: "UTC", value: (_, at) => clock(at) } : { label: x }, ...series],
      cursor: { drag: { x: true, y: false } },
      hooks: { draw: [(plot) => drawRungs(plot, rungs, series)] },
    };
    const made = new uPlot(options, drawn.length > 1 ? uPlot.join(drawn) : drawn[0], element);
    if (note) {
      const line = document.createElement("p");
      line.className = "dim note";
      line.textContent = note;
      element.append(line);
    }
    return made;
  });
  several.set(element, { plots, again: () => drawSeveral(element, charts, { time, height, looked }), looked });
  element.dataset.charts = plots.length;
}

const TITLES = { loss: "Loss", accuracy: "Accuracy", steps_per_second: "Steps a second" };

function onMeasures(measures) {
  const drawn = Object.entries(measures).map(([name, { steps, values }]) => ({ title: TITLES[name] ?? name, labels: [TITLES[name]?.toLowerCase() ?? name], tables: [[steps, values]] }));
  drawSeveral(document.querySelector("#measures"), drawn, { looked: true });
}

function onUsage({ charts }) {
  const drawn = charts.map(({ title, x, series }) => ({ title, labels: series.map((each) => each.label), tables: [[x, ...series.map((each) => each.y)]] }));
  drawSeveral(document.querySelector("#usage"), drawn, { time: true });
}

function onCompared({ charts }) {
  if (!charts.length) return;
  const drawn = charts.map(({ title, curves, note = "" }) => ({ title: TITLES[title] ?? title, labels: curves.map((each) => each.label), tables: curves.map((each) => [each.steps, each.values]), rungs: curves.map((each) => each.rungs ?? []), note }));
  const element = document.querySelector("#compared");
  drawSeveral(element, drawn, { height: 200, looked: true });
  element.dataset.rungs = drawn.flatMap((each) => each.rungs.flat()).length;
}

function onBest({ charts }) {
  const drawn = charts.map(({ title, by, x, values, best, log }) => ({ title, x: by, steps: true, log, labels: ["value", "best"], tables: [[x, values, best]] }));
  drawSeveral(document.querySelector("#best"), drawn);
}

new ResizeObserver(() => {
  for (const [element, { plots }] of several) {
    for (const each of plots) each.setSize({ width: Math.max(element.clientWidth, 100), height: each.height });
  }
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { again } of [...several.values()]) again();
});

for (const input of document.querySelectorAll("[data-curve]")) {
  input.addEventListener("change", () => {
    looks[input.dataset.curve] = input.checked;
    if (points.steps.length) draw();
    for (const { again, looked } of [...several.values()]) if (looked) again();
  });
}
if (box) {
  new ResizeObserver(() => {
    plot?.setSize({ width: curveWidth(), height: 240 });
  }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (plot) draw();
  });
}

// --- data from the server
const CHARTS = { curve: onCurve, measures: onMeasures, usage: onUsage, compared: onCompared, best: onBest };
for (const [name, draws] of Object.entries(CHARTS)) {
  document.querySelector("#live")?.addEventListener(name, (event) => draws(JSON.parse(event.detail.data)));
}
