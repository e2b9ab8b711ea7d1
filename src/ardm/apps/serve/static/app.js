// The page of `ardm serve`. No framework, no build step, nothing from elsewhere.
"use strict";

// ---------------------------------------------------------------- helpers

const byId = (id) => document.getElementById(id);

/** An element with properties and children; texts are never read as HTML. */
function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function toBase64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const pngUrl = (data) => `data:image/png;base64,${data}`;

function later(milliseconds, action) {
  let timer = 0;
  return (...values) => { clearTimeout(timer); timer = setTimeout(() => action(...values), milliseconds); };
}

const whole = (n) => Math.round(n).toLocaleString("en");
const bytesText = (n) => `${whole(n)} byte${n === 1 ? "" : "s"}`;
function secondsText(s) {
  if (s < 0.095) return "under 0.1\u00a0s";
  return s < 10 ? `${s.toFixed(1)}\u00a0s` : s < 100 ? `${Math.round(s)}\u00a0s` : `${Math.round(s / 60)}\u00a0min`;
}
const aboutText = (s) => (s < 0.095 ? secondsText(s) : `about ${secondsText(s)}`);
const callsText = (n) => `${whole(n)} call${n === 1 ? "" : "s"}`;

const COLOURS = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]];
/** The colour of a share from 0 to 1, from dark to bright. */
function heat(share) {
  const place = Math.max(0, Math.min(1, share)) * (COLOURS.length - 1);
  const i = Math.min(COLOURS.length - 2, Math.floor(place));
  return COLOURS[i].map((c, channel) => Math.round(c + (place - i) * (COLOURS[i + 1][channel] - c)));
}

function legend(highest, unit) {
  const bar = make("canvas", { width: 160, height: 1 });
  const pen = bar.getContext("2d");
  for (let x = 0; x < 160; x++) { pen.fillStyle = `rgb(${heat(x / 159)})`; pen.fillRect(x, 0, 1, 1); }
  return make("div", { className: "legend" }, "0", bar, `${highest.toFixed(1)} ${unit}`);
}

function download(bytes, name, type = "application/octet-stream", label = `Download ${name}`) {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  return make("a", { className: "button", href: url, download: name, textContent: label });
}

// ---------------------------------------------------------------- talking to the server

async function post(path, values, signal) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values), signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is `ardm serve` still running?");
  }
  if (response.ok) return response;
  let message = `the server answered with status ${response.status}`;
  try { message = (await response.json()).error ?? message; } catch { /* no JSON */ }
  throw new Error(message);
}

/** The events of a job, one by one; aborting the signal cancels the job. */
async function* events(path, values, signal) {
  const response = await post(path, values, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 2);
        if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the connection to the server was lost");
  }
}

/** A button that starts a job and, while it runs, cancels it. */
class Runner {
  constructor({ button, progress, status, error, label }) {
    Object.assign(this, { button, progress, status, error, label });
    this.stop = null;
    button.addEventListener("click", () => (this.stop ? this.stop.abort() : this.onClick?.()));
  }

  get isRunning() { return this.stop !== null; }

  fail(message) {
    this.error.textContent = message;
    this.error.hidden = !message;
  }

  /** Runs a job to its end; returns its result, or null if there is none. */
  async run(path, values, onState = () => {}) {
    if (this.isRunning) return null;
    this.stop = new AbortController();
    this._show(true);
    this.fail("");
    try {
      for await (const event of events(path, values, this.stop.signal)) {
        if (event.kind === "result") { this.status.textContent = ""; return event; }
        if (event.kind === "error") throw new Error(event.message);
        if (event.kind === "cancelled") break;
        this._handle(event);
        if (event.kind === "state") onState(event);
      }
      this.status.textContent = "cancelled";
    } catch (error) {
      this.status.textContent = error.name === "AbortError" ? "cancelled" : "";
      if (error.name !== "AbortError") this.fail(error.message);
    } finally {
      this.stop = null;
      this._show(false);
    }
    return null;
  }

  _handle(event) {
    if (event.kind === "waiting") {
      this.status.textContent = event.ahead ? `waiting for ${event.ahead} other job${event.ahead === 1 ? "" : "s"}` : "starting";
    } else if (event.kind === "progress") {
      this.progress.value = event.done / Math.max(1, event.total);
      this.status.textContent = `${event.title || "sampling"}: ${Math.round(100 * this.progress.value)}%`;
    }
  }

  _show(isRunning) {
    this.button.textContent = isRunning ? "Cancel" : this.label;
    this.button.classList.toggle("stops", isRunning);
    this.progress.hidden = !isRunning;
    this.progress.value = 0;
  }
}

// ---------------------------------------------------------------- shared by all samplers

