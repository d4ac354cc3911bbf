// How curves look: axes, numbers, smoothing, and points that are not finite. charts.js draws them.

export const looks = { by: "steps", log: false, smooth: false, find: "" };
const WEIGHT = 0.9;
export const FEW_POINTS = 60; // each of them has a mark; a longer curve is a line
export const COLUMNS = ["steps", "values", "times", "epochs"];
export const COLOURS = ["--accent", "--link", "--warn", "--bad", "--good", "--start"];
const TITLES = { loss: "Loss", accuracy: "Accuracy", steps_per_second: "Steps a second" };
const AXES = { steps: "step", times: "time", epochs: "epoch" };

// Colours and widths are kept: to read them while charts are added makes the browser style and lay out the page again.
export const colours = new Map();
export const colour = (name) => {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
};
const short = (name) => (name.length > 60 ? `${name.slice(0, 59)}…` : name);
export const titleOf = (name) => TITLES[name] ?? short(name);
export const number = (value) => (value == null ? "–" : value.toPrecision(4));
export const clock = (seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(11, 16)); // UTC
const dayAndClock = (seconds) => new Date(seconds * 1000).toISOString().slice(5, 16).replace("T", " ");
const hours = (seconds) => (seconds == null ? "–" : `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`);

const INTERVALS = [1, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((minutes) => 60 * minutes), ...[1, 2, 4, 6, 12, 24, 48, 168].map((each) => 3600 * each)];

function tick(value) {
  if (value == null) return "";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(1) : value.toLocaleString("en", { maximumSignificantDigits: 5 });
}

export function axes() {
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--soft"), width: 1 }, ticks: { stroke: colour("--edge") } };
  return [{ ...axis, size: 34 }, { ...axis, size: 62, values: (_, values) => values.map(tick) }];
}
export const timeAxis = ([x, y]) => [{ ...x, space: 90, values: (_, times) => times.map(times.at(-1) - times[0] > 86400 ? dayAndClock : clock) }, y];
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
export function tableOf(curve) {
  const by = curve[looks.by] ?? curve.steps;
  const start = looks.by === "times" ? (by.find((at) => at != null) ?? 0) : 0;
  const rows = by.map((x, at) => [x == null ? null : x - start, curve.values[at]]).filter(([x]) => x !== null);
  rows.sort(([one], [other]) => one - other);
  const finite = rows.map(([, value]) => (typeof value === "number" && !(looks.log && value <= 0) ? value : null)); // a log axis has only positive values
  return [rows.map(([x]) => x), looks.smooth ? smoothed(finite) : finite];
}

// Return the points of a curve that have no place on the y axis.
const oddOf = (curve) => curve.values.flatMap((value, at) => (typeof value === "string" ? [[at, value]] : []));

export function describeOdd(curve) {
  const odd = oddOf(curve);
  if (!odd.length) return "";
  const words = [...new Set(odd.map(([, text]) => (text === "NaN" ? "NaN (×)" : text === "Infinity" ? "infinity (▲)" : "−infinity (▼)")))].join(", ");
  return `${words} at ${odd.length === 1 ? "one point" : `${odd.length} points`}, first at step ${curve.steps[odd[0][0]]}`;
}

// NaN is a cross at the lower edge; infinity is a triangle at the edge towards which it lies.
export function drawOdd(plot, curve) {
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

export const scales = () => ({ x: { time: false }, ...(looks.log && { y: { distr: 3 } }) });
export const looked = () => (looks.by === "times" ? hoursAxis(axes()) : axes());
export const xSeries = () => ({ label: AXES[looks.by], value: (_, at) => (looks.by === "times" ? hours(at) : (at ?? "–")) });
