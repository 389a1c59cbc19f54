// The live page. Asks for the state every two seconds and changes only what changed. page_parts.js stands before it.

const STATE_EVERY_MS = 2000;
const HISTORY_EVERY_MS = 30000;
const GIVE_UP_MS = 8000;
const OPEN_AT_FIRST = 4; // jobs in trouble that are unfolded without being asked
let latest = null; // newest state
let history = null; // newest recent past
let answeredAt = 0; // when the newest state came, by performance.now()
let trouble = ""; // why there is no fresh state
const unfolded = new Map(); // gpu_job -> what the reader chose
const jobViews = new Map();
const cardViews = new Map();

// --- what is said of a job

const lostCards = (job) => latest.gpus.filter((card) => !card.up && job.gpus.includes(card.gpu)).map((card) => card.gpu);

function headline(job) {
  if (job.gpus_lost > 0) return word("job_lost", word("gpus", ranges(lostCards(job)) || "?"));
  const sentences = WORDS[language].headlines;
  const sentence = sentences[`${job.class}.${job.detail}`] || sentences[job.class];
  if (job.stragglers.length === 0) return sentence;
  const waitedFor = ranges(job.stragglers);
  return job.detail === "straggler" ? word("stragglers", waitedFor) : word("waited_for", sentence, waitedFor);
}

const inWords = (item, key) => (language === "zh" && item[`${key}_zh`]) || item[key];
// A job that lost a card is shown as stuck, whatever its other cards do.
const look = (job) => (job.gpus_lost > 0 ? ["hung", word("lost")] : [job.class, WORDS[language].classes[job.class]]);
const inTrouble = (job) => IN_TROUBLE.includes(job.class) || job.gpus_lost > 0;
const urgency = (job) => (job.gpus_lost > 0 ? -1 : URGENCY.indexOf(job.class));

// --- jobs

function newJob(name) {
  const root = make("details", "job");
  root.id = `job-${name}`;
  const parts = {
    root, line: make("div", "line"), title: make("h3"), who: make("div", "who"), split: make("div", "split"),
    legend: make("ul", "legend"), advice: make("div", "advice"), why: make("div"), chart: make("div"),
    figures: make("p", "figures"),
  };
  parts.split.setAttribute("role", "img");
  parts.summary = make("summary", "", parts.line, parts.title, parts.who, parts.split, parts.legend);
  root.append(parts.summary, make("div", "body", parts.advice, parts.why, parts.chart, parts.figures));
  parts.summary.addEventListener("click", () => unfolded.set(name, !root.open));
  return parts;
}

function names(job) {
  const parts = [job.pod && job.namespace ? `${job.namespace}/${job.pod}` : job.pod, job.slurm_job_id, job.container, job.user];
  return parts.filter(Boolean).map(short);
}

function showJob(view, job, openByItself) {
  colour(view.root, "class", look(job)[0]);
  // The verdict of a job that lost a card is about the cards that are left: it does not explain the headline.
  const explained = job.gpus_lost === 0;
  const age = known(job.class_age_seconds) ? ` · ${word("since", duration(job.class_age_seconds))}` : "";
  fill(view.line, [look(job), job.gpus, job.tenant, percent(job.confidence), age], () => [
    chip(...look(job)),
    bold(word("gpus", ranges(job.gpus) || "–")),
    make("span", "who", `${word("tenant")} ${job.tenant}`),
    ...(explained ? [make("span", "aside", word("sure", percent(job.confidence)) + age)] : []),
  ]);
  write(view.title, headline(job));
  const who = [job.gpu_job, ...names(job)];
  fill(view.who, who, () => who.flatMap((name, i) => [...(i ? [" · "] : []), make("bdi", "", name)]));
  showSplit(view, job);
  showAdvice(view.advice, job);
  view.why.hidden = !explained || job.evidence.length === 0;
  fill(view.why, [job.evidence, job.against], () => [
    make("h4", "", word("why")),
    make("ul", "", ...job.evidence.map((sentence) => make("li", "", sentence))),
    ...(job.against ? [make("p", "quiet", word("against", job.against))] : []),
  ]);
  showJobChart(view.chart, job.gpu_job);
  showFigures(view.figures, job);
  const wanted = unfolded.has(job.gpu_job) ? unfolded.get(job.gpu_job) : openByItself;
  if (view.root.open !== wanted) view.root.open = wanted;
}

