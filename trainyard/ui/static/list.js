// The list of runs: its filter, order, columns and groups are in the address, and the server answers with the rows.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const KEPT = ["column", "group", "sort"]; // in localStorage too: enter.js opens the list with them
const TYPING = 120; // milliseconds

const form = $('[data-filter="server"]');
const view = new URLSearchParams(location.search);

// The events of another view come by another connection. The old one is closed first: a browser allows six.
function connect() {
  const old = $("#live");
  const live = old.cloneNode(false);
  for (const name of live.getAttributeNames()) if (name.startsWith("data-htmx")) live.removeAttribute(name);
  live.setAttribute("hx-sse:connect", `/events?${view}`);
  const connection = old._htmx?.sse;
  old.replaceWith(live);
  connection?.reader?.cancel();
  connection?.abortController?.abort();
  window.htmx.process(live);
}

function set(name, values) {
  view.delete(name);
  for (const value of [values].flat()) if (value) view.append(name, value);
}

function want(changes) {
  for (const [name, values] of Object.entries(changes)) set(name, values);
  history.replaceState(history.state, "", view.size ? `?${view}` : location.pathname);
  const kept = new URLSearchParams([...view].filter(([name]) => KEPT.includes(name)));
  if (kept.size) localStorage.setItem("trainyard-columns", String(kept));
  else localStorage.removeItem("trainyard-columns");
  connect();
}

function showCounts() {
  const counts = JSON.parse($("[data-counts]")?.dataset.counts ?? "{}");
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  for (const button of $$("button[data-state]", form)) {
    button.setAttribute("aria-pressed", String(button.dataset.state === (view.get("state") ?? "")));
    $("output", button).textContent = String(button.dataset.state ? counts[button.dataset.state] ?? 0 : all);
  }
}

function toggleGroup(button) {
  const key = button.dataset.group;
  const opens = button.ariaExpanded !== "true";
  const without = (name) => view.getAll(name).filter((each) => each !== key);
  button.ariaExpanded = String(opens);
  want({ open: opens ? [...without("open"), key] : without("open"), closed: opens ? without("closed") : [...without("closed"), key] });
}

function toggleSort(column) {
  const first = column === "run" ? column : `-${column}`;
  const second = column === "run" ? `-${column}` : column;
  want({ sort: { [first]: second, [second]: "" }[view.get("sort") ?? ""] ?? first });
}

function chooseColumns() {
  const chosen = new Set($$("[data-column]:checked").map((input) => input.value));
  const shown = $$("th[data-name]").map((head) => head.dataset.name).filter((name) => chosen.has(name)); // their order stays
  want({ column: [...new Set([...shown, ...chosen])] });
}

if (form) {
  let typing;
  form.q.value = view.get("q") ?? "";
  form.addEventListener("submit", (event) => event.preventDefault());
  form.q.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => want({ q: form.q.value, most: "" }), TYPING);
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const { state, sort, group, more } = button.dataset;
    if (state !== undefined) want({ state, most: "" });
    else if (sort) toggleSort(sort);
    else if (group !== undefined) toggleGroup(button);
    else if (more) want({ most: more });
    else if ("choose" in button.dataset) $("#columns").showModal();
    else if ("reset" in button.dataset) want({ column: [] });
    else if ("clear" in button.dataset) {
      form.q.value = "";
      want({ q: "", state: "" });
    }
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-column]")) chooseColumns();
    else if (target.matches("[data-group-by]")) want({ group: target.value, open: [], closed: [], most: "" });
  });
  $("[data-find-column]").addEventListener("input", ({ target }) => {
    for (const label of $$("[data-column-name]")) label.hidden = !label.dataset.columnName.includes(target.value.toLowerCase());
  });
  document.addEventListener("htmx:after:swap", showCounts);
  showCounts();
}