/** The settings of a sampler: model, samples, calls, order, temperature; shows what they are expected to cost. */
class Controls {
  constructor(place, models, request, label, maxSamples) {
    this.models = models;
    this.request = request;
    const id = `${models[0].medium}-`;
    const input = (name, properties) => make("input", { id: id + name, ...properties });
    this.model = make("select", { id: id + "model" }, ...models.map((m) => make("option", { value: m.key, textContent: m.title })));
    this.samples = input("samples", { type: "number", min: 1, max: maxSamples, value: 4 });
    this.calls = input("calls", { type: "range", min: 0, max: 0, value: 0 });
    this.count = make("output", {});
    this.order = make("select", { id: id + "order" }, ...models[0].orders.map((o) => make("option", { value: o, textContent: o })));
    this.temperature = input("temperature", { type: "number", min: 0.1, max: 2, step: 0.05, value: 1 });
    this.expected = make("p", { className: "expected" });
    this.expected.setAttribute("aria-live", "polite");
    const button = make("button", { id: id + "run", className: "main", type: "button", textContent: label });
    const progress = make("progress", { max: 1, value: 0, hidden: true });
    progress.setAttribute("aria-label", "Progress");
    const status = make("p", { className: "status" });
    status.setAttribute("role", "status");
    const error = make("p", { id: id + "error", className: "error", hidden: true });
    error.setAttribute("role", "alert");
    const field = (text, node) => make("label", { className: "field" }, text, node);
    const callsLabel = make("label", { className: "field block", htmlFor: this.calls.id }, "Calls of the network", this.count);
    place.append(
      callsLabel, this.calls, this.expected,
      make("div", { className: "options" },
        ...(models.length > 1 ? [field("Model", this.model)] : []),
        field("Samples", this.samples), field("Order", this.order), field("Temperature", this.temperature)),
      make("div", { className: "row" }, button, progress), status, error);
    this.runner = new Runner({ button, progress, status, error, label });
    this.budgets = [];
    this.wanted = null;
    this.calls.addEventListener("input", () => { this.wanted = this.numCalls; this.show(); });
    this.samples.addEventListener("input", () => this.show());
    this.update = later(120, () => this._update());
    this.model.addEventListener("change", () => { this.wanted = null; this.onModel?.(); this.update(); });
  }

  get chosen() { return this.models.find((m) => m.key === this.model.value) ?? this.models[0]; }
  get numCalls() { return this.budgets[this.calls.value]?.calls ?? 1; }

  /** The request for samples, with a fresh seed. */
  values() {
    return {
      ...this.request(), model: this.chosen.key, samples: Number(this.samples.value), calls: this.numCalls,
      order: this.order.value, temperature: Number(this.temperature.value), seed: Math.floor(Math.random() * 2 ** 31),
    };
  }

  /** Ask the server what each number of calls costs for what would be filled now. */
  async _update() {
    this._last?.abort();
    const missing = this.missing?.();
    if (missing) {
      this.budgets = [];
      this.count.textContent = "";
      this.expected.textContent = missing;
      return;
    }
    const last = (this._last = new AbortController());
    try {
      const response = await post("/api/budgets", { ...this.request(), model: this.chosen.key }, last.signal);
      const { budgets, seconds, hidden } = await response.json();
      Object.assign(this, { budgets, seconds, hidden });
      this.calls.max = budgets.length - 1;
      const wanted = this.wanted ?? this._initialCalls();
      this.calls.value = budgets.reduce((best, b, i) => (Math.abs(b.calls - wanted) < Math.abs(budgets[best].calls - wanted) ? i : best), 0);
      this.show();
    } catch (error) {
      if (error.name !== "AbortError") { this.budgets = []; this.count.textContent = ""; this.expected.textContent = error.message; }
    }
  }

  /** The initial number of calls: about 50, unless they take more than a few seconds. */
  _initialCalls() {
    return Math.max(this.chosen.stages, Math.min(this.chosen.stages > 1 ? 80 : 50, 15 / (this.seconds * Number(this.samples.value))));
  }

  show() {
    const budget = this.budgets[this.calls.value];
    if (!budget) return;
    const count = Math.max(1, Number(this.samples.value) || 1);
    this.count.textContent = callsText(budget.calls);
    this.calls.setAttribute("aria-valuetext", this.count.textContent);
    const full = this.budgets[this.budgets.length - 1].bits;
    const parts = [];
    if (budget.bits !== null) {
      parts.push(`expected ${whole(budget.bits)} bits (${(budget.bits / this.hidden).toFixed(2)} ${this.chosen.unit})`);
      if (budget.bits > full) parts.push(`${(100 * (budget.bits / full - 1)).toFixed(1)}% more than with one variable per call`);
    }
    parts.push(aboutText(budget.calls * count * this.seconds));
    this.expected.textContent = parts.join(" · ");
  }
}

/** Plays the states of a chain: play, pause, scrub. */
class Player {
  constructor(place, draw) {
    this.draw = draw;
    this.button = make("button", { type: "button", textContent: "Play" });
    this.slider = make("input", { type: "range", min: 0, max: 0, value: 0 });
    this.slider.setAttribute("aria-label", "State of the process");
    this.label = make("output", {});
    this.box = make("div", { className: "replay", hidden: true }, this.button, this.slider, this.label);
    place.append(this.box);
    this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    this.slider.addEventListener("input", () => { this.pause(); this.follows = false; this._show(); });
    this.clear();
  }

  clear() {
    this.pause();
    this.states = [];
    this.follows = true;
    this.box.hidden = true;
  }

  add(state) {
    this.states.push(state);
    this.box.hidden = false;
    this.slider.max = this.states.length - 1;
    if (this.follows) this.go(this.states.length - 1);
  }

  go(place) { this.slider.value = place; this._show(); }

  play() {
    if (!this.states.length) return;
    if (Number(this.slider.value) >= this.states.length - 1) this.go(0);
    this.follows = false;
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      if (Number(this.slider.value) >= this.states.length - 1) this.pause();
      else this.go(Number(this.slider.value) + 1);
    }, Math.max(60, Math.min(250, 4000 / this.states.length)));
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.textContent = "Play";
  }

  _show() {
    const state = this.states[this.slider.value];
    if (!state) return;
    this.label.textContent = state.call ? `call ${whole(state.call)} of ${whole(state.calls)}` : "done";
    this.slider.setAttribute("aria-valuetext", this.label.textContent);
    this.draw(state, Number(this.slider.value) === this.states.length - 1);
  }
}

/** Lets files be dropped on an element, or chosen. */
function acceptFiles(place, input, take) {
  place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
  input.addEventListener("change", () => { if (input.files.length) take(input.files[0]); input.value = ""; });
}

