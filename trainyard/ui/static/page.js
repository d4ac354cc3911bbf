// What the page does by itself: filter, keys, ages, log, dialogs (charts.js draws the charts). Everything it shows comes from the server;
// htmx swaps the parts that have changed, and gives the rest here as events.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// --- times: the server says moments, the browser how long ago they were
const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];

function span(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  for (const [size, unit, below, smaller] of UNITS) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / below);
    return `${Math.floor(whole / size)}${unit}${rest ? ` ${rest}${smaller}` : ""}`;
  }
  return `${whole}s`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tellTimes() {
  const now = Date.now();
  for (const time of $$("time[data-ago]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const coarse = seconds >= 600 ? seconds - (seconds % (seconds >= 86400 ? 3600 : 60)) : seconds;
    write(time, seconds < 2 ? "now" : `${span(coarse)} ago`);
  }
  for (const time of $$("time[data-since]")) write(time, span((now - Date.parse(time.dateTime)) / 1000));
  for (const time of $$("time[data-until]")) {
    const seconds = (Date.parse(time.dateTime) - now) / 1000;
    write(time, seconds > 0 ? `for ${span(seconds)} more` : "until a moment ago");
  }
  for (const time of $$("time[data-ahead]")) {
    const seconds = (Date.parse(time.dateTime) - now) / 1000;
    const coarse = seconds >= 600 ? seconds - (seconds % (seconds >= 86400 ? 3600 : 60)) : seconds;
    write(time, seconds > 0 ? `in ${span(coarse)}` : "now");
  }
  for (const time of $$("time[data-clock]")) {
    const [day, clock] = time.dateTime.slice(0, 19).split("T"); // UTC, as in logs, reasons and the command
    write(time, new Date(now).toISOString().startsWith(day) ? clock : `${day.slice(5)} ${clock}`);
  }
}

// --- the filter: in the address, so that a page that is loaded again shows the same
const form = $("[data-filter]");
const isServers = form?.dataset.filter === "server"; // the list of runs: list.js
const asked = new URLSearchParams(location.search);
const wanted = { q: asked.get("q") ?? "", state: asked.get("state") ?? "", sort: asked.get("sort") ?? "" };

// --- sorting by a column: in the address too. A second click turns the order, a third one restores the yard's.
const valueOf = (cell) => {
  const text = $("time", cell)?.dateTime ?? cell.textContent.trim();
  const number = parseFloat(text.replace(/[$,]/g, ""));
  return $("time", cell) || Number.isNaN(number) ? text.toLowerCase() : number;
};

function compare(one, other) {
  if ((one === "") !== (other === "")) return one === "" ? 1 : -1; // rows without a value come last
  const [a, b] = typeof one === typeof other ? [one, other] : [String(one), String(other)];
  return a < b ? -1 : a > b ? 1 : 0;
}

function sortRows(list) {
  const at = Number(wanted.sort.replace("-", ""));
  for (const [column, head] of $$("thead th", list).entries()) {
    head.ariaSort = wanted.sort === "" || column !== at ? null : wanted.sort.startsWith("-") ? "descending" : "ascending";
  }
  if (wanted.sort === "") return;
  const sign = wanted.sort.startsWith("-") ? -1 : 1;
  const all = $$("tr[data-row]", list).map((row) => [valueOf(row.cells[at]), row]);
  const sorted = [...all].sort(([one], [other]) => (one === "" || other === "" ? compare(one, other) : sign * compare(one, other)));
  if (sorted.some(([, row], index) => row !== all[index][1])) sorted[0][1].parentElement.append(...sorted.map(([, row]) => row));
}

function showWanted() {
  const list = $("[data-rows]");
  if (!list || !form || isServers) return;
  const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = {};
  let shown = 0;
  for (const row of $$("tr[data-row]", list)) {
    const text = row.dataset.text.toLowerCase();
    const fits = words.every((word) => text.includes(word));
    if (fits) counts[row.dataset.state] = (counts[row.dataset.state] ?? 0) + 1;
    row.hidden = !(fits && (!wanted.state || row.dataset.state === wanted.state));
    shown += !row.hidden;
  }
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  for (const button of $$("button[data-state]", form)) {
    button.setAttribute("aria-pressed", String(button.dataset.state === wanted.state));
    write($("output", button), String(button.dataset.state ? counts[button.dataset.state] ?? 0 : all));
  }
  sortRows(list);
  const none = $("[data-none]");
  if (none) none.hidden = shown > 0 || !$("tr[data-row]", list);
}

function want(change) {
  Object.assign(wanted, change);
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
  history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
  showWanted();
}

if (form && !isServers) {
  form.q.value = wanted.q;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.q.addEventListener("input", () => want({ q: form.q.value }));
  for (const button of $$("button[data-state]", form)) {
    button.addEventListener("click", () => want({ state: button.dataset.state }));
  }
  for (const [column, head] of $$("[data-rows] thead th").entries()) {
    head.addEventListener("click", () => {
      const next = { "": `-${column}`, [`-${column}`]: `${column}`, [`${column}`]: "" };
      want({ sort: next[wanted.sort] ?? `-${column}` });
      if (wanted.sort === "") location.reload();
    });
  }
  $("[data-clear]")?.addEventListener("click", () => {
    form.q.value = "";
    want({ q: "", state: "" });
  });
}

// --- runs to compare: picked rows, which a swap of the list must not forget
const picked = new Set();

function showPicked() {
  for (const input of $$("[data-pick]")) input.checked = picked.has(input.value);
  const go = $("[data-compare]");
  if (!go) return;
  go.hidden = picked.size < 2;
  const around = $("[data-picked]");
  around.hidden = picked.size === 0;
  go.href = `/compare?runs=${[...picked].join(",")}`;
  write($("output", go), String(picked.size));
}

document.addEventListener("change", (event) => {
  const input = event.target.closest("[data-pick]");
  if (!input) return;
  if (input.checked) picked.add(input.value);
  else picked.delete(input.value);
  showPicked();
});

$("[data-unpick]")?.addEventListener("click", () => {
  picked.clear();
  showPicked();
});

// --- keys
let chosen = "";
let before = "";
const PLACES = { r: "/", h: "/hosts", m: "/money", i: "/images", t: "/studies", s: "/schedules", v: "/models" };

const rows = () => $$("tr[data-row]").filter((row) => !row.hidden);

function choose(step) {
  const there = rows();
  if (!there.length) return;
  const at = there.findIndex((row) => row.id === chosen);
  const next = at < 0 ? (step > 0 ? 0 : there.length - 1) : Math.min(Math.max(at + step, 0), there.length - 1);
  chosen = there[next].id;
  showChosen();
  there[next].scrollIntoView({ block: "nearest" });
}

function showChosen() {
  for (const row of $$("tr[data-row]")) {
    row.classList.toggle("on", row.id === chosen);
    row.ariaCurrent = row.id === chosen ? "true" : null;
  }
}

const DEEDS = {
  "/": () => ($("[data-filter] input") ?? $("#log-text"))?.focus(),
  "?": () => $("#keys").showModal(),
  j: () => choose(1),
  k: () => choose(-1),
  u: () => $("[data-up]")?.click(),
  Enter: () => $(".on a")?.click(),
  c: () => $("[data-choose]")?.click(),
  x: () => $(".on [data-pick]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button")) return;
  const after = before;
  before = "";
  if (after === "g" && event.key === "l") $("#log-card")?.scrollIntoView();
  else if (after === "g" && PLACES[event.key]) location.assign(PLACES[event.key]);
  else if (event.key === "g") before = "g";
  else if (DEEDS[event.key]) DEEDS[event.key]();
  else return;
  event.preventDefault();
});
$("[data-help]")?.addEventListener("click", DEEDS["?"]);