function showSplit(view, job) {
  const shares = job.time_ratio;
  view.split.hidden = !shares;
  if (!shares) {
    view.split.removeAttribute("aria-label");
    fill(view.legend, [], () => [make("span", "", word("time_unknown"))]);
    return;
  }
  const shown = STATES.filter((state) => shares[state] >= 0.005);
  const texts = shown.map((state) => `${WORDS[language].states[state]} ${percent(shares[state])}`);
  view.split.setAttribute("aria-label", `${word("time_now")}: ${texts.join(", ")}`);
  fill(view.split, shown.map((state) => [state, percent(shares[state])]), () =>
    shown.map((state) => {
      const piece = make("i", LIGHT_TEXT.has(state) ? "light" : "", shares[state] >= 0.07 ? percent(shares[state]) : "");
      piece.style.flexGrow = shares[state];
      piece.style.flexBasis = "0";
      piece.style.background = `var(--state-${state})`;
      return piece;
    }));
  fill(view.legend, shown.map((state) => [state, percent(shares[state])]), () =>
    shown.map((state) =>
      colour(make("li", "", `${WORDS[language].states[state]} `, bold(percent(shares[state]))), "state", state)));
}

function adviceLines(job) {
  const lines = [];
  const advice = inWords(job, "advice");
  if (job.gpus_lost > 0) lines.push(["lead", word("job_lost_do")]);
  if (advice) lines.push([lines.length ? "" : "lead", advice]);
  for (const finding of job.findings) {
    const gain = finding.gain ? ` (${word("gain", finding.gain[0], finding.gain[1])})` : "";
    lines.push(["", `${inWords(finding, "title")}: ${inWords(finding, "advice")}${gain}`]);
  }
  for (const cause of job.straggler_causes) {
    lines.push(["", word("straggler", cause.gpu, cause.cause, percent(cause.cost_ratio))]);
  }
  const scaling = job.scaling;
  if (scaling && scaling.recommended_gpus && scaling.recommended_gpus < job.gpus.length) {
    const key = scaling.slowdown ? "fewer" : "enough";
    lines.push(["", word(key, scaling.recommended_gpus, word("gpus", ranges(scaling.recommended_set)))]);
  }
  return lines;
}

function showAdvice(element, job) {
  const lines = adviceLines(job);
  element.hidden = lines.length === 0;
  fill(element, lines, () => [make("h4", "", word("do")), ...lines.map(([kind, line]) => make("p", kind, line))]);
}

function showJobChart(element, name) {
  const recent = history && history.jobs.find((found) => found.gpu_job === name);
  element.hidden = !recent || recent.time_ratio[STATES[0]].filter(known).length < 3;
  if (element.hidden) return;
  fill(element, [history.end], () => {
    const chart = areaChart(recent);
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", `${word("last_minutes")}: ${word("time_now")}`);
    const span = (recent.class.length - 1) * history.step_seconds;
    const axis = make("div", "axis", make("span", "", `−${duration(span)}`), make("span", "", "0"));
    return [make("h4", "", word("last_minutes")), chart, axis];
  });
}

function showFigures(element, job) {
  const pairs = [];
  if (job.strategy) pairs.push([word("strategy"), job.strategy]);
  if (known(job.step_seconds)) pairs.push([word("step"), word("seconds", job.step_seconds.toPrecision(3))]);
  if (job.scaling && known(job.scaling.efficiency)) pairs.push([word("efficiency"), percent(job.scaling.efficiency)]);
  if (known(job.power_watts)) pairs.push([word("power"), `${watts(job.power_watts)} W`]);
  if (known(job.memory_bytes)) pairs.push([word("memory"), `${gibibytes(job.memory_bytes)} GiB`]);
  if (known(job.utilization_ratio)) pairs.push([word("utilization"), percent(job.utilization_ratio), word("utilization_note")]);
  fill(element, pairs, () =>
    pairs.map(([label, value, note]) => make("span", "", `${label} `, bold(value), note ? ` (${note})` : "")));
}

// --- cards

