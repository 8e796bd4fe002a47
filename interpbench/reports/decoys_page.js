"use strict";

/* The networks, the methods and their expected scores, as in interpbench.decoys, on arrays of rows of features. */

const N_FEATURES = DATA.features;

function circuitAt(name, strength) {
  const found = DATA.circuits[name];
  const units = found.units.map((unit) => ({ ...unit, weight: unit.weight * (unit.planted ? strength : 1) }));
  const correlated = found.correlated.map(([feature, r]) => [feature, r * strength]);
  return { ...found, units, correlated };
}

function output(circuit, row) {
  let total = 0;
  for (const unit of circuit.units) {
    let sum = unit.bias;
    for (const [feature, weight] of unit.reads) sum += weight * row[feature];
    total += unit.weight * Math.tanh(sum);
  }
  return total;
}

function gradient(circuit, row, scale = 1) {
  const found = new Float64Array(N_FEATURES);
  for (const unit of circuit.units) {
    let sum = unit.bias;
    for (const [feature, weight] of unit.reads) sum += weight * row[feature] * scale;
    const slope = unit.weight * (1 - Math.tanh(sum) ** 2);
    for (const [feature, weight] of unit.reads) found[feature] += weight * slope;
  }
  return found;
}

function pathAttribution(circuit, row) {
  const total = new Float64Array(N_FEATURES);
  for (let step = 0; step < DATA.midpoints; step++) {
    const found = gradient(circuit, row, (step + 0.5) / DATA.midpoints);
    for (let feature = 0; feature < N_FEATURES; feature++) total[feature] += found[feature];
  }
  return total.map((value, feature) => (value * row[feature]) / DATA.midpoints);
}

function onData(circuit, row) {
  for (const [feature, value] of circuit.constant) row[feature] = value;
  for (const [feature, source] of circuit.copied) row[feature] = row[source];
  return row;
}

/* Random numbers: mulberry32, and normal ones of pairs of it (Box and Muller). */

function generator(seed, stream) {
  let state = (Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(stream + 1, 0x85ebca6b)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function normals(random, count) {
  const found = new Float64Array(count);
  for (let place = 0; place < count; place += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - random()));
    const angle = 2 * Math.PI * random();
    found[place] = radius * Math.cos(angle);
    if (place + 1 < count) found[place + 1] = radius * Math.sin(angle);
  }
  return found;
}

function permutations(seed, count) {
  const random = generator(seed, 2);
  return Array.from({ length: N_FEATURES }, () => {
    const order = Array.from({ length: count }, (_, place) => place);
    for (let place = count - 1; place > 0; place--) {
      const other = Math.floor(random() * (place + 1));
      [order[place], order[other]] = [order[other], order[place]];
    }
    return order;
  });
}

function mean(values) {
  let total = 0;
  for (const value of values) total += value;
  return total / values.length;
}

function draw(circuit, samples, seed) {
  const numbers = normals(generator(seed, 1), samples * N_FEATURES);
  const rows = Array.from({ length: samples }, (_, n) => numbers.slice(n * N_FEATURES, (n + 1) * N_FEATURES));
  const outputs = rows.map((row) => output(circuit, row));
  const middle = mean(outputs);
  const spread = Math.sqrt(mean(outputs.map((value) => (value - middle) ** 2)));
  rows.forEach((row, n) => {
    for (const [feature, r] of circuit.correlated)
      row[feature] = (r * (outputs[n] - middle)) / spread + Math.sqrt(1 - r * r) * row[feature];
    onData(circuit, row);
  });
  return rows;
}

/* Scores of a sample. */

function meanAbsolute(rows) {
  return Array.from({ length: N_FEATURES }, (_, feature) => mean(rows.map((row) => Math.abs(row[feature]))));
}