document.addEventListener("click", async (event) => {
  const download = event.target.closest("a[download]");
  if (!download) return;
  event.preventDefault(); // a download sends no header with the token: it takes a ticket that is good once
  const path = new URL(download.href).pathname;
  const answer = await fetch(`/ticket?path=${encodeURIComponent(decodeURIComponent(path))}`, { method: "POST" });
  if (answer.ok) location.assign(`${path}?ticket=${await answer.text()}`);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
  const row = event.target.closest("tr[data-row]");
  if (row && !event.target.closest("a, button, input") && !String(getSelection())) {
    chosen = row.id;
    showChosen();
    $("a", row)?.click();
  }
});

// --- the log
const log = $("#log");
const MOST_LINES = 5000;
const ask = { host: "", text: "", follow: true };

function fits(line) {
  return (!ask.host || line.dataset.host === ask.host) && (!ask.text || line.textContent.toLowerCase().includes(ask.text));
}

function logLine([at, host, attempt, text]) {
  const line = document.createElement("div");
  const time = document.createElement("time");
  const who = document.createElement("b");
  time.dateTime = at;
  time.textContent = at.slice(11, 19);
  who.textContent = attempt > 1 ? `${host}/${attempt}` : host;
  line.dataset.host = host;
  line.append(time, who, text);
  line.hidden = !fits(line);
  return line;
}