function newCard() {
  const parts = {
    root: make("article", "tile"), line: make("div", "line"), links: make("div"), spark: make("div"),
    readings: make("p", "readings"), warning: make("p", "warn"),
  };
  parts.meters = ["rx", "tx", "nvlink_rx", "nvlink_tx"].map(meter);
  parts.links.append(...parts.meters.map((view) => view.element));
  parts.root.append(parts.line, parts.links, parts.spark, parts.readings, parts.warning);
  return parts;
}

function showCard(view, card, jobs) {
  const owners = card.gpu_jobs.map((name) => jobs.get(name)).filter(Boolean);
  const owner = [...owners].sort((a, b) => urgency(a) - urgency(b))[0];
  const tag = !card.up ? ["hung", word("lost")]
    : !owner ? ["", word("free")]
      : [owner.class, owners.length > 1 ? word("shared", owners.length) : WORDS[language].classes[owner.class]];
  view.root.classList.toggle("lost", !card.up);
  if (owner) colour(view.root, "class", owner.class);
  else view.root.style.removeProperty("--colour");
  const label = card.name.replace(/^NVIDIA (GeForce )?/, "");
  fill(view.line, [card.gpu, label, tag], () => {
    const name = make("bdi", "name", short(label));
    name.title = card.name;
    return [make("h3", "", word("gpus", card.gpu)), name, tag[0] ? chip(tag[0], tag[1], "small") : make("span", "who", tag[1])];
  });
  showLinks(view.meters.slice(0, 2), card.up ? card.pcie : null, "");
  showLinks(view.meters.slice(2), card.up ? card.nvlink : null, "NVLink ");
  const recent = card.up && history && history.gpus.find((found) => found.uuid === card.uuid);
  view.spark.hidden = !recent;
  if (recent) fill(view.spark, [history.end], () => [sparkLine(recent.series)]);
  showReadings(view, card);
}

function showLinks(meters, link, prefix) {
  ["rx", "tx"].forEach((direction, i) => {
    meters[i].element.hidden = !link;
    if (!link) return;
    const seen = link[direction];
    const label = prefix + word(direction === "rx" ? "link_in" : "link_out");
    const capacity = link.attainable_bytes_per_second;
    const figure = known(seen.bytes_per_second)
      ? [gigabytes(seen.bytes_per_second), word("of", "", `${gigabytes(capacity)} GB/s`).trim()]
      : ["", word("not_seen")];
    const peak = known(seen.peak_bytes_per_second) && capacity ? seen.peak_bytes_per_second / capacity : null;
    showMeter(meters[i], label, seen.saturation_ratio, peak, figure);
  });
}

function showReadings(view, card) {
  const pairs = []; // label, value; a label whose unit says enough is only spoken
  if (known(card.power_watts)) pairs.push(["power", `${watts(card.power_watts)}/${watts(card.power_limit_watts)} W`]);
  if (known(card.memory_used_bytes)) {
    pairs.push(["memory", `${gibibytes(card.memory_used_bytes)}/${gibibytes(card.memory_total_bytes)} GiB`]);
  } else if (card.memory_shared_with_host) {
    pairs.push(["memory", word("shared_memory")]);
  }
  if (known(card.temperature_celsius)) pairs.push(["temperature", `${Math.round(card.temperature_celsius)} °C`]);
  if (known(card.utilization_ratio)) pairs.push(["utilization", percent(card.utilization_ratio)]);
  if (known(card.sm_clock_hertz)) pairs.push(["clock", `${(card.sm_clock_hertz / 1e9).toFixed(2)} GHz`]);
  if (known(card.pcie.width_lanes)) pairs.push(["link", `PCIe ${card.pcie.generation ?? "?"}.0 x${card.pcie.width_lanes}`]);
  for (const part of card.mig) pairs.push(["slice", `${part.profile} ${gibibytes(part.memory_used_bytes)} GiB`]);
  fill(view.readings, pairs, () =>
    pairs.map(([key, value]) =>
      make("span", "", make("span", key === "utilization" ? "" : "spoken", `${word(key)} `), bold(value))));
  const warnings = [];
  if (!card.up) warnings.push(word("card_lost", card.gpu, card.fault || "?"));
  const link = card.pcie;
  if (link.downtrained) {
    warnings.push(word("downtrained", link.width_lanes, link.width_max_lanes, link.generation, link.generation_max));
  }
  const reasons = new Set(card.throttled);
  if (reasons.has("hw_power_brake")) warnings.push(word("throttle_brake"));
  else if (reasons.has("sw_thermal") || reasons.has("hw_thermal")) warnings.push(word("throttle_heat"));
  for (const [xid, count] of Object.entries(card.xids)) warnings.push(`Xid ${xid} × ${count}`);
  view.warning.hidden = warnings.length === 0;
  write(view.warning, warnings.join(" · "));
}