const SCORES = {
  random: (circuit, rows, seed) => {
    const random = generator(seed, 3);
    return Array.from({ length: N_FEATURES }, random);
  },
  correlation: (circuit, rows) => {
    const outputs = rows.map((row) => output(circuit, row));
    const middle = mean(outputs);
    return Array.from({ length: N_FEATURES }, (_, feature) => {
      const centre = mean(rows.map((row) => row[feature]));
      let both = 0, own = 0, out = 0;
      rows.forEach((row, n) => {
        both += (row[feature] - centre) * (outputs[n] - middle);
        own += (row[feature] - centre) ** 2;
        out += (outputs[n] - middle) ** 2;
      });
      return own * out > 0 ? Math.abs(both) / Math.sqrt(own * out) : 0;
    });
  },
  gradient: (circuit, rows) => meanAbsolute(rows.map((row) => gradient(circuit, row))),
  integrated_gradients: (circuit, rows) => meanAbsolute(rows.map((row) => pathAttribution(circuit, row))),
  patching: (circuit, rows, seed) => {
    const outputs = rows.map((row) => output(circuit, row));
    return permutations(seed, rows.length).map((order, feature) =>
      mean(rows.map((row, n) => {
        const patched = row.slice();
        patched[feature] = rows[order[n]][feature];
        return Math.abs(output(circuit, patched) - outputs[n]);
      })));
  },
};

/* Scores of infinitely many inputs: integrals over a normal density. */

const POINTS = Array.from({ length: 2 * DATA.reach * DATA.resolution + 1 },
  (_, place) => place / DATA.resolution - DATA.reach);
const WEIGHTS = POINTS.map((x) => Math.exp((-x * x) / 2) / (Math.sqrt(2 * Math.PI) * DATA.resolution));

function weighted(values) {
  let total = 0;
  for (let place = 0; place < POINTS.length; place++) total += WEIGHTS[place] * values[place];
  return total;
}

function along(circuit, feature) {
  return POINTS.map((x) => {
    const row = new Float64Array(N_FEATURES);
    row[feature] = x;
    return output(circuit, onData(circuit, row));
  });
}

function everywhere(circuit, attribution) {
  const found = POINTS.map((x) => attribution(circuit, onData(circuit, new Float64Array(N_FEATURES).fill(x))));
  return Array.from({ length: N_FEATURES }, (_, feature) => weighted(found.map((row) => Math.abs(row[feature]))));
}

function meanDifference(values) {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b]);
  let below = 0, total = 0;
  for (let place = 0; place + 1 < order.length; place++) {
    below += WEIGHTS[order[place]];
    total += 2 * below * (1 - below) * (values[order[place + 1]] - values[order[place]]);
  }
  return total;
}

const EXPECTED = {
  correlation: (circuit) => {
    let variance = 0;
    const found = Array.from({ length: N_FEATURES }, (_, feature) => {
      const response = along(circuit, feature);
      const middle = weighted(response);
      const centred = response.map((value) => value - middle);
      variance += weighted(centred.map((value) => value * value));
      return weighted(centred.map((value, place) => value * POINTS[place]));
    });
    const scores = found.map((value) => Math.abs(value) / Math.sqrt(variance));
    for (const [feature, r] of circuit.correlated) scores[feature] = Math.abs(r);
    return scores;
  },
  gradient: (circuit) => everywhere(circuit, gradient),
  integrated_gradients: (circuit) => everywhere(circuit, pathAttribution),
  patching: (circuit) => {
    const pairs = new Set(circuit.copied.flat());
    return Array.from({ length: N_FEATURES }, (_, feature) => {
      if (!pairs.has(feature)) return meanDifference(along(circuit, feature));
      const rest = output(circuit, new Float64Array(N_FEATURES));
      return weighted(POINTS.map((x) => {
        const row = new Float64Array(N_FEATURES);
        row[feature] = Math.SQRT2 * x;
        return Math.abs(output(circuit, row) - rest);
      }));
    });
  },
};

function memory(make) {
  const known = new Map();
  return (...key) => {
    const text = key.join("|");
    if (!known.has(text)) known.set(text, make(...key));
    if (known.size > 400) known.delete(known.keys().next().value);
    return known.get(text);
  };
}