function onLog({ whole, lines }) {
  if (whole) log.replaceChildren();
  $(".empty", log)?.remove();
  if (!lines.length && !log.childElementCount) {
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = "No output.";
    log.append(empty);
    return;
  }
  log.append(...lines.map(logLine));
  const excess = log.childElementCount - MOST_LINES;
  for (let count = 0; count < excess; count += 1) log.firstElementChild.remove();
  const hosts = $("#log-host");
  const known = new Set($$("option", hosts).map((option) => option.value));
  for (const host of [...new Set(lines.map((line) => line[1]))].sort()) {
    if (!known.has(host)) hosts.append(new Option(host, host));
  }
  if (ask.follow) log.scrollTop = log.scrollHeight;
}

if (log) {
  const follow = $('[data-log="follow"]');
  for (const input of $$("[data-log]")) {
    input.addEventListener("input", () => {
      ask[input.dataset.log] = input.type === "checkbox" ? input.checked : input.value.toLowerCase();
      for (const line of $$("div", log)) line.hidden = !fits(line);
      if (ask.follow) log.scrollTop = log.scrollHeight;
    });
  }
  // Who scrolls up wants to read; who comes back to the end wants what comes.
  for (const deed of ["wheel", "touchmove", "keyup"]) {
    log.addEventListener(deed, () => {
      ask.follow = follow.checked = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    }, { passive: true });
  }
}

// --- what comes from the server
$("#live")?.addEventListener("log", (event) => onLog(JSON.parse(event.detail.data)));

function onLine(text) {
  write($("#line"), text);
}

// What is shown may be over while the server does not answer: it is dimmed until the server has sent it again.
const stale = (is) => document.body.classList.toggle("stale", is);
document.addEventListener("htmx:sse:after:connection", () => {
  onLine("");
  stale(false);
});
document.addEventListener("htmx:sse:error", (event) => {
  stale(true);
  onLine(
    event.detail.status === 403
      ? "This address is of an earlier `trainyard ui`: open the one that it has printed last"
      : "`trainyard ui` does not answer: start it again",
  );
});
document.addEventListener("htmx:after:swap", () => {
  for (const rest of $$("[data-known-by]")) rest.hidden = !$(rest.dataset.knownBy).childElementCount; // no rule with :has(), which costs time at each change
  tellTimes();
  showWanted();
  showChosen();
  showPicked();
  const dialog = $("#dialog");
  if (dialog.childElementCount && !dialog.open) dialog.showModal();
});
const section = $(".top [aria-current]"); // on a narrow screen it may lie beyond the edge
if (section) section.parentElement.scrollLeft = section.offsetLeft - section.parentElement.offsetLeft - 20;
$("#dialog").addEventListener("close", (event) => event.target.replaceChildren());

tellTimes();
showWanted();
// A computer that slept may keep a connection that brings nothing more: the page is loaded again.
const ASLEEP = 90_000; // milliseconds; a browser calls a tab in the background once a minute
let ticked = Date.now();
setInterval(() => {
  const slept = Date.now() - ticked > ASLEEP;
  if (slept && $("dialog[open]")) return;
  if (slept) location.reload();
  ticked = Date.now();
  tellTimes();
}, 1000);
