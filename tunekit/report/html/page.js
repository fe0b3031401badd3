"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  /* --- packed data ---------------------------------------------------------------------- */

  function bytesOf(id) {
    const letters = atob(byId(id).textContent.trim());
    const bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
    return bytes;
  }

  function unpacked(id) {
    const stream = new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream);
  }

  /* --- colours -------------------------------------------------------------------------- */

  const charts = JSON.parse(byId("charts-data").textContent);
  const darkOf = new Map(Object.entries(charts.darkOf));
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  let isPrinting = false;

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  function inColours(value, dark) {
    if (typeof value === "string") return (dark && darkOf.get(value)) || value;
    if (Array.isArray(value)) return value.map((one) => inColours(one, dark));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inColours(one, dark)]));
  }

  function colourPage() {
    tell("theme", isDark() ? "Light colours" : "Dark colours");
    places.filter((place) => place.dataset.drawn).forEach(draw);
  }

  /* --- charts --------------------------------------------------------------------------- */

  const PRINTED_PX = 670;
  const places = [...document.querySelectorAll(".plot")];
  const wanted = new Set();

  function layoutOf(figure) {
    const layout = { ...figure.layout, dragmode: false, autosize: true };
    Object.keys(layout)
      .filter((name) => /^[xy]axis\d*$/.test(name))
      .forEach((name) => { layout[name] = { ...layout[name], fixedrange: true }; });
    if (isPrinting) Object.assign(layout, { width: PRINTED_PX, autosize: false });
    return layout;
  }

  function draw(place) {
    wanted.add(place);
    if (!window.Plotly) return;
    const figure = inColours(charts.figures[place.dataset.chart], isDark() && !isPrinting);
    window.Plotly.react(place, figure.data, layoutOf(figure), {
      displayModeBar: false,
      doubleClick: false,
      responsive: true,
      showTips: false,
    });
    place.dataset.drawn = "true";
  }

  async function loadPlotly() {
    const script = document.createElement("script");
    script.textContent = await unpacked("plotly-packed").text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly.js did not run");
    wanted.forEach(draw);
  }

  function withoutDrawings() {
    document.querySelector(".undrawn").hidden = false;
    places.forEach((place) => {
      place.hidden = true;
      place.closest("figure").querySelector("details").open = true;
    });
  }

  function drawWhenSeen() {
    const seen = new IntersectionObserver((entries) => {
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
        seen.unobserve(entry.target);
        draw(entry.target);
      });
    }, { rootMargin: "400px" });
    places.forEach((place) => {
      place.style.height = `${charts.figures[place.dataset.chart].layout.height}px`;
      seen.observe(place);
    });
  }

  /* --- print ---------------------------------------------------------------------------- */

  let opened = [];

  function beforePrint() {
    if (isPrinting) return;
    isPrinting = true;
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
    places.forEach(draw);
  }

  function afterPrint() {
    if (!isPrinting) return;
    isPrinting = false;
    opened.forEach((one) => { one.open = false; });
    places.forEach(draw);
  }

  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));

  /* --- trials --------------------------------------------------------------------------- */

  function makeSortable(table) {
    const ranks = JSON.parse(byId("trial-ranks").textContent);
    const rows = [...table.tBodies];
    const headers = [...table.tHead.rows[0].cells];

    function sortBy(column, direction) {
      const rank = ranks[column];
      const order = rows.map((_, place) => place).sort((one, other) => {
        if (rank[one] === rank[other]) return one - other;
        if (rank[one] === null) return 1;
        if (rank[other] === null) return -1;
        return direction * (rank[one] - rank[other]);
      });
      table.append(...order.map((place) => rows[place]));
    }

    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      header.setAttribute("aria-sort", column === 0 ? "ascending" : "none");
      button.addEventListener("click", () => {
        const isDown = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((one) => one.setAttribute("aria-sort", "none"));
        header.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        sortBy(column, isDown ? -1 : 1);
        tell("trial-status", `Sorted by ${button.textContent}, ${isDown ? "descending" : "ascending"}`);
      });
    });
  }

  function show(state) {
    [...byId("trial-table").tBodies].forEach((one) => {
      one.hidden = state !== "" && one.dataset.state !== state;
    });
    tell("trial-status", `Showing ${state || "all"} trials`);
  }

  function makeFilter(filter) {
    filter.addEventListener("change", (event) => show(event.target.value));
    document.querySelectorAll("a[data-shows]").forEach((link) => {
      link.addEventListener("click", () => {
        const choice = filter.querySelector(`input[value="${link.dataset.shows}"]`);
        if (!choice) return;
        choice.checked = true;
        show(choice.value);
      });
    });
  }

  /* --- buttons -------------------------------------------------------------------------- */

  function tell(id, text) {
    byId(id).textContent = text;
  }

  function selectText(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }

  async function copy(button) {
    const source = byId(button.dataset.copies);
    let isCopied = true;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      selectText(source);
      isCopied = document.execCommand("copy");
    }
    button.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 4000);
  }

  async function download() {
    const isUnpacked = "DecompressionStream" in window;
    const blob = isUnpacked ? await unpacked("raw-packed").blob() : new Blob([bytesOf("raw-packed")]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = isUnpacked ? "run.json" : "run.json.gz";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    tell("download-status", `${link.download} was made`);
  }

  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    colourPage();
  });
  prefersDark.addEventListener("change", colourPage);
  colourPage();
  document.querySelectorAll("button[data-copies]").forEach((button) => {
    button.addEventListener("click", () => copy(button));
  });
  if (byId("download")) byId("download").addEventListener("click", download);
  if (byId("trial-table")) {
    makeSortable(byId("trial-table"));
    if (byId("trial-filter")) makeFilter(byId("trial-filter"));
  }
  if (places.length) {
    drawWhenSeen();
    loadPlotly().catch(withoutDrawings);
  }
});