const expected = memory((name, method, strength) =>
  method in EXPECTED ? EXPECTED[method](circuitAt(name, strength)) : null);
const inputs = memory((name, strength, samples, seed) => draw(circuitAt(name, strength), samples, seed));
const scores = memory((name, method, strength, samples, seed) =>
  SCORES[method](circuitAt(name, strength), inputs(name, strength, samples, seed), seed));

function auroc(values, causal) {
  let wins = 0, pairs = 0;
  for (const one of causal)
    for (let other = 0; other < N_FEATURES; other++)
      if (!causal.includes(other)) {
        pairs++;
        wins += values[one] > values[other] ? 1 : values[one] === values[other] ? 0.5 : 0;
      }
  return wins / pairs;
}

/** Returns a number without what is left of rounding, so that scores which are 0 are ties. */
function rounded(value) {
  return Number(value.toFixed(9));
}

/* The page. */

const $ = (id) => document.getElementById(id);
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
const listed = new Intl.ListFormat("en");

function element(name, attributes = {}, text = "") {
  const svg = ["path", "line", "text", "circle", "g"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function choices(place, name, values, first) {
  for (const value of values) {
    const label = element("label");
    const input = element("input", { type: "radio", name, value });
    input.checked = value === first;
    label.append(input, element("span", {}, value.replaceAll("_", " ")));
    $(place).append(label);
  }
}

function kind(circuit, feature) {
  return circuit.causal.includes(feature) ? "causal" : circuit.planted.includes(feature) ? "planted" : "";
}

const ROWS = Array.from({ length: N_FEATURES }, (_, feature) => {
  const row = element("div", { role: "listitem" });
  const bar = element("div", { class: "bar" });
  bar.append(element("i"), element("u"));
  row.append(element("b", {}, `f${feature}`), bar, element("code"));
  $("ranking").append(row);
  return row;
});

function showRanking(circuit, values, limit) {
  const top = Math.max(...values, ...(limit || [0]), 1e-9);
  const order = values.map((_, feature) => feature).sort((a, b) => values[b] - values[a] || a - b);
  order.forEach((feature, place) => {
    const row = ROWS[feature];
    row.className = `row ${kind(circuit, feature)}`;
    row.dataset.place = place;
    row.style.transform = `translateY(${place * 2.2}rem)`;
    row.querySelector("i").style.width = `${(100 * values[feature]) / top}%`;
    row.querySelector("u").style.left = limit ? `${(100 * limit[feature]) / top}%` : "";
    row.querySelector("u").hidden = !limit;
    row.querySelector("code").textContent = values[feature].toFixed(4);
    row.setAttribute("aria-label", `f${feature}, ${kind(circuit, feature) || "unread"}, ${values[feature].toFixed(4)}`);
  });
}

function verdict(circuit, values) {
  const others = values.map((_, feature) => feature).filter((feature) => !circuit.causal.includes(feature));
  const above = (one) => others.filter((other) => values[other] >= values[one]).length;
  const lost = circuit.causal.filter((feature) => above(feature) > 0).map((feature) => `f${feature}`);
  if (!lost.length) return "All causal features come first.";
  const over = others.filter((other) => circuit.causal.some((one) => values[other] >= values[one]));
  const names = over.map((feature) => `f${feature}`);
  const are = names.length > 1 ? "are" : "is";
  return `${listed.format(names)} ${are} level with, or above, the causal ${listed.format(lost)}.`;
}

function showPlot(circuit) {
  const svg = $("plot");
  const [low, high] = [-2, 3.6];
  const x = (value) => 160 + value * 50;
  const y = (value) => 175 - ((value - low) / (high - low)) * 165;
  svg.replaceChildren(
    element("line", { x1: x(-3.1), x2: x(3.1), y1: y(0), y2: y(0), stroke: "var(--line)" }),
    element("line", { x1: x(0), x2: x(0), y1: y(low), y2: y(high), stroke: "var(--line)" }),
  );
  for (const value of [-2, 0, 2]) svg.append(element("text", { x: x(value) - 3, y: 187 }, String(value)));
  const shown = [...DATA.causalGates, ...circuit.planted];
  for (const feature of shown) {
    const step = 4, points = [];
    const response = along(circuit, feature);
    const rest = output(circuit, onData(circuit, new Float64Array(N_FEATURES)));
    for (let place = 0; place < POINTS.length; place += step)
      if (Math.abs(POINTS[place]) <= 3.1)
        points.push(`${x(POINTS[place]).toFixed(1)},${y(response[place] - rest).toFixed(1)}`);
    const colour = kind(circuit, feature) === "causal" ? "var(--causal)" : "var(--planted)";
    svg.append(element("path", { d: `M${points.join("L")}`, fill: "none", stroke: colour, "stroke-width": 1.4 }));
  }
  $("plot-says").textContent = "By how much the output changes as one feature moves and others stay at 0, "
    + "or at what they are in the data.";
}

let latest = 0;

/** Fills the table cell by cell, so that controls answer meanwhile; a later call ends an earlier one. */
async function showTable(state) {
  const mine = ++latest;
  delete $("table").dataset.done;
  for (const [cell, method, name] of CELLS) {
    cell.classList.toggle("chosen", method === state.method && name === state.circuit);
  }
  for (const [cell, method, name] of CELLS) {
    await new Promise((go) => setTimeout(go));
    if (mine !== latest) return;
    const found = auroc(scores(name, method, state.strength, state.samples, state.seed), DATA.circuits[name].causal);
    cell.firstChild.textContent = found.toFixed(3);
    cell.firstChild.setAttribute("aria-label", `${method} on ${name}: AUROC ${found.toFixed(3)}`);
    cell.classList.toggle("fooled", method !== "random" && found < 1);
  }
  $("table").dataset.done = "yes";
}

const CELLS = [];

function makeTable() {
  const head = element("tr");
  head.append(element("th"), ...DATA.order.map((name) => element("th", {}, name.replaceAll("_", " "))));
  $("table").append(head);
  for (const method of DATA.methods) {
    const row = element("tr");
    row.append(element("th", {}, method.replaceAll("_", " ")));
    for (const name of DATA.order) {
      const cell = element("td"), button = element("button", { type: "button" }, "…");
      button.addEventListener("click", () => choose(name, method));
      cell.append(button);
      row.append(cell);
      CELLS.push([cell, method, name]);
    }
    $("table").append(row);
  }
}

function choose(circuit, method) {
  document.querySelector(`input[name="circuit"][value="${circuit}"]`).checked = true;
  document.querySelector(`input[name="method"][value="${method}"]`).checked = true;
  show();
}

function show() {
  const state = {
    circuit: chosen("circuit"),
    method: chosen("method"),
    strength: Number($("strength").value),
    samples: 2 ** Number($("samples").value),
    seed: Number($("seed").value),
  };
  const circuit = circuitAt(state.circuit, state.strength);
  const values = scores(state.circuit, state.method, state.strength, state.samples, state.seed);
  const limit = expected(state.circuit, state.method, state.strength);
  $("strength-said").textContent = state.strength.toFixed(2);
  $("samples-said").textContent = state.samples;
  $("seed-said").textContent = state.seed;
  $("says").textContent = circuit.says;
  $("auroc").textContent = auroc(values, circuit.causal).toFixed(4);
  $("auroc-expected").textContent = limit ? auroc(limit.map(rounded), circuit.causal).toFixed(4) : "0.5";
  $("verdict").textContent = verdict(circuit, values);
  showRanking(circuit, values, limit);
  showPlot(circuit);
  showTable(state);
}

makeTable();
choices("circuits", "circuit", DATA.order, "suppressor");
choices("methods", "method", DATA.methods, "gradient");
$("controls").addEventListener("input", show);
$("controls").addEventListener("submit", (event) => event.preventDefault());
show();
