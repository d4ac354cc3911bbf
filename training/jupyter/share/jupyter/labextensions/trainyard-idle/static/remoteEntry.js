// The page's part of training/jupyter/packages/trainyard_idle: a banner with the remaining minutes, and one button.
//
// A module-federation container, the form in which JupyterLab loads prebuilt extensions. It is written by hand, shares
// nothing, and has one module, so it needs no build step. JupyterLab looks for containers in `_JUPYTERLAB`.
"use strict";
(() => {
  const LOOK_MILLISECONDS = 10000;
  const COMMAND = "trainyard:keep";
  const KEYS = "Accel Alt K";
  const ID = "trainyard-idle";

  const config = () => JSON.parse(document.getElementById("jupyter-config-data").textContent);

  // Authenticate like JupyterLab itself: by the page's token if it has one, otherwise by its cookie.
  async function ask(method, path) {
    const { baseUrl, token } = config();
    const headers = { "Content-Type": "application/json" };
    if (token) headers.Authorization = `token ${token}`;
    const cookie = document.cookie.match("\\b_xsrf=([^;]*)");
    if (cookie) headers["X-XSRFToken"] = cookie[1];
    const answer = await fetch(`${baseUrl}trainyard/${path}`, { method, headers, cache: "no-store" });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.message);
    return body;
  }

  function timeLeft(seconds) {
    if (seconds < 30) return "within the next minutes";
    return `in about ${Math.max(1, Math.round(seconds / 60))} min`;
  }

  // The banner covers the page's lower edge, so that the text under the cursor does not move.
  function banner(keep) {
    const box = document.createElement("div");
    box.id = ID;
    box.setAttribute("role", "alert");
    Object.assign(box.style, {
      position: "fixed", bottom: "32px", left: "0", right: "0", margin: "0 auto", width: "max-content",
      maxWidth: "90%", boxSizing: "border-box", zIndex: "10000", display: "none", gap: "12px", alignItems: "center",
      padding: "10px 16px", borderRadius: "4px",
      font: "var(--jp-ui-font-size1, 13px) var(--jp-ui-font-family, sans-serif)",
      color: "var(--jp-ui-font-color0, black)", background: "var(--jp-layout-color1, white)",
      border: "2px solid var(--jp-warn-color0, #b35900)", boxShadow: "0 2px 8px rgba(0, 0, 0, 0.4)",
    });
    const text = document.createElement("span");
    const button = document.createElement("button");
    button.textContent = "Keep 2 h";
    button.title = "Ctrl (or Command) Alt K";
    button.className = "jp-mod-styled jp-mod-warn";
    button.style.flex = "none";
    button.addEventListener("click", keep);
    box.append(text, button);
    document.body.append(box);
    return { box, text, button };
  }

  function activate(app) {
    let isHolding = false;
    let shown = null;
    let trouble = "";

    const view = banner(() => app.commands.execute(COMMAND));

    function show(seconds) {
      shown = seconds;
      view.box.style.display = seconds === null ? "none" : "flex";
      if (seconds === null) return;
      view.text.textContent = trouble ||
        `This dev host is not in use and will be stopped ${timeLeft(seconds)}. Its disk stays. Run a cell, or keep it.`;
      view.button.disabled = isHolding;
    }

    async function look() {
      if (isHolding) return;
      let answer;
      try {
        answer = await ask("GET", "idle");
      } catch (error) {
        console.warn(`trainyard: cannot find out if this host is idle: ${error.message}`);
        return;
      }
      if (answer.left === null) trouble = "";
      if (!isHolding) show(answer.left);
    }

    async function keep() {
      isHolding = true;
      trouble = "Keeping this dev host for 2 h ...";
      show(shown ?? 0);
      try {
        await ask("POST", "hold");
        shown = null;
        trouble = "";
      } catch (error) {
        trouble = `The host is not kept: ${error.message}. In a terminal, type: trainyard hold 2h`;
      }
      isHolding = false;
      show(shown);
    }

    app.commands.addCommand(COMMAND, { label: "Keep this dev host for 2 h", execute: keep });
    app.commands.addKeyBinding({ command: COMMAND, keys: [KEYS], selector: "body" });
    look();
    setInterval(look, LOOK_MILLISECONDS);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  }

  const plugin = { id: "trainyard-idle:plugin", description: "Warns before this host is stopped as idle.", autoStart: true, activate };
  const module = { __esModule: true, default: plugin };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["trainyard-idle"] = {
    init: () => {},
    get: async (name) => {
      if (name !== "./extension") throw new Error(`trainyard-idle has no module ${name}`);
      return () => module;
    },
  };
})();
