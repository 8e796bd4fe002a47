"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const ILLEGAL = -1, FORBIDDEN = 0, ALLOWED = 1, REQUIRED = 2, FREE = 3;
const STATES = ["forbidden", "allowed", "required", "free"];
const DASHES = ["", "7 3", "2 2", "9 3 2 3"];
const U = 100; // SVG units in an inch of the layout
const TRUTH = "truth";
const $ = id => document.getElementById(id);
const choice = { model: 0, method: TRUTH, level: "qkv_edge", cut: null };

// Small tools.

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "line", "text", "circle", "title", "polygon"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}
const number = (value, digits = 3) => value === null || value === undefined ? "–" : value.toFixed(digits);
const whole = value => value === null ? "–" : Math.round(value).toLocaleString("en");
const score = value => Number(value.toPrecision(4)).toString();
const colour = method => `var(--c${method % 8})`;
const dash = method => DASHES[Math.floor(method / 8) % DASHES.length];

// What is scored at a level: nodes, head edges, or edges into single inputs.

function items(model, level) {
  if (level === "node") {
    return model.nodes.slice(1).map((name, i) => ({ name, state: model.truth.node[i + 1], node: i + 1, edges: [] }));
  }
  const targets = model.readers;
  if (level === "qkv_edge") {
    return model.edges.map(([source, reader], i) => ({
      name: `${model.nodes[source]} → ${targets[reader]}`, state: model.truth.qkv_edge[i], edges: [i], drawn: i,
    }));
  }
  const heads = new Map();
  model.edges.forEach(([source, reader], i) => {
    const target = targets[reader].split("<")[0], name = `${model.nodes[source]} → ${target}`;
    if (!heads.has(name)) heads.set(name, { name, state: model.truth.head_edge[heads.size], edges: [], drawn: i });
    const item = heads.get(name);
    item.edges.push(i);
    if (targets[reader].endsWith("<k>")) item.drawn = i;
  });
  return [...heads.values()];
}

/** Ranks the items by a result's scores, best first, and groups ties. */
function rank(model, result, level) {
  const own = level === "node" && result.nodes;
  const of = item => own ? own.ranks[item.node]
    : level === "node" ? model.edges.reduce((best, [source], i) => source === item.node ? Math.max(best, result.edges.ranks[i]) : best, -1)
    : Math.max(...item.edges.map(i => result.edges.ranks[i]));
  const values = (own || result.edges).values;
  const ranked = items(model, level).map(item => ({ ...item, rank: of(item) }));
  ranked.forEach(item => { item.score = values[item.rank]; });
  ranked.sort((a, b) => b.rank - a.rank);
  const groups = [];
  for (const item of ranked) {
    if (!groups.length || groups.at(-1)[0].rank !== item.rank) groups.push([]);
    groups.at(-1).push(item);
  }
  return { ranked, groups, cuts: rates(count(groups, result.structural), result.precision[level]) };
}

const positive = (state, structural) => state === REQUIRED || (structural && state === ALLOWED);

/** Counts required and forbidden items after each group, and groups that have any. */
function count(groups, structural) {
  let hits = 0, wrong = 0, step = 0;
  const counts = [[0, 0, 0]];
  for (const group of groups) {
    const before = hits + wrong;
    for (const { state } of group) {
      if (positive(state, structural)) hits++;
      else if (state === FORBIDDEN) wrong++;
    }
    if (hits + wrong > before) step++;
    counts.push([hits, wrong, step]);
  }
  return counts;
}

/** Looks up what was computed for each cut: shares of required and of forbidden items, and precision. */
function rates(counts, precision) {
  const [positives, negatives] = counts.at(-1);
  const share = (count, total) => total ? DATA.shares[total][count] : null;
  return counts.map(([hits, wrong, step]) => ({
    hits, wrong, positives, recall: share(hits, positives), forbidden: share(wrong, negatives), precision: step ? precision[step - 1] / 1000 : null,
  }));
}

const cache = new Map();
function ranking(modelIndex, result, level) {
  const key = `${modelIndex}/${result.method}/${level}`;
  if (!cache.has(key)) cache.set(key, rank(DATA.models[modelIndex], result, level));
  return cache.get(key);
}
const resultOf = (modelIndex, method) => DATA.models[modelIndex].results.find(result => result.method === method);
const chosenResult = () => choice.method === TRUTH ? null : resultOf(choice.model, choice.method);

// Tables.

