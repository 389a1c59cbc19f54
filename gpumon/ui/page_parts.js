// What the page is made of: words, figures, elements, charts, meters. Names are written as text, never as markup.
// WORDS, URGENCY, IN_TROUBLE and STATES stand before this file (ui/page.py), page.js after it.

const FULL = 0.8; // saturation at which a link counts as full: CONTRACT's saturated seconds
const NAME_LENGTH = 60;
const LIGHT_TEXT = new Set(["memory", "hung", "idle"]); // colours on which white reads better than black
const byId = (id) => document.getElementById(id);
let language = "en";

// --- words and figures

function word(key, ...values) {
  return WORDS[language].page[key].replace(/\{(\d?)\}/g, (_, at) => (at ? values[Number(at)] : values.shift()));
}
const known = (value) => value !== null && value !== undefined;
const percent = (ratio) => (known(ratio) ? `${Math.round(ratio * 100)} %` : "–");
const gigabytes = (rate) => (known(rate) ? (rate / 1e9).toFixed(1) : "–");
const gibibytes = (bytes) => (known(bytes) ? (bytes / 2 ** 30).toFixed(1) : "–");
const watts = (power) => (known(power) ? Math.round(power).toString() : "–");

function duration(seconds) {
  if (seconds < 90) return word("seconds", Math.round(seconds));
  if (seconds < 5400) return word("minutes", Math.round(seconds / 60));
  if (seconds < 129600) return word("hours", Math.round(seconds / 3600));
  return word("days", Math.round(seconds / 86400));
}

function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length; i += 1) {
    const start = sorted[i];
    while (sorted[i + 1] === sorted[i] + 1) i += 1;
    parts.push(sorted[i] === start ? `${start}` : `${start}–${sorted[i]}`);
  }
  return parts.join(", ");
}

function short(name) {
  const characters = Array.from(name);
  return characters.length > NAME_LENGTH ? `${characters.slice(0, NAME_LENGTH).join("")}…` : name;
}

// --- elements

function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replace the children only when what they show has changed, so that focus, selection and readers are left alone. */
function fill(element, what, build) {
  const key = language + JSON.stringify(what);
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...build());
}

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function colour(element, kind, name) {
  element.style.setProperty("--colour", `var(--${kind}-${name})`);
  return element;
}

function chip(name, text, extra = "") {
  return colour(make("span", `chip ${extra} ${LIGHT_TEXT.has(name) ? "light" : ""}`, text), "class", name);
}

const bold = (text) => make("b", "", text);

// --- charts

/** Stacked shares over time; a moment that could not be judged stays empty. */
function areaChart(recent) {
  const count = recent.class.length;
  const svg = drawn("svg", { class: "area", viewBox: `0 0 ${Math.max(count - 1, 1)} 1`, preserveAspectRatio: "none" });
  const below = new Array(count).fill(0);
  for (const state of STATES) { // work at the bottom, waiting above
    const shares = recent.time_ratio[state];
    let path = "";
    let run = [];
    const close = () => {
      if (run.length > 1) {
        const top = run.map((i) => `${i},${1 - below[i] - shares[i]}`);
        const bottom = run.map((i) => `${i},${1 - below[i]}`).reverse();
        path += `M${[...top, ...bottom].join("L")}Z`;
      }
      run = [];
    };
    for (let i = 0; i < count; i += 1) {
      if (known(shares[i])) run.push(i);
      else close();
    }
    close();
    for (let i = 0; i < count; i += 1) below[i] += shares[i] || 0;
    const piece = drawn("path", { d: path });
    piece.style.fill = `var(--state-${state})`;
    svg.append(piece);
  }
  return svg;
}

function sparkLine(series) {
  const svg = drawn("svg", { class: "spark", viewBox: "0 0 89 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [name, className] of [["tx_saturation_ratio", "out"], ["rx_saturation_ratio", "in"]]) {
    const points = series[name];
    const first = 90 - points.length;
    let path = "";
    points.forEach((value, i) => {
      if (!known(value)) return;
      path += `${known(points[i - 1]) ? "L" : "M"}${first + i},${1 - Math.min(value, 1) * 0.96}`;
    });
    svg.append(drawn("path", { d: path, class: className }));
  }
  return svg;
}

// --- meters

function meter() {
  const label = make("span");
  const peak = make("span", "peak");
  const bar = make("span", "fill");
  const track = make("span", "track", bar, peak);
  const figure = make("span", "figure");
  const element = make("div", "meter", label, track, figure);
  return { element, label, bar, peak, figure };
}

function showMeter(view, label, ratio, peakRatio, figure) {
  write(view.label, label);
  view.bar.style.width = `${Math.min(ratio || 0, 1) * 100}%`;
  view.peak.hidden = !known(peakRatio);
  view.peak.style.left = `calc(${Math.min(peakRatio || 0, 1) * 100}% - 2px)`;
  const full = known(ratio) && ratio >= FULL;
  view.element.classList.toggle("full", full);
  const text = full ? `${figure[0]} ${word("full")}` : figure[0];
  fill(view.figure, [text, figure[1]], () => [bold(text), ` ${figure[1]}`]);
}
