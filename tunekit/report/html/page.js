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
  startButtons();
  startPrint();
  startCharts();
}

function byId(id) {
  return document.getElementById(id);
}

/* --- packed data ------------------------------------------------------------------------ */

function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/* --- charts ----------------------------------------------------------------------------- */

function inColours(value, dark) {
  if (typeof value === "string") return (dark && charts.darkOf.get(value)) || value;
  if (Array.isArray(value)) return value.map((one) => inColours(one, dark));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inColours(one, dark)]));
}

function startCharts() {
  if (!places.length) return;
  prefersDark.addEventListener("change", () => wanted.forEach(draw));
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
  const figure = inColours(charts.figures[place.dataset.chart], prefersDark.matches && !isPrinting);
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
  addEventListener("beforeprint", () => turnPrint(true));
  addEventListener("afterprint", () => turnPrint(false));
  matchMedia("print").addEventListener("change", (event) => turnPrint(event.matches));
}

function turnPrint(isStarted) {
  if (isPrinting === isStarted) return;
  isPrinting = isStarted;
  if (isStarted) opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((one) => { one.open = isStarted; });
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
  const copied = navigator.clipboard.writeText(source.textContent);
  button.textContent = await copied.then(() => "Copied", () => select(source));
  byId("copy-status").textContent = button.textContent;
  setTimeout(() => { button.textContent = "Copy"; }, 4000);
}

function select(element) {
  getSelection().selectAllChildren(element);
  return "Selected: press Ctrl+C";
}

async function downloadRun() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await unpacked("raw-packed").blob());
  link.download = byId("download").dataset.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