let sorting = { column: 4, up: false }, sorted = [];
function showMethods() {
  const heads = ["method", "models", ...Object.values(DATA.levels), "CPR / CMD", "forward passes", "backward passes", "CPU seconds"];
  const rows = DATA.methods.map((name, method) => ({ method, cells: [name, ...DATA.means[method]] }));
  const order = cells => Array.isArray(cells[sorting.column]) ? cells[sorting.column][0] ?? -1 : cells[sorting.column] ?? -1;
  rows.sort((a, b) => {
    const [x, y] = [order(a.cells), order(b.cells)];
    return (x < y ? -1 : x > y ? 1 : 0) * (sorting.up ? 1 : -1);
  });
  sorted = rows.map(row => row.method);
  const head = heads.map((title, column) => make("th", {
    scope: "col", "aria-sort": sorting.column === column ? (sorting.up ? "ascending" : "descending") : null,
  }, make("button", { type: "button", onclick: () => {
    sorting = { column, up: sorting.column === column ? !sorting.up : column === 0 || column > 5 };
    showMethods();
    showHeat();
  } }, title)));
  const body = rows.map(({ method, cells }) => make("tr", { class: method === choice.method ? "chosen" : null },
    ...cells.map((cell, column) => {
      if (Array.isArray(cell)) return make("td", {}, number(cell[0]), make("small", {}, ` / ${number(cell[1])}`));
      return make("td", {}, column === 0 ? cell : column === 8 ? number(cell, 2) : whole(cell));
    })));
  $("methods").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

function showHeat() {
  const head = make("tr", {}, make("th", {}), ...DATA.models.map(model => make("th", { scope: "col" }, make("span", {}, model.title))));
  const body = sorted.map(method => [DATA.methods[method], method]).map(([name, method]) => make("tr", {}, make("th", { scope: "row" }, name), ...DATA.models.map((model, i) => {
    const result = resultOf(i, method);
    if (!result) return make("td", {});
    const value = result.auroc[choice.level];
    const strength = value === null ? 0 : Math.max(0, (value - 0.5) * 2);
    return make("td", {}, make("button", {
      type: "button", class: strength > 0.55 ? "dark" : null, style: `background: rgba(var(--heat), ${(0.06 + 0.94 * strength).toFixed(3)})`,
      "aria-pressed": i === choice.model && method === choice.method, title: `${name} on ${model.title}`,
      onclick: () => select({ model: i, method, cut: null }),
    }, aside(model) ? `(${number(value)})` : number(value)));
  })));
  $("heat").replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
}

/** Whether the chosen level is that of q/k/v edges, while methods are compared at head edges on a model. */
const aside = model => choice.level === "qkv_edge" && model.headline !== choice.level;
const ASIDE = " Some q/k/v edges are free here: methods are compared by head edges.";

function showRanking(found, taken) {
  const shown = found ? found.ranked.slice(0, 20) : [];
  $("ranking-title").hidden = !found;
  const head = make("tr", {}, ...["", DATA.levels[choice.level].replace(/s$/, ""), "score", "truth"].map(title => make("th", {}, title)));
  const body = shown.map((item, place) => make("tr", { class: taken.has(item.name) ? null : "out" },
    make("td", {}, String(place + 1)), make("td", { style: "text-align: left" }, item.name), make("td", {}, score(item.score)),
    make("td", { style: "text-align: left" }, make("span", { class: "dot", style: `background: ${dot(item.state)}` }), STATES[item.state])));
  $("ranking").replaceChildren(...(found ? [make("thead", {}, head), make("tbody", {}, ...body)] : []));
}
const dot = state => ["var(--wrong)", "var(--allowed)", "var(--required)", "var(--required)"][state];

// Curves.

const STRAIGHT = { place: value => value, ticks: [[0, "0"], [1, "1"]] };
const LOG = { place: share => 1 + Math.log10(Math.max(share, 0.001)) / 3, ticks: [[0.001, "0.1 %"], [0.01, "1 %"], [0.1, "10 %"], [1, "100 %"]] };

function showCurves(found, taken) {
  const model = DATA.models[choice.model];
  const all = model.results.map(result => ({ method: result.method, result, auroc: result.auroc[choice.level], faith: result.faithfulness }))
    .sort((a, b) => (b.auroc ?? -1) - (a.auroc ?? -1) || a.method - b.method);
  const ranked = all.filter(entry => entry.auroc !== null);
  $("curves-title").textContent = `Curves: ${model.title}, ${DATA.levels[choice.level]}`;
  const now = found && found.cuts[choice.cut];
  chart($("roc"), ranked, { across: "forbidden taken", up: "required found (ROC)", points: entry => entry.result.roc[choice.level], at: now && [now.forbidden, now.recall] });
  chart($("pr"), ranked, { across: "recall", up: "precision", points: entry => steps(ranking(choice.model, entry.result, choice.level).cuts), at: now && now.precision !== null ? [now.recall, now.precision] : null });
  showFaithfulness(all.filter(entry => entry.faith), found && choice.level === "qkv_edge" ? taken.size / found.ranked.length : 0);
  const areas = ({ faith }) => ["cpr", "cmd"].map(area => make("td", {}, number(faith && faith[area][0])));
  $("key").replaceChildren(make("thead", {}, make("tr", {}, ...["", "AUROC", "CPR", "CMD"].map(title => make("th", { scope: "col" }, title)))),
    make("tbody", {}, ...all.map(entry => make("tr", {}, make("td", {}, make("button", {
      type: "button", "aria-pressed": entry.method === choice.method, onclick: () => select({ method: entry.method, cut: null }),
    }, line(`stroke: ${colour(entry.method)}; stroke-width: 2.4; stroke-dasharray: ${dash(entry.method)}`),
    make("span", { class: "name" }, DATA.methods[entry.method]))), make("td", {}, number(entry.auroc)), ...areas(entry)))));
}

/** Faithfulness of the circuits of several sizes, at q/k/v level at any choice of level; `share` is what is taken now. */
function showFaithfulness(all, share) {
  $("faithfulness").style.display = all.length ? "" : "none";
  const values = all.flatMap(({ faith }) => faith.points.map(([, f]) => f));
  const low = Math.max(-1, Math.min(-0.05, ...values)), high = Math.min(2, Math.max(1.05, ...values));
  const ticks = [0, 1, ...[low, high].filter(end => end < -0.2 || end > 1.2)].map(tick => [tick, String(Math.round(tick * 10) / 10).replace("-", "−")]);
  chart($("faithfulness"), all, {
    across: "edges taken", up: "faithfulness of the circuit", points: ({ faith }) => faith.points, band: ({ faith }) => faith.points,
    x: LOG, y: { place: f => (f - low) / (high - low), ticks }, levels: [0, 1], now: share,
  });
  const chosen = all.find(({ method }) => method === choice.method);
  const area = name => (([value, from, to]) => `${name.toUpperCase()} ${number(value)} (${number(from)} to ${number(to)})`)(chosen.faith[name]);
  $("areas").textContent = chosen ? `${DATA.methods[chosen.method]}: ${area("cpr")}, ${area("cmd")}.`
    : all.length ? "" : "Faithfulness was not measured here: no evaluation did, or corrupted inputs change no answer.";
}

/** Precision against recall in steps, whose area is the average precision. */
function steps(cuts) {
  return cuts.filter(({ precision }) => precision !== null)
    .flatMap(({ recall, precision }, i, all) => [[i ? all[i - 1].recall : 0, precision], [recall, precision]]);
}

function line(style, name = null) {
  const svg = make("svg", { width: 34, height: 10, viewBox: "0 0 34 10", "aria-hidden": "true" });
  svg.append(make("line", { x1: 0, y1: 5, x2: 34, y2: 5, style, class: name }));
  return svg;
}

/** Draws `points(entry)` of every entry; the chosen one thicker, with its `band` of (x, y, low, high); a circle `at`, a line `now`. */
function chart(svg, all, { across, up, points, at, band, now, levels = [], x = STRAIGHT, y = STRAIGHT }) {
  const [left, top, width, height] = [26, 18, svg.viewBox.baseVal.width - 40, 190];
  const X = value => (left + x.place(value) * width).toFixed(1), Y = value => (top + (1 - y.place(value)) * height).toFixed(1);
  const path = some => `M${some.map(([a, b]) => `${X(a)},${Y(b)}`).join("L")}`;
  const floor = top + height + 14;
  const parts = [
    make("rect", { class: "axis", x: left, y: top, width, height }),
    make("text", { class: "muted", x: left, y: top - 7 }, up),
    make("text", { class: "muted", x: left + width, y: x === STRAIGHT ? floor : top - 7, "text-anchor": "end" }, across),
    ...(x === STRAIGHT ? x.ticks.slice(0, 1) : x.ticks).map(([value, text]) => make("text", { class: "muted", x: X(value), y: floor, "text-anchor": "middle" }, text)),
    ...y.ticks.map(([value, text]) => make("text", { class: "muted", x: left - 5, y: Number(Y(value)) + 4, "text-anchor": "end" }, text)),
    ...levels.map(value => make("path", { class: "chance", d: `M${left},${Y(value)}h${width}` })),
  ];
  if (svg.id === "roc") parts.push(make("path", { class: "chance", d: path([[0, 0], [1, 1]]) }));
  if (now) parts.push(make("path", { class: "now", d: `M${X(now)},${top}v${height}` }));
  const lines = [], order = [...all].sort((a, b) => (a.method === choice.method) - (b.method === choice.method));
  for (const entry of order) {
    const { method } = entry, chosen = method === choice.method;
    if (chosen && band) {
      const around = [...band(entry).map(([a, , low]) => [a, low]), ...band(entry).map(([a, , , high]) => [a, high]).reverse()];
      lines.push(make("path", { class: "interval", style: `fill: ${colour(method)}`, d: `${path(around)}Z` }));
    }
    lines.push(make("path", {
      class: chosen ? "curve chosen" : "curve", style: `stroke: ${colour(method)}; stroke-dasharray: ${chosen ? "" : dash(method)}`,
      d: path(points(entry)), onclick: () => select({ method, cut: null }),
    }, make("title", {}, DATA.methods[method])));
    if (chosen && band) lines.push(...band(entry).map(([a, b]) => make("circle", { class: "measured", style: `fill: ${colour(method)}`, cx: X(a), cy: Y(b), r: 3.4 })));
  }
  const frame = { x: left - 2, y: top - 2, width: width + 4, height: height + 4 }; // what leaves it is not seen
  parts.push(make("svg", { ...frame, viewBox: Object.values(frame).join(" ") }, ...lines));
  if (at && at.every(Number.isFinite)) parts.push(make("circle", { class: "point", cx: X(at[0]), cy: Y(at[1]), r: 4.5 }));
  svg.replaceChildren(...parts);
}

// The drawing.

function showCircuit(wires, boxes) {
  const { drawing: d, edges, nodes, readers } = DATA.models[choice.model];
  const [width, height] = d.size, [w, h] = d.box;
  const X = x => (x * U).toFixed(1), Y = y => ((height - y) * U + 8).toFixed(1);
  const at = (x, y) => `${X(x)} ${Y(y)}`;
  const bend = ([x0, y0], [x1, y1]) => `C${at(x0, (y0 + y1) / 2)} ${at(x1, (y0 + y1) / 2)} ${at(x1, y1)}`;
  const path = i => {
    const [source, reader, lane, end] = edges[i];
    const [x, y] = d.places[source], start = [x, y + h / 2], stop = [end, d.entrances[reader] - d.tip];
    if (lane === null) return `M${at(...start)}${bend(start, stop)}`;
    const low = [lane, start[1] + d.gap], high = [lane, stop[1] + d.tip - d.gap];
    return `M${at(...start)}${bend(start, low)}L${at(...high)}${bend(high, stop)}`;
  };
  const parts = d.bands.flatMap(([low, high], layer) => [
    make("rect", { class: "band", x: 0, y: Y(high), width: X(width), height: ((high - low) * U).toFixed(1), rx: 6 }),
    make("text", { class: "muted", transform: `translate(14 ${Y((low + high) / 2)}) rotate(-90)`, "text-anchor": "middle" }, `layer ${layer}`),
  ]);
  const rims = wires.length <= 300;
  for (const { item, style } of wires) {
    const i = item.drawn, [, reader, , end] = edges[i], y = d.entrances[reader];
    if (rims) parts.push(make("path", { class: "rim", d: path(i) }));
    parts.push(make("path", { class: `wire ${style}`, d: path(i), "data-edge": item.name }, make("title", {}, explain(item))));
    const tip = [[end, y], [end - 0.045, y - d.tip], [end + 0.045, y - d.tip]].map(([a, b]) => `${X(a)},${Y(b)}`).join(" ");
    parts.push(make("polygon", { class: `tip ${style}`, points: tip }));
  }
  [...nodes, "logits"].forEach((name, i) => {
    const [x, y] = d.places[i], carries = d.carries[i] || [];
    const state = i < nodes.length ? DATA.models[choice.model].truth.node[i] : REQUIRED;
    const lines = carries.length > 2 ? [carries[0], `and ${carries.length - 1} more`] : carries;
    const box = boxes.get(i);
    const lift = lines.length ? 0.19 : 0.03;
    parts.push(make("g", { class: `box s${state}${box ? ` ${box.style}` : ""}`, "data-node": name },
      make("title", {}, box ? explain(box.item) : [name, ...carries].join(", ")),
      make("rect", { x: X(x - w / 2), y: Y(y + h / 2), width: w * U, height: h * U, rx: 7 }),
      make("text", { class: "name", x: X(x), y: Y(y + lift - 0.04), "text-anchor": "middle" }, name),
      ...lines.map((text, row) => make("text", { class: "carries", x: X(x), y: Y(y + 0.02 - 0.125 * row), "text-anchor": "middle" },
        text.length > 20 ? `${text.slice(0, 19)}…` : text)),
      ...(/^a/.test(name) ? ["q", "k", "v"].map((slot, place) => make("text", {
        class: "slot", x: X(x + (place - 1) * d.port), y: Y(y - h / 2 + 0.045), "text-anchor": "middle" }, slot)) : [])));
  });
  $("circuit").setAttribute("viewBox", `0 0 ${X(width)} ${(height * U + 16).toFixed(1)}`);
  $("circuit").style.maxWidth = `${Math.round(width * 92)}px`;
  $("circuit").replaceChildren(...parts);
}

function explain(item) {
  const carries = item.node === undefined ? [] : DATA.models[choice.model].drawing.carries[item.node] || [];
  return [item.name, ...carries, STATES[item.state], ...(item.score === undefined ? [] : [`score ${score(item.score)}`])].join(", ");
}

function legend(styles) {
  const texts = {
    required: chosenResult() ? "required, found" : "required", missed: "required, missed", forbidden: "forbidden, found",
    free: "free: through one of q, k, v, or several", allowed: "allowed: in the program, changes no output", faint: "the truth's edges",
  };
  const order = Object.keys(texts).filter(style => styles.has(style));
  $("legend").replaceChildren(...order.map(style => make("span", {}, line("", style), texts[style])));
}

// Everything together.

function show() {
  const model = DATA.models[choice.model], result = chosenResult();
  const found = result ? ranking(choice.model, result, choice.level) : null;
  const taken = new Set();
  if (found) {
    if (choice.cut === null) choice.cut = Math.max(0, found.cuts.findIndex(({ hits, wrong, positives }) => hits + wrong >= positives));
    choice.cut = Math.min(choice.cut, found.groups.length);
    found.groups.slice(0, choice.cut).flat().forEach(item => taken.add(item.name));
    $("cut").max = found.groups.length;
    $("cut").value = choice.cut;
  }
  $("take").style.visibility = found ? "visible" : "hidden";
  $("taken").textContent = found ? `${taken.size} of ${found.ranked.length} ${DATA.levels[choice.level]}` : "";
  const all = found ? found.ranked : items(model, choice.level);
  const style = item => {
    if (!found) return item.state === FORBIDDEN || item.state === ILLEGAL ? null : STATES[item.state];
    if (taken.has(item.name)) return STATES[item.state];
    return positive(item.state, result.structural) && $("missed").checked ? "missed" : null;
  };
  let wires = all.map(item => ({ item, style: style(item) })).filter(wire => wire.style);
  const boxes = new Map();
  const styles = new Set(wires.map(wire => wire.style));
  if (choice.level === "node") {
    if (found) wires.forEach(({ item, style: s }) => boxes.set(item.node, { item, style: s === "missed" ? "lost" : "taken" }));
    wires = items(model, "head_edge").filter(item => item.state === REQUIRED).map(item => ({ item, style: "faint" }));
    styles.add("faint");
  }
  const rankOf = ["faint", "missed", "allowed", "free", "forbidden", "required"];
  wires.sort((a, b) => rankOf.indexOf(a.style) - rankOf.indexOf(b.style));
  showCircuit(wires, boxes);
  legend(styles);
  showCurves(found, taken);
  showRanking(found, taken);
  verdict(model, result, found, taken);
  $("says").textContent = `${model.title}. ${model.says}`;
  $("settings").textContent = result && result.settings ? `${DATA.methods[result.method]}: ${result.settings}` : "";
  keep();
}

/** Keeps the view in the address, by names, so that it can be linked to. */
function keep() {
  const view = new URLSearchParams({ model: DATA.models[choice.model].title, method: choice.method === TRUTH ? "" : DATA.methods[choice.method], level: choice.level });
  if (choice.method !== TRUTH) view.set("take", choice.cut);
  if (location.hash.slice(1) !== view.toString()) history.replaceState(null, "", `#${view}`);
}

/** Returns what of an address can be shown: names that the page does not have are left out. */
function asked() {
  const view = new URLSearchParams(location.hash.slice(1)), change = {};
  const model = DATA.models.findIndex(({ title }) => title === view.get("model")), method = DATA.methods.indexOf(view.get("method"));
  if (model >= 0) Object.assign(change, { model, cut: null });
  if (view.get("method") === "") change.method = TRUTH;
  if (method >= 0) change.method = method;
  if (Object.hasOwn(DATA.levels, view.get("level") ?? "")) change.level = view.get("level");
  if (/^\d{1,6}$/.test(view.get("take") ?? "")) change.cut = Number(view.get("take"));
  return change;
}

function verdict(model, result, found, taken) {
  const words = DATA.levels[choice.level];
  if (!found) {
    const states = items(model, choice.level).map(item => item.state);
    const counts = [REQUIRED, FREE, ALLOWED, FORBIDDEN].map(state => [states.filter(s => s === state).length, STATES[state]]);
    $("verdict").replaceChildren(`The truth of ${model.title} (${model.about}): of ${states.length} ${words} `,
      counts.filter(([count]) => count).map(([count, name]) => `${count} ${name}`).join(", "), ".", aside(model) ? ASIDE : "");
    return;
  }
  const { hits, wrong, positives, precision, recall } = found.cuts[choice.cut];
  const others = taken.size - hits - wrong;
  const last = choice.cut ? found.groups[choice.cut - 1] : null;
  $("verdict").replaceChildren(`${DATA.methods[result.method]} on ${model.title}: `, make("b", {}, `${hits} of ${positives}`),
    ` required found, `, make("b", {}, String(wrong)), ` forbidden taken`, others ? `, ${others} allowed or free` : "",
    `. Precision ${number(precision)}, recall ${number(recall)}.`,
    last ? ` Scores from ${score(last[0].score)}${last.length > 1 ? `, at which ${last.length} tie` : ""}.` : "",
    result.structural ? " Structural: allowed counts as required." : "", aside(model) ? ASIDE : "");
}

function select(change) {
  Object.assign(choice, change);
  if (!chosenResult()) choice.method = TRUTH;
  $("model").value = choice.model;
  const results = DATA.models[choice.model].results.map(result => result.method).sort((a, b) => a - b);
  $("method").replaceChildren(make("option", { value: TRUTH }, "the truth alone"),
    ...results.map(method => make("option", { value: method }, DATA.methods[method])));
  $("method").value = choice.method;
  document.querySelectorAll("#level input").forEach(input => { input.checked = input.value === choice.level; });
  show();
  showMethods();
  showHeat();
}

function start() {
  const { models, methods, levels } = DATA;
  $("summary").textContent = `${methods.length} method${methods.length === 1 ? "" : "s"} on ${models.length} network${models.length === 1 ? "" : "s"} whose circuit is known. ${DATA.about}`;
  if (!models.length) {
    $("explorer").hidden = true;
    showMethods();
    return;
  }
  $("model").replaceChildren(...models.map((model, i) => make("option", { value: i }, `${model.title} (${model.about})`)));
  $("level").append(...Object.entries(levels).map(([value, name]) => make("label", {}, make("input", { type: "radio", name: "level", value }), ` ${name}`)));
  $("model").addEventListener("change", event => select({ model: Number(event.target.value), cut: null }));
  $("method").addEventListener("change", event => select({ method: event.target.value === TRUTH ? TRUTH : Number(event.target.value), cut: null }));
  $("level").addEventListener("change", event => select({ level: event.target.value, cut: null }));
  $("cut").addEventListener("input", event => { choice.cut = Number(event.target.value); show(); });
  $("missed").addEventListener("change", show);
  if (models[0].truth.qkv_edge.includes(FREE)) choice.level = "head_edge";
  const best = models[0].results.map(result => [result.auroc[choice.level] ?? 0, result.method]).sort((a, b) => b[0] - a[0])[0];
  select({ method: best ? best[1] : TRUTH, ...asked() });
  window.addEventListener("hashchange", () => select(asked()));
}
start();