async function readFile(file, limits) {
  if (file.size > limits.file_bytes) {
    throw new Error(`${file.name} has ${bytesText(file.size)}; this page takes up to ${bytesText(limits.file_bytes)}`);
  }
  return new Uint8Array(await file.arrayBuffer());
}

// ---------------------------------------------------------------- images

class Images {
  constructor(models, limits) {
    this.canvas = byId("image-canvas");
    this.note = byId("image-note");
    this.source = null;
    this.cursor = null;
    this.controls = new Controls(document.querySelector(".controls[data-for=images]"), models, () => this.request(), "Fill", limits.samples);
    this.player = new Player(document.querySelector(".player[data-for=images]"), (state) => this.drawResults(state));
    this.controls.runner.onClick = () => this.run();
    this.controls.onModel = () => this.listSizes();
    this.controls.missing = () => (this.mask.includes(1) ? "" : "Paint over a part of the image first.");
    this.limits = limits;
    acceptFiles(byId("image-drop"), byId("image-file"), (file) => this.load(file));
    byId("image-nothing").addEventListener("click", () => { this.source = null; this.fit(); });
    byId("image-size").addEventListener("change", () => this.fit());
    byId("mask-clear").addEventListener("click", () => { this.mask.fill(0); this.changed(); });
    byId("mask-invert").addEventListener("click", () => { this.mask.forEach((m, i) => { this.mask[i] = 1 - m; }); this.changed(); });
    this.listenToPointer();
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => { this.cursor = null; this.draw(); });
    this.listSizes();
  }

  listSizes() {
    const { width, height } = this.controls.chosen;
    const sides = [48, 64, 96, 128].filter((side) => side > Math.max(width, height));
    byId("image-size").replaceChildren(
      make("option", { value: "own", textContent: `${width} × ${height} (as trained)` }),
      ...sides.map((side) => make("option", { value: side, textContent: `up to ${side} × ${side}` })));
    this.fit();
  }

  async load(file) {
    try {
      if (file.size > 32 * 2 ** 20) throw new Error(`${file.name} has ${bytesText(file.size)}, too many for this page`);
      this.source = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} is not an image that this browser can read`); });
      this.fit();
      this.controls.runner.fail("");
      this.note.textContent = `${file.name}, ${this.source.width} × ${this.source.height}: paint what to fill.${this.caveat()}`;
    } catch (error) { this.controls.runner.fail(error.message); }
  }

  /** A warning about models with several stages. */
  caveat() { return this.controls.chosen.stages > 1 ? " This model refines values in stages, so what it fills is an approximation of p(gap | rest)." : ""; }

  /** Scale the source, or a blank image, to the chosen size. */
  fit() {
    const { width, height } = this.controls.chosen, choice = byId("image-size").value, source = this.source;
    const side = choice === "own" ? 0 : Number(choice);
    if (!source || !side) [this.width, this.height] = side ? [side, side] : [width, height];
    else {
      const scale = Math.min(1, side / Math.max(source.width, source.height));
      [this.width, this.height] = [source.width, source.height].map((n) => Math.max(1, Math.round(n * scale)));
    }
    this.pixels = source ? this.scaled(source) : null;
    this.mask = new Uint8Array(this.width * this.height).fill(source ? 0 : 1);
    this.scale = Math.max(1, Math.floor(384 / Math.max(this.width, this.height)));
    this.canvas.width = this.width * this.scale;
    this.canvas.height = this.height * this.scale;
    if (!source) this.note.textContent = "Nothing is known: the model draws whole images. Drop one here to fill a part of it.";
    this.changed();
  }

  /** The source cut and scaled to cover the canvas. */
  scaled(source) {
    const scratch = make("canvas", { width: this.width, height: this.height }), pen = scratch.getContext("2d");
    const scale = Math.max(this.width / source.width, this.height / source.height);
    const [w, h] = [this.width / scale, this.height / scale];
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, this.width, this.height);
    pen.imageSmoothingEnabled = scale !== 1;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(source, (source.width - w) / 2, (source.height - h) / 2, w, h, 0, 0, this.width, this.height);
    return pen.getImageData(0, 0, this.width, this.height);
  }

  changed() { this.draw(); this.controls.update(); }

  draw() {
    const pen = this.canvas.getContext("2d"), s = this.scale;
    pen.imageSmoothingEnabled = false;
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.pixels) {
      const scratch = make("canvas", { width: this.width, height: this.height });
      scratch.getContext("2d").putImageData(this.pixels, 0, 0);
      pen.drawImage(scratch, 0, 0, this.canvas.width, this.canvas.height);
    }
    for (let y = 0; y < this.height; y++) {
      for (let x = 0; x < this.width; x++) {
        if (!this.mask[y * this.width + x]) continue;
        pen.fillStyle = (x + y) % 2 ? "rgba(128, 128, 140, .93)" : "rgba(150, 150, 162, .93)";
        pen.fillRect(x * s, y * s, s, s);
      }
    }
    if (this.box) this.outline(this.box);
    if (this.cursor) this.outline({ left: this.cursor.x, top: this.cursor.y, right: this.cursor.x + 1, bottom: this.cursor.y + 1 });
  }

  outline({ left, top, right, bottom }) {
    const pen = this.canvas.getContext("2d"), s = this.scale;
    for (const [colour, inset] of [["#fff", 0], ["#4f46e5", 1.5]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = 2;
      pen.strokeRect(left * s + inset, top * s + inset, (right - left) * s - 2 * inset, (bottom - top) * s - 2 * inset);
    }
  }

  get tool() { return document.querySelector("input[name=tool]:checked").value; }

  /** Paint (1) or erase (0) a round spot. */
  spot(x, y, value) {
    const radius = Number(byId("brush").value) / 2;
    for (let v = Math.floor(y - radius); v <= y + radius; v++) {
      for (let u = Math.floor(x - radius); u <= x + radius; u++) {
        const isNear = (u + 0.5 - x) ** 2 + (v + 0.5 - y) ** 2 <= Math.max(0.5, radius ** 2);
        if (isNear && u >= 0 && v >= 0 && u < this.width && v < this.height) this.mask[v * this.width + u] = value;
      }
    }
  }

  /** Paint from one place to another. */
  stroke(from, to, value) {
    const count = Math.ceil(Math.hypot(to.x - from.x, to.y - from.y)) || 1;
    for (let i = 0; i <= count; i++) this.spot(from.x + (to.x - from.x) * i / count, from.y + (to.y - from.y) * i / count, value);
  }

  listenToPointer() {
    let from = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return { x: (event.clientX - box.left) / box.width * this.width, y: (event.clientY - box.top) / box.height * this.height };
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      from = place(event);
      if (!this.pixels) this.note.textContent = "There is no image yet, so everything is filled. Choose an image to paint on.";
      if (this.tool !== "rectangle") { this.spot(from.x, from.y, this.tool === "brush" ? 1 : 0); this.draw(); }
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = place(event);
      if (this.tool === "rectangle") this.box = this.rectangle(from, to);
      else { this.stroke(from, to, this.tool === "brush" ? 1 : 0); from = to; }
      this.draw();
    });
    const finish = () => {
      if (this.box) this.fillBox(this.box);
      from = this.box = null;
      if (!this.pixels) this.mask.fill(1);
      this.changed();
    };
    this.canvas.addEventListener("pointerup", finish);
    this.canvas.addEventListener("pointercancel", finish);
  }

  rectangle(a, b) {
    const inside = (n, limit) => Math.max(0, Math.min(limit, n));
    return {
      left: inside(Math.floor(Math.min(a.x, b.x)), this.width), right: inside(Math.ceil(Math.max(a.x, b.x)), this.width),
      top: inside(Math.floor(Math.min(a.y, b.y)), this.height), bottom: inside(Math.ceil(Math.max(a.y, b.y)), this.height),
    };
  }

  fillBox({ left, top, right, bottom }) {
    for (let y = top; y < bottom; y++) this.mask.fill(1, y * this.width + left, y * this.width + right);
  }

  onKey(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    this.cursor ??= { x: Math.floor(this.width / 2), y: Math.floor(this.height / 2) };
    const { x, y } = this.cursor, paints = this.tool !== "eraser" ? 1 : 0;
    if (event.key in steps) {
      const [dx, dy] = steps[event.key];
      this.cursor = { x: Math.max(0, Math.min(this.width - 1, x + dx)), y: Math.max(0, Math.min(this.height - 1, y + dy)) };
      if (event.shiftKey && this.pixels) this.spot(this.cursor.x + 0.5, this.cursor.y + 0.5, paints);
    } else if (event.key === " " || event.key === "Enter") {
      if (this.pixels) this.spot(x + 0.5, y + 0.5, paints);
    } else return;
    event.preventDefault();
    this.changed();
  }

  request() {
    const values = { width: this.width, height: this.height };
    if (!this.pixels) return values;
    const colours = new Uint8Array(3 * this.width * this.height), data = this.pixels.data;
    for (let i = 0; i < this.width * this.height; i++) for (let c = 0; c < 3; c++) colours[3 * i + c] = data[4 * i + c];
    return { ...values, pixels: toBase64(colours), mask: this.mask.join("") };
  }

  async run() {
    const values = this.controls.values();
    this.shape = { width: values.width, height: values.height, samples: values.samples };
    this.player.clear();
    byId("image-results").replaceChildren(...Array.from({ length: Math.min(values.samples, 64) || 0 }, (_, i) => this.frame(i)));
    let waits = Promise.resolve();
    const add = (state) => { waits = waits.then(async () => this.player.add({ ...state, bitmap: await createImageBitmap(new Blob([fromBase64(state.picture)])) })); };
    const result = await this.controls.runner.run("/api/fill", values, add);
    await waits;
    if (!result) return;
    this.controls.runner.status.textContent = `${callsText(result.calls)} in ${secondsText(result.seconds)}, seed ${result.seed}`;
    byId("image-results").dataset.done = result.seed;
    this.controls.update();
  }

  frame(number) {
    const { width, height } = this.shape;
    const canvas = make("canvas", { width, height });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Sample ${number + 1}`);
    const use = make("button", { type: "button", className: "small", textContent: "Edit", title: "Use this as the image to fill" });
    use.addEventListener("click", async () => {
      this.source = await createImageBitmap(canvas);
      this.fit();
      this.note.textContent = `Sample ${number + 1}: paint what to fill.${this.caveat()}`;
    });
    const save = make("button", { type: "button", className: "small", textContent: "Save" });
    save.addEventListener("click", () => canvas.toBlob((blob) => {
      const link = make("a", { href: URL.createObjectURL(blob), download: `sample-${number + 1}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }));
    return make("figure", {}, canvas, make("figcaption", {}, use, save));
  }

  drawResults(state) {
    const { width, height } = this.shape;
    byId("image-results").querySelectorAll("canvas").forEach((canvas, i) => {
      canvas.getContext("2d").drawImage(state.bitmap, 0, i * height, width, height, 0, 0, width, height);
    });
  }
}

// ---------------------------------------------------------------- text

/** A line of characters, shaded by their bits where these are known. */
function shadedText(text, { filled = [], bits = null, hidden = null } = {}) {
  const box = make("p", { className: "sample" });
  [...text].forEach((character, i) => {
    const span = make("span", { textContent: character });
    if (filled[i]) span.className = hidden && character === hidden ? "hidden" : "filled";
    if (bits && bits[i] > 0) {
      span.style.backgroundColor = `rgba(var(--shade), ${Math.min(0.6, bits[i] / 14).toFixed(3)})`;
      span.title = `${bits[i].toFixed(2)} bits`;
    }
    box.append(span);
  });
  return box;
}

class Texts {
  constructor(models, limits) {
    this.input = byId("text-input");
    this.results = byId("text-results");
    this.controls = new Controls(document.querySelector(".controls[data-for=text]"), models, () => ({ text: this.input.value }), "Fill", limits.samples);
    this.player = new Player(document.querySelector(".player[data-for=text]"), (state, isLast) => this.draw(state, isLast));
    this.controls.runner.onClick = () => this.run();
    this.controls.onModel = () => this.describe();
    this.controls.missing = () => (this.input.value && !this.input.value.includes("_") ? "Mark what to fill with _ first." : "");
    this.input.value = "the c__ sat on ___ mat and ______ the mouse";
    this.input.addEventListener("input", () => { this.describe(); this.controls.update(); });
    byId("text-hide").addEventListener("click", () => this.hide());
    byId("text-clear").addEventListener("click", () => this.put("_".repeat(Math.min(120, this.controls.chosen.length))));
    byId("text-score").addEventListener("click", () => this.score());
    this.describe();
    this.controls.update();
  }

  put(text) { this.input.value = text; this.describe(); this.controls.update(); }

  describe() {
    const { length, alphabet } = this.controls.chosen, count = [...this.input.value].length;
    const gaps = [...this.input.value].filter((c) => c === "_").length;
    const takes = alphabet === null ? "any bytes" : alphabet.length <= 40 ? `the characters “${alphabet}”` : `${alphabet.length} different characters`;
    byId("text-note").textContent = `${count} of at most ${length} characters, ${gaps} of them to fill. The model takes ${takes}.`;
  }

  hide() {
    const { selectionStart: start, selectionEnd: end, value } = this.input;
    if (start === end) { byId("text-note").textContent = "Select some characters first; they become gaps."; this.input.focus(); return; }
    const gap = "_".repeat([...value.slice(start, end)].length);
    this.put(value.slice(0, start) + gap + value.slice(end));
    this.input.focus();
    this.input.setSelectionRange(start, start + gap.length);
  }

  async run() {
    const values = this.controls.values();
    this.player.clear();
    this.results.replaceChildren();
    delete this.results.dataset.done;
    this.filled = values.text ? [...values.text].map((c) => c === "_") : null;
    const result = await this.controls.runner.run("/api/fill", values, (state) => this.player.add(state));
    if (!result) return;
    this.filled = result.filled;
    this.player.states.pop();
    this.player.add({ ...result, call: result.calls, calls: result.calls });
    this.results.dataset.done = result.seed;
    this.controls.runner.status.textContent = `${callsText(result.calls)} in ${secondsText(result.seconds)}, seed ${result.seed}`;
    this.controls.update();
  }

  draw(state, isLast) {
    const hidden = isLast && state.bits !== undefined ? null : "_";
    this.results.replaceChildren(...state.texts.map((text, i) => {
      const filled = this.filled ?? [...text].map(() => true);
      return shadedText(text, { filled, hidden, bits: state.bits?.[i] });
    }));
    if (state.bits) this.results.append(make("p", { className: "note", textContent: "Shading: the bits of each filled character when its turn came; point at one to see its number." }));
  }

  async score() {
    const values = { model: this.controls.chosen.key, text: this.input.value, calls: this.controls.chosen.variables };
    const result = await this.controls.runner.run("/api/score", values);
    if (!result) return;
    this.player.clear();
    const total = result.bits[0].reduce((sum, b) => sum + b, 0);
    this.results.replaceChildren(
      shadedText(result.texts[0], { bits: result.bits[0] }),
      make("p", { className: "note", textContent: `${total.toFixed(1)} bits, ${(total / result.bits[0].length).toFixed(2)} ${this.controls.chosen.unit}, characters in a spread-out order, one per call` }));
  }
}

// ---------------------------------------------------------------- sound

/** Bars around the middle, or from the bottom up; those within a range (fractions of the width) stand out. */
function drawPeaks(canvas, peaks, { range = null, fromBottom = false } = {}) {
  const pen = canvas.getContext("2d"), { width, height } = canvas, style = getComputedStyle(canvas);
  pen.clearRect(0, 0, width, height);
  if (range) {
    pen.fillStyle = style.getPropertyValue("--tint");
    pen.fillRect(range[0] * width, 0, (range[1] - range[0]) * width, height);
  }
  const loudest = Math.max(0.05, ...peaks);
  peaks.forEach((peak, i) => {
    const isInRange = range && i / peaks.length >= range[0] && i / peaks.length < range[1];
    pen.fillStyle = style.getPropertyValue(isInRange ? "--accent" : "--soft");
    const h = Math.max(1, peak / loudest * (height - 8));
    pen.fillRect(i / peaks.length * width, fromBottom ? height - h : (height - h) / 2, Math.max(1, width / peaks.length - 0.5), h);
  });
}

const wavPlayer = (bytes) => make("audio", { controls: true, src: URL.createObjectURL(new Blob([bytes], { type: "audio/wav" })) });

class Sounds {
  constructor(models, limits) {
    this.limits = limits;
    this.file = null;
    this.start = byId("sound-start");
    this.stop = byId("sound-stop");
    this.canvas = byId("sound-canvas");
    this.controls = new Controls(document.querySelector(".controls[data-for=sound]"), models, () => this.request(), "Fill", limits.samples);
    this.controls.samples.value = 2;
    this.player = new Player(document.querySelector(".player[data-for=sound]"), (state) => this.draw(state));
    this.controls.runner.onClick = () => this.run();
    this.controls.onModel = () => this.clear();
    acceptFiles(byId("sound-drop"), byId("sound-file"), (file) => this.load(file));
    byId("sound-nothing").addEventListener("click", () => this.clear());
    for (const input of [this.start, this.stop]) input.addEventListener("input", () => { this.drawRange(); this.controls.update(); });
    this.listenToPointer();
    new MutationObserver(() => this.drawRange()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.clear();
  }

  clear() {
    this.file = this.peaks = null;
    const { samples, rate } = this.controls.chosen;
    this.seconds = samples / rate;
    byId("sound-picture").hidden = byId("sound-player").hidden = true;
    byId("sound-note").textContent = `Nothing is known: the model draws ${this.seconds.toFixed(2)} seconds of sound at ${rate} Hz. Drop a WAV file here to fill a part of it.`;
    this.start.value = 0;
    this.stop.value = this.seconds.toFixed(2);
    this.start.disabled = this.stop.disabled = true;
    this.drawRange();
    this.controls.update();
  }

  async load(file) {
    try {
      const bytes = await readFile(file, this.limits);
      const content = { file: toBase64(bytes), name: file.name };
      const response = await post("/api/preview", { model: this.controls.chosen.key, ...content });
      const looks = await response.json();
      this.file = content;
      this.peaks = looks.peaks;
      this.seconds = looks.seconds;
      byId("sound-picture").src = pngUrl(looks.spectrogram);
      byId("sound-player").src = URL.createObjectURL(new Blob([bytes]));
      byId("sound-picture").hidden = byId("sound-player").hidden = false;
      byId("sound-note").textContent = `${file.name}, ${this.seconds.toFixed(2)} seconds: drag over the part to fill.`;
      this.start.disabled = this.stop.disabled = false;
      this.start.max = this.stop.max = this.seconds;
      this.start.value = (this.seconds * 0.4).toFixed(2);
      this.stop.value = (this.seconds * 0.6).toFixed(2);
      this.controls.runner.fail("");
      this.drawRange();
      this.controls.update();
    } catch (error) { this.controls.runner.fail(error.message); }
  }

  drawRange() {
    const range = [this.start, this.stop].map((input) => Number(input.value) / this.seconds);
    drawPeaks(this.canvas, this.peaks ?? [], { range });
  }

  listenToPointer() {
    let from = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * this.seconds;
    };
    this.canvas.addEventListener("pointerdown", (event) => { if (this.file) { this.canvas.setPointerCapture(event.pointerId); from = place(event); } });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = place(event);
      this.start.value = Math.min(from, to).toFixed(3);
      this.stop.value = Math.min(this.seconds, Math.max(from, to)).toFixed(3);
      this.drawRange();
    });
    const finish = () => { if (from !== null) { from = null; this.controls.update(); } };
    this.canvas.addEventListener("pointerup", finish);
    this.canvas.addEventListener("pointercancel", finish);
  }

  request() {
    if (!this.file) return {};
    return { ...this.file, start: Number(this.start.value), stop: Math.min(this.seconds, Number(this.stop.value)) };
  }

  async run() {
    const values = this.controls.values(), results = byId("sound-results");
    this.player.clear();
    results.className = "sounds";
    results.replaceChildren(...Array.from({ length: Math.min(values.samples, 64) || 0 }, (_, i) =>
      make("figure", {}, make("img", { className: "spectrogram", alt: `Spectrogram of sample ${i + 1}` }))));
    delete results.dataset.done;
    const result = await this.controls.runner.run("/api/fill", values, (state) => this.player.add(state));
    if (!result) return;
    results.querySelectorAll("figure").forEach((figure, i) => figure.append(wavPlayer(fromBase64(result.files[i]))));
    results.dataset.done = result.seed;
    this.controls.runner.status.textContent = `${callsText(result.calls)} in ${secondsText(result.seconds)}, seed ${result.seed}`;
    this.controls.update();
  }

  draw(state) {
    byId("sound-results").querySelectorAll("img").forEach((image, i) => { image.src = pngUrl(state.spectrograms[i]); });
  }
}

// ---------------------------------------------------------------- compression

class Compress {
  constructor(models, limits) {
    this.models = models;
    this.limits = limits;
    this.model = byId("compress-model");
    this.calls = byId("compress-calls");
    this.results = byId("compress-results");
    this.file = null;
    this.runner = new Runner({
      button: byId("compress-run"), progress: byId("compress-progress"), status: byId("compress-status"),
      error: byId("compress-error"), label: "Compress",
    });
    this.runner.onClick = () => this.run();
    this.model.replaceChildren(...models.map((m) => make("option", { value: m.key, textContent: `${m.title} (${m.medium})` })));
    this.model.addEventListener("change", () => this.choose());
    this.calls.addEventListener("input", () => this.show());
    byId("compress-bits").addEventListener("change", () => this.show());
    acceptFiles(byId("compress-drop"), byId("compress-file"), (file) => this.take(file));
    this.choose();
  }

  get chosen() { return this.models.find((m) => m.key === this.model.value); }
  get budget() { return this.chosen.coding.budgets[this.calls.value]; }

  /** Choose the model's own number of calls, or fewer if these would take too long for the file. */
  choose() {
    const { budgets, default: own } = this.chosen.coding;
    this.calls.max = budgets.length - 1;
    const fits = budgets.filter((b) => b.calls <= own && this.seconds(b) <= 0.7 * this.limits.seconds);
    this.calls.value = Math.max(0, budgets.indexOf(fits.at(-1)));
    this.show();
  }

  /** The expected seconds to compress the file, or one window if its size is not known. */
  seconds(budget) {
    const passes = byId("compress-bits").checked ? 3 : 2;
    return budget.calls * this.chosen.variables * this.chosen.coding_seconds * passes * (this.numWindows() ?? 1);
  }

  /** The number of windows that cover the file; null if there is no file or its size is not known. */
  numWindows() {
    const { medium, width, height, channels, length, samples } = this.chosen, size = this.file?.size;
    const along = (all, own) => 1 + Math.max(0, Math.ceil((all - own) / (own - Math.floor(own / 8))));
    if (!size || size.medium !== medium) return null;
    if (medium === "images") return along(size.width, width) * along(size.height, height) * (channels === 1 ? 3 : 1);
    return along(size.length, medium === "text" ? length : samples);
  }

  show() {
    const { chosen, budget } = this, count = this.numWindows();
    byId("compress-count").textContent = callsText(budget.calls);
    this.calls.setAttribute("aria-valuetext", byId("compress-count").textContent);
    const parts = budget.bits === null ? [] : [`expected ${(budget.bits / chosen.variables).toFixed(2)} ${chosen.unit} on data like the model's`];
    const what = count === null ? `a window of ${this.windowText()}` : count === 1 ? "" : ` for ${whole(count)} windows of ${this.windowText()}`;
    parts.push(`${aboutText(this.seconds(budget))} ${what}`.trim());
    byId("compress-expected").textContent = parts.join(" · ");
  }

  /** A file's size as far as it is known before it is sent, and never more than its real size. */
  async sizeOf(file, bytes) {
    if (this.chosen.medium === "images") {
      const image = await createImageBitmap(file).catch(() => null);
      return image && { medium: "images", width: image.width, height: image.height };
    }
    if (this.chosen.medium === "sound") return /\.flac$/i.test(file.name) ? null : { medium: "sound", length: Math.max(1, (bytes.length - 44) / 2) };
    return { medium: "text", length: this.chosen.alphabet === null ? bytes.length : [...new TextDecoder().decode(bytes)].length };
  }

  windowText() {
    const { medium, width, height, length, samples, rate } = this.chosen;
    return medium === "images" ? `${width} × ${height}` : medium === "text" ? `${length} characters` : `${(samples / rate).toFixed(2)} s`;
  }

  async take(file) {
    if (this.runner.isRunning) return;
    this.runner.fail("");
    try {
      this.file = { name: file.name, bytes: await readFile(file, this.limits), type: file.type };
    } catch (error) { this.runner.fail(error.message); return; }
    byId("compress-name").textContent = `${file.name}, ${bytesText(file.size)}`;
    this.results.replaceChildren();
    const isOurs = file.name.toLowerCase().endsWith(".ardm");
    this.runner.label = isOurs ? "Restore" : "Compress";
    byId("compress-run").textContent = this.runner.label;
    byId("compress-run").disabled = false;
    if (isOurs) { this.restore(); return; }
    this.guessModel();
    this.file.size = await this.sizeOf(file, this.file.bytes);
    this.choose();
  }

  /** Choose a model of the file's kind, unless the chosen one is. */
  guessModel() {
    const { name, type } = this.file;
    const medium = type.startsWith("image/") ? "images" : type.startsWith("audio/") || /\.(wav|flac)$/i.test(name) ? "sound" : "text";
    const fits = this.models.find((m) => m.medium === medium);
    if (fits && this.chosen.medium !== medium) this.model.value = fits.key;
  }

  run() { return this.file.name.toLowerCase().endsWith(".ardm") ? this.restore() : this.compress(); }

  async compress() {
    const { file, chosen } = this, values = {
      model: chosen.key, file: toBase64(file.bytes), name: file.name, calls: this.budget.calls, bits: byId("compress-bits").checked,
    };
    const result = await this.runner.run("/api/compress", values);
    if (!result) return;
    const bytes = fromBase64(result.file);
    const again = make("button", { type: "button", id: "restore-again", textContent: "Restore it here" });
    again.addEventListener("click", () => this.restore({ name: result.name, bytes }));
    const rate = 8 * result.compressed / Math.max(1, result.variables);
    this.results.replaceChildren(
      make("p", { className: "good", textContent: result.stored ? "Stored as it is: coding would not make it shorter. Verified." : "Verified: it restores exactly." }),
      this.sizes(file, result, chosen),
      make("p", { className: "note", textContent: `${rate.toFixed(3)} ${chosen.unit}; compressed in ${secondsText(result.seconds)}, restored in ${secondsText(result.restore_seconds)}` }),
      make("div", { className: "row" }, Object.assign(download(bytes, result.name), { id: "download-compressed" }), again),
      ...this.bits(result, chosen),
      make("div", { id: "restored" }));
  }

  sizes(file, result, chosen) {
    const rows = [{ name: `ardm, ${chosen.title}`, bytes: result.compressed, isOwn: true }, ...result.others, { name: `${file.name} itself`, bytes: result.original }];
    const largest = Math.max(...rows.map((row) => row.bytes));
    return make("table", { className: "sizes" }, make("tbody", {}, ...rows.map(({ name, bytes, isOwn }) => {
      const meter = make("div", { className: "meter" });
      meter.style.width = `${100 * bytes / largest}%`;
      return make("tr", { className: isOwn ? "own" : "" }, make("th", { scope: "row", textContent: name }),
        make("td", {}, meter), make("td", { className: "number", textContent: bytesText(bytes) }));
    })));
  }

  /** Where the bits went. */
  bits({ bits, looks }, chosen) {
    if (!bits) return [];
    const title = { images: "Bits per pixel", text: "Bits per character", sound: "Bits per sample, over time" }[chosen.medium];
    const parts = [make("h2", { textContent: title })];
    if (bits.pixels) parts.push(...this.pixelBits(bits, looks));
    else if (bits.characters) {
      const shown = [...looks.text].slice(0, 4000);
      parts.push(Object.assign(shadedText(shown.join(""), { bits: bits.characters }), { className: "sample long", id: "heat" }));
      if (shown.length < bits.characters.length) parts.push(make("p", { className: "note", textContent: `The first ${whole(shown.length)} of ${whole(bits.characters.length)} characters.` }));
    } else {
      const canvas = make("canvas", { width: 800, height: 120, id: "heat" });
      canvas.className = "spectrogram";
      parts.push(make("img", { className: "spectrogram", src: pngUrl(looks.spectrogram), alt: "Spectrogram" }), canvas);
      requestAnimationFrame(() => drawPeaks(canvas, bits.columns, { fromBottom: true }));
      parts.push(make("p", { className: "note", textContent: `0 to ${Math.max(...bits.columns).toFixed(1)} bits per sample` }));
    }
    return parts;
  }

  pixelBits(bits, { picture, width, height }) {
    const values = new Float32Array(fromBase64(bits.pixels).buffer);
    const highest = Math.max(0.1, [...values].sort((a, b) => a - b)[Math.floor(0.995 * (values.length - 1))]);
    const canvas = make("canvas", { width, height, id: "heat" }), pen = canvas.getContext("2d"), data = pen.createImageData(width, height);
    values.forEach((value, i) => data.data.set([...heat(value / highest), 255], 4 * i));
    pen.putImageData(data, 0, 0);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Bits per pixel, brighter where there are more");
    const note = make("span", { textContent: "" });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const x = Math.min(width - 1, Math.floor((event.clientX - box.left) / box.width * width));
      const y = Math.min(height - 1, Math.floor((event.clientY - box.top) / box.height * height));
      note.textContent = ` · at ${x}, ${y}: ${values[y * width + x].toFixed(1)} bits`;
    });
    const scale = legend(highest, "bits per pixel");
    scale.append(note);
    return [make("div", { className: "pictures" }, make("img", { src: pngUrl(picture), alt: "The image" }), canvas), scale];
  }

  async restore(file = this.file) {
    const result = await this.runner.run("/api/restore", { file: toBase64(file.bytes), name: file.name });
    if (!result) return;
    const bytes = fromBase64(result.file);
    const link = Object.assign(download(bytes, result.name, result.type), { id: "download-restored" });
    const parts = [
      make("h2", { textContent: "Restored" }),
      make("p", { className: "good", textContent: `Its checks pass: ${bytesText(result.compressed)} became ${bytesText(result.original)} in ${secondsText(result.seconds)}.` }),
      make("div", { className: "row" }, link), this.preview(result, bytes)];
    const place = byId("restored");
    if (place && file !== this.file) place.replaceChildren(...parts);
    else this.results.replaceChildren(...parts);
  }

  preview(result, bytes) {
    const { looks, medium } = result;
    if (medium === "image") return make("div", { className: "pictures" }, make("img", { src: pngUrl(looks.picture), alt: "The restored image" }));
    if (medium === "sound") {
      return make("div", {}, ...(looks.spectrogram ? [make("img", { className: "spectrogram", src: pngUrl(looks.spectrogram), alt: "Spectrogram" })] : []), wavPlayer(bytes));
    }
    return make("p", { className: "sample long", textContent: [...looks.text].slice(0, 4000).join("") });
  }
}

// ---------------------------------------------------------------- the page

function showTabs(tabs) {
  const bar = byId("tabs");
  const select = (key) => {
    for (const tab of tabs) {
      const isChosen = tab.key === key, button = byId(`tab-${tab.key}`);
      button.setAttribute("aria-selected", isChosen);
      button.tabIndex = isChosen ? 0 : -1;
      byId(`panel-${tab.key}`).hidden = !isChosen;
    }
    history.replaceState(null, "", `#${key}`);
  };
  for (const tab of tabs) {
    const button = make("button", { id: `tab-${tab.key}`, type: "button", textContent: tab.title });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", `panel-${tab.key}`);
    button.addEventListener("click", () => select(tab.key));
    bar.append(button);
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const place = tabs.findIndex((tab) => byId(`tab-${tab.key}`) === document.activeElement);
    const next = tabs[(place + step + tabs.length) % tabs.length].key;
    select(next);
    byId(`tab-${next}`).focus();
  });
  const wanted = location.hash.slice(1);
  select(tabs.some((tab) => tab.key === wanted) ? wanted : tabs[0].key);
}

function listenToTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => { root.dataset.theme = theme; };
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const follow = () => apply(stored() ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", follow);
  byId("theme").addEventListener("click", () => {
    apply(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private */ }
  });
  follow();
}

async function begin() {
  listenToTheme();
  // A file that misses the drop areas must not replace the page.
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
  try {
    const response = await fetch("/api/models");
    if (!response.ok) throw new Error((await response.json()).error);
    const { models, limits } = await response.json();
    const of = (medium) => models.filter((m) => m.medium === medium);
    const exact = models.filter((m) => m.coding);
    const tabs = [
      { key: "images", title: "Images", models: of("images"), start: Images },
      { key: "text", title: "Text", models: of("text"), start: Texts },
      { key: "sound", title: "Sound", models: of("sound"), start: Sounds },
      { key: "compress", title: "Compress", models: exact, start: Compress },
    ].filter((tab) => tab.models.length);
    showTabs(tabs);
    for (const tab of tabs) new tab.start(tab.models, limits);
    byId("foot").textContent = models.map((m) => `${m.title}: ${m.medium}, trained on ${m.data}, ${whole(m.parameters)} parameters, ${m.stages} stage${m.stages === 1 ? "" : "s"}`).join(" · ");
    document.body.dataset.ready = "yes";
  } catch (error) {
    byId("welcome").textContent = error.message === "Failed to fetch" ? "the server does not answer; is `ardm serve` still running?" : error.message;
    byId("welcome").hidden = false;
  }
}

begin();