/** Cards by the link they share; a card below none stands at the end. */
function groups(state) {
  const left = new Set(state.gpus.map((card) => card.gpu));
  const found = state.node.uplinks.map((uplink) => {
    const cards = uplink.gpus.filter((gpu) => left.delete(gpu));
    return { uplink, cards };
  });
  return [...found, { uplink: null, cards: [...left] }].filter((group) => group.cards.length > 0);
}

function showCards(state, jobs) {
  const byGpu = new Map(state.gpus.map((card) => [card.gpu, card]));
  for (const card of state.gpus) {
    if (!cardViews.has(card.uuid)) cardViews.set(card.uuid, newCard());
    showCard(cardViews.get(card.uuid), card, jobs);
  }
  const grouped = groups(state);
  const shape = grouped.map((group) => [group.uplink && group.uplink.uplink, group.cards.map((gpu) => byGpu.get(gpu).uuid)]);
  const place = byId("cards");
  fill(place, shape, () =>
    grouped.map((group) => {
      const tiles = make("div", "tiles", ...group.cards.map((gpu) => cardViews.get(byGpu.get(gpu).uuid).root));
      if (!group.uplink) return grouped.length > 1 ? make("div", "group", make("div", "uplink", word("no_uplink")), tiles) : tiles;
      const views = [meter(), meter()];
      const box = make("div", "group", make("div", "uplink", make("span", "", word("uplink", group.uplink.uplink)), ...views.map((v) => v.element)), tiles);
      box.views = views;
      return box;
    }));
  grouped.forEach((group, i) => {
    if (!group.uplink) return;
    const [inward, outward] = place.children[i].views;
    const capacity = word("of", "", `${gigabytes(group.uplink.attainable_bytes_per_second)} GB/s`).trim();
    const { rx_saturation_ratio: rx, tx_saturation_ratio: tx } = group.uplink;
    showMeter(inward, word("link_in"), rx, null, [percent(rx), capacity]);
    showMeter(outward, word("link_out"), tx, null, [percent(tx), capacity]);
  });
}

// --- the whole page

function notices(state) {
  const found = [];
  if (trouble) found.push(["bad", state ? word("stale", trouble) : trouble]);
  if (!state) return found;
  const { node } = state;
  if (node.simulated) found.push(["simulated", word("simulated")]);
  if (!node.nvml_up) {
    found.push(["bad", node.nvml_fault === "released" ? word("released") : word("no_driver", node.nvml_fault || "?")]);
    return found;
  }
  for (const card of state.gpus) if (!card.up) found.push(["bad", word("card_lost", card.gpu, card.fault || "?")]);
  const missing = node.gpus_expected - state.gpus.length;
  if (missing > 0) found.push(["bad", word("cards_missing", missing, node.gpus_expected)]);
  for (const finding of node.findings) found.push(["bad", `${inWords(finding, "title")}: ${inWords(finding, "advice")}`]);
  return found;
}

function answerLine(jobs, troubled) {
  if (jobs.length === 0) return word("no_jobs");
  const unclear = jobs.filter((job) => job.class === "unknown").length;
  if (jobs.length === 1 && troubled.length + unclear > 0) return headline(jobs[0]);
  if (troubled.length === 0) return unclear ? word("not_judged", unclear, jobs.length) : word("all_well");
  return troubled.length === 1 ? word("one_trouble", jobs.length) : word("trouble", troubled.length, jobs.length);
}

/** Jobs in the same trouble share a line. */
function sameTrouble(troubled) {
  const kinds = new Map();
  for (const job of troubled) {
    const sentence = headline(job);
    const kind = kinds.get(sentence) || { sentence, first: job.gpu_job, look: look(job), count: 0, gpus: [] };
    kind.count += 1;
    kind.gpus.push(...job.gpus);
    kinds.set(sentence, kind);
  }
  return [...kinds.values()];
}

