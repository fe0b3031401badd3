"use strict";
const PRINTED_PX = 670;
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const wanted = new Set();
let charts = { darkOf: new Map(), figures: {} };
let places = [];
let opened = [];
let isPrinting = false;

root.classList.add("js");
document.addEventListener("DOMContentLoaded", start);

function start() {
  const { darkOf, figures } = JSON.parse(byId("charts-data").textContent);
  charts = { darkOf: new Map(Object.entries(darkOf)), figures };
  places = [...document.querySelectorAll(".plot")];
  startColours();
  startButtons();
  startPrint();
  startCharts();
}

function byId(id) {
  return document.getElementById(id);
}

function tell(id, text) {
  byId(id).textContent = text;
}

/* --- packed data ------------------------------------------------------------------------ */

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

/* --- colours ---------------------------------------------------------------------------- */

function startColours() {
  byId("theme").addEventListener("click", switchTheme);
  prefersDark.addEventListener("change", colourPage);
  colourPage();
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
}

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  colourPage();
}

function colourPage() {
  tell("theme", isDark() ? "Light colours" : "Dark colours");
  places.filter((place) => place.dataset.drawn).forEach(draw);
}

function inColours(value, dark) {
  if (typeof value === "string") return (dark && charts.darkOf.get(value)) || value;
  if (Array.isArray(value)) return value.map((one) => inColours(one, dark));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inColours(one, dark)]));
}

/* --- charts ----------------------------------------------------------------------------- */

function startCharts() {
  if (!places.length) return;
  drawWhenSeen();
  loadPlotly().catch(withoutDrawings);
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

async function loadPlotly() {
  const script = document.createElement("script");
  script.textContent = await unpacked("plotly-packed").text();
  document.head.append(script);
  if (!window.Plotly) throw new Error("plotly.js did not run");
  wanted.forEach(draw);
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

function layoutOf(figure) {
  const layout = { ...figure.layout, dragmode: false, autosize: true };
  Object.keys(layout)
    .filter((name) => /^[xy]axis\d*$/.test(name))
    .forEach((name) => { layout[name] = { ...layout[name], fixedrange: true }; });
  if (isPrinting) Object.assign(layout, { width: PRINTED_PX, autosize: false });
  return layout;
}

function withoutDrawings() {
  document.querySelector(".undrawn").hidden = false;
  places.forEach((place) => {
    place.hidden = true;
    place.closest("figure").querySelector("details").open = true;
  });
}

/* --- print ------------------------------------------------------------------------------ */

function startPrint() {
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));
}

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

/* --- buttons ---------------------------------------------------------------------------- */

function startButtons() {
  document.querySelectorAll("button[data-copies]").forEach((button) => {
    button.addEventListener("click", () => copyText(button));
  });
  if (byId("download")) byId("download").addEventListener("click", downloadRun);
}

async function copyText(button) {
  const source = byId(button.dataset.copies);
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    selectText(source);
    isCopied = document.execCommand("copy");
  }
  button.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C";
  tell("copy-status", button.textContent);
  setTimeout(() => { button.textContent = "Copy"; }, 4000);
}

function selectText(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

async function downloadRun() {
  const isUnpacked = "DecompressionStream" in window;
  const blob = isUnpacked ? await unpacked("raw-packed").blob() : new Blob([bytesOf("raw-packed")]);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  const name = byId("download").dataset.name;
  link.download = isUnpacked ? name : `${name}.gz`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  tell("download-status", `${link.download} was made`);
}