function troubleLine(kind) {
  const link = make("a", "", kind.sentence);
  link.href = `#job-${kind.first}`;
  const where = word("gpus", ranges(new Set(kind.gpus)) || "–");
  const count = kind.count > 1 ? [make("span", "who", word("jobs_of", kind.count))] : [];
  return make("li", "", chip(...kind.look), bold(where), link, ...count);
}

function showHead(state) {
  write(byId("host"), short(state.node.hostname));
  document.title = `${short(state.node.hostname)} · gpumon`;
  const cards = Math.max(state.node.gpus_expected, state.gpus.length);
  write(byId("cards-up"), cards ? word("cards_up", state.node.gpus_up, cards) : "");
  write(byId("driver"), state.node.driver_version ? word("driver", state.node.driver_version) : "");
}

function showJobs(jobs) {
  const place = byId("jobs");
  const present = new Set(jobs.map((job) => job.gpu_job));
  for (const [name, view] of jobViews) {
    if (!present.has(name)) {
      view.root.remove();
      jobViews.delete(name);
      unfolded.delete(name);
    }
  }
  let opened = 0;
  jobs.forEach((job, i) => {
    if (!jobViews.has(job.gpu_job)) jobViews.set(job.gpu_job, newJob(job.gpu_job));
    const view = jobViews.get(job.gpu_job);
    const open = inTrouble(job) && opened < OPEN_AT_FIRST;
    if (open) opened += 1;
    showJob(view, job, open);
    if (place.children[i] !== view.root) place.insertBefore(view.root, place.children[i] || null);
  });
}

function show() {
  const state = latest;
  const said = notices(state);
  fill(byId("notices"), said, () => said.map(([kind, text]) => make("p", `notice ${kind}`, text)));
  if (!state) return;
  showHead(state);
  const jobs = [...state.jobs].sort((a, b) => urgency(a) - urgency(b) || b.gpus.length - a.gpus.length || (a.gpu_job < b.gpu_job ? -1 : 1));
  const troubled = jobs.filter(inTrouble);
  const heading = byId("answer");
  heading.removeAttribute("data-word");
  heading.hidden = !state.node.nvml_up;
  write(heading, answerLine(jobs, troubled));
  const kinds = jobs.length > 1 ? sameTrouble(troubled) : []; // the only job's sentence is the heading
  fill(byId("troubles"), kinds, () => kinds.map(troubleLine));
  byId("jobs-title").parentElement.hidden = jobs.length === 0;
  showJobs(jobs);
  byId("cards-title").parentElement.hidden = state.gpus.length === 0;
  showCards(state, new Map(jobs.map((job) => [job.gpu_job, job])));
}

function showAge() {
  if (latest) write(byId("updated"), word("updated", Math.round((performance.now() - answeredAt) / 1000)));
}

function speak(chosen) {
  language = chosen;
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-word]")) write(element, word(element.dataset.word));
  show();
  showAge();
}

// --- asking

async function ask(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(GIVE_UP_MS) });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

async function refreshState() {
  try {
    latest = await ask("api/v1/state");
    answeredAt = performance.now();
    trouble = "";
  } catch (error) {
    trouble = error instanceof TypeError || error.name === "TimeoutError" ? word("unreachable") : short(error.message);
  }
  show();
  showAge();
}

async function refreshHistory() {
  try {
    history = await ask("api/v1/recent");
  } catch {
    return; // the state's own failure is told; charts wait for the next time
  }
  show();
}

/** Call at once and then again after each end, but rest while nobody looks. */
function keep(refresh, everyMs) {
  let timer = 0;
  const round = async () => {
    clearTimeout(timer);
    if (!document.hidden) await refresh();
    timer = setTimeout(round, everyMs);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) round();
  });
  round();
}

function remembered() {
  try {
    return localStorage.getItem("gpumon-language");
  } catch {
    return null; // storage is switched off
  }
}

byId("language").addEventListener("click", () => {
  speak(language === "en" ? "zh" : "en");
  try {
    localStorage.setItem("gpumon-language", language);
  } catch {
    // storage is switched off: the choice lasts as long as the page
  }
});
speak(remembered() || (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
keep(refreshState, STATE_EVERY_MS);
keep(refreshHistory, HISTORY_EVERY_MS);
setInterval(showAge, 1000);
